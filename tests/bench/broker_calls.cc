// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <memory>
#include <thread>

#include "qpbroker/client.h"
#include "tests/bench/contestants.h"

namespace qpbroker::bench {
namespace {

template <class T>
T Need(Result<T> result) {
  if (!result.ok()) Die(result.error().ToString());
  return *std::move(result);
}

// The daemon may still be starting.
std::shared_ptr<Client> ConnectToDaemon(const std::string& runtime_dir) {
  for (int tries = 0; tries < 500; ++tries) {
    Result<Client> client = Client::Connect({.runtime_dir = runtime_dir});
    if (client.ok() && !client->ListDevices()->empty()) {
      return std::make_shared<Client>(*std::move(client));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  Die("no daemon in " + runtime_dir);
}

// What has to be there for the warm path: somebody holds the QP.
struct Warm {
  std::shared_ptr<Client> client;
  Xrcd domain;
  Qp qp;
};

}  // namespace

Contestant WhoAmI(const std::string& runtime_dir) {
  std::shared_ptr<Client> client = ConnectToDaemon(runtime_dir);
  return {"WhoAmI", [client] { Need(client->WhoAmI()); }};
}

Contestant OpenQp(const std::string& runtime_dir) {
  std::shared_ptr<Client> client = ConnectToDaemon(runtime_dir);
  Xrcd domain = Need(client->OpenXrcd({.device = "fake0", .name = "bench", .create = true}));
  Qp qp = Need(client->CreateQp(domain.name()));
  auto warm = std::make_shared<Warm>(Warm{client, std::move(domain), std::move(qp)});
  // The lease's descriptor is closed at the end of the statement.
  return {"OpenQp + fd",
          [warm] { Need(warm->client->OpenQp(warm->domain.name(), warm->qp.number())); }};
}

}  // namespace qpbroker::bench
