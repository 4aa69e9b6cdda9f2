// SPDX-License-Identifier: Apache-2.0
// Opens an XRC domain on a device, and in it the target QP "rank-0", and prints how a remote side
// reaches it. Run it twice at once: both get the same QP.
//
//   open_qp DEVICE [RUNTIME_DIR]
#include <cstdio>
#include <cstdlib>

#include "qpbroker/client.h"

namespace {

int Fail(const qpbroker::Error& error) {
  std::fprintf(stderr, "open_qp: %s\n", error.ToString().c_str());
  return EXIT_FAILURE;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::fprintf(stderr, "usage: open_qp DEVICE [RUNTIME_DIR]\n");
    return EXIT_FAILURE;
  }
  qpbroker::ConnectOptions options;
  if (argc == 3) options.runtime_dir = argv[2];

  qpbroker::Result<qpbroker::Client> client = qpbroker::Client::Connect(options);
  if (!client.ok()) return Fail(client.error());

  qpbroker::Result<qpbroker::Xrcd> domain =
      client->OpenXrcd({.device = argv[1], .name = "example", .create = true});
  if (!domain.ok()) return Fail(domain.error());

  qpbroker::Result<qpbroker::Qp> qp = client->CreateQp(domain->name(), {.key = "rank-0"});
  if (!qp.ok()) return Fail(qp.error());

  std::printf("domain   %s (%s)\n", domain->name().c_str(),
              domain->created() ? "created" : "opened");
  std::printf("qp       %s (%s)\n", qp->name().c_str(), qp->created() ? "created" : "opened");
  if (const auto& endpoint = qp->endpoint()) {
    std::printf("endpoint qp_num=0x%06x port=%u lid=%u mtu=%u psn=0x%06x\n", endpoint->qp_num,
                endpoint->port, endpoint->lid, endpoint->mtu, endpoint->psn);
  }

  // Leaving main would do: the leases are given back when their descriptors close. Close also
  // answers.
  qpbroker::Result<uint32_t> left = qp->Close();
  if (!left.ok()) return Fail(left.error());
  std::printf("closed   %u lease(s) of others left\n", *left);
  return EXIT_SUCCESS;
}
