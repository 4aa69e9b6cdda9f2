// SPDX-License-Identifier: Apache-2.0
//
// Does a client's whole job and kills itself on the way, for the crash sweeps here and in the lab.
//
//   crash_client RUNTIME_DIR DEVICE POINT     exit status 0: the job was done before POINT came
#include <cstdio>
#include <cstdlib>
#include <string>

#include "qpbroker/client.h"
#include "tests/support/fault_calls.h"

namespace {

template <class T>
T Need(qpbroker::Result<T> result, const char* call) {
  if (!result.ok()) {
    std::fprintf(stderr, "%s: %s\n", call, result.error().ToString().c_str());
    std::exit(1);
  }
  return *std::move(result);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: crash_client RUNTIME_DIR DEVICE POINT\n");
    return 2;
  }
  qpbroker::testing::KillAtPoint(std::atoi(argv[3]));
  using qpbroker::Client;
  Client client = Need(Client::Connect({.runtime_dir = argv[1]}), "connect");
  qpbroker::Xrcd domain =
      Need(client.OpenXrcd({.device = argv[2], .name = "crash", .create = true}), "OpenXrcd");
  qpbroker::Qp created = Need(client.CreateQp(domain.name(), {.key = "a0"}), "CreateQp");
  qpbroker::Qp opened = Need(client.OpenQp(domain.name(), created.number()), "OpenQp");
  qpbroker::ConnectQpOptions connect;
  connect.remote = {.qp_num = 0x4711, .psn = 5, .path = {.dlid = 1}};
  Need(client.ConnectQp(created.name(), connect), "ConnectQp");
  Need(client.QueryQp(created.name()), "QueryQp");
  Need(opened.Close(), "CloseQp");
  Need(client.DestroyQp(created.name()), "DestroyQp");
  Need(created.Close(), "CloseQp");
  Need(domain.Close(), "CloseXrcd");
  return 0;
}
