// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_CLIENT_SRC_TESTING_FAKE_DAEMON_H_
#define QPBROKER_CLIENT_SRC_TESTING_FAKE_DAEMON_H_

// A daemon in the test's own process, without devices, that answers honestly until it is told not
// to.
//
//   FakeDaemon daemon;
//   daemon.OnDeliver([](int session, const FakeDaemon::Delivery& delivery) { /* nothing comes */
//   }); Result<Client> client = Client::Connect({.runtime_dir = daemon.dir()});
//
// It delivers to the session that was attached last. Threads: any.

#include <grpcpp/server.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "client/src/testing/grant_fds.h"
#include "common/event_record.h"
#include "common/unique_fd.h"
#include "qpbroker/v1/broker.grpc.pb.h"
#include "qpbroker/v1/session.pb.h"

namespace qpbroker::client::testing {

class FakeDaemon final : public v1::BrokerService::Service {
 public:
  // What an honest daemon would send. `fds` stay the daemon's.
  struct Delivery {
    std::string request_id = {};
    uint64_t grant_id = 0;
    std::vector<v1::FdKind> kinds = {};
    std::vector<int> fds = {};

    std::string bytes() const;
  };

  FakeDaemon();
  ~FakeDaemon() override;

  const std::string& dir() const { return dir_; }

  // In place of the greeting; the session is closed when it returns.
  void OnGreet(std::function<void(int session)> greet);
  // In place of the delivery.
  void OnDeliver(std::function<void(int session, const Delivery& delivery)> deliver);
  // Before the answer of every granting call, after its delivery; may block.
  void OnAnswer(std::function<void(grpc::ServerContext& context)> answer);
  // All three honest again; closes what PrepareGrant made.
  void Behave();

  // Opens the descriptors of the next grant now and keeps copies, so that granting it neither needs
  // nor makes room for descriptors in this process.
  void PrepareGrant();

  // Grants whose lease some process holds. Forgets those that nobody holds.
  int HeldLeases();
  // Writes into the pipe of the newest grant.
  void SendEvent(const EventRecord& record);
  // Closes the daemon's end of every lease.
  void HangUpLeases();
  // Closes the daemon's end of sessions whose client is gone; returns how many are left.
  size_t ForgetDeadSessions();
  // Ends all sessions, or the gRPC connections with the calls in them.
  void CloseSessions();
  void StopApi();

  grpc::Status WhoAmI(grpc::ServerContext*, const v1::WhoAmIRequest*, v1::WhoAmIResponse*) override;
  grpc::Status Attach(grpc::ServerContext*, const v1::AttachRequest*, v1::AttachResponse*) override;
  grpc::Status ListDevices(grpc::ServerContext*, const v1::ListDevicesRequest*,
                           v1::ListDevicesResponse*) override;
  // Fails with PERMISSION_DENIED for the name "forbidden".
  grpc::Status OpenXrcd(grpc::ServerContext*, const v1::OpenXrcdRequest*,
                        v1::OpenXrcdResponse*) override;
  grpc::Status CreateQp(grpc::ServerContext*, const v1::CreateQpRequest*,
                        v1::CreateQpResponse*) override;
  grpc::Status OpenQp(grpc::ServerContext*, const v1::OpenQpRequest*, v1::OpenQpResponse*) override;
  grpc::Status ModifyQp(grpc::ServerContext*, const v1::ModifyQpRequest*,
                        v1::ModifyQpResponse*) override;
  grpc::Status ConnectQp(grpc::ServerContext*, const v1::ConnectQpRequest*,
                         v1::ConnectQpResponse*) override;
  grpc::Status QueryQp(grpc::ServerContext*, const v1::QueryQpRequest*,
                       v1::QueryQpResponse*) override;
  grpc::Status CloseQp(grpc::ServerContext*, const v1::CloseQpRequest*,
                       v1::CloseQpResponse*) override;
  grpc::Status DestroyQp(grpc::ServerContext*, const v1::DestroyQpRequest*,
                         v1::DestroyQpResponse*) override;
  grpc::Status CloseXrcd(grpc::ServerContext*, const v1::CloseXrcdRequest*,
                         v1::CloseXrcdResponse*) override;
  grpc::Status DestroyXrcd(grpc::ServerContext*, const v1::DestroyXrcdRequest*,
                           v1::DestroyXrcdResponse*) override;
  grpc::Status ListDomainQps(grpc::ServerContext*, const v1::ListDomainQpsRequest*,
                             v1::ListDomainQpsResponse*) override;

 private:
  void AcceptSessions();
  void ForgetReleasedLeases();  // With mutex_ held.
  // Delivers as the hooks say, and fills in the grant.
  void MakeGrant(grpc::ServerContext& context, const std::string& request_id,
                 const std::string& text, const std::vector<v1::FdKind>& kinds, v1::Grant& grant);
  // Closes the daemon's end of the lease `name`; false if there is none.
  bool CloseLease(const std::string& name);

  const std::string dir_;
  UniqueFd listener_;
  UniqueFd stop_;  // eventfd: AcceptSessions ends.

  std::mutex mutex_;
  std::function<void(int)> greet_;
  std::function<void(int, const Delivery&)> deliver_;
  std::function<void(grpc::ServerContext&)> answer_;
  std::optional<GrantFds> prepared_;
  std::map<uint64_t, UniqueFd> leases_;
  std::map<std::string, std::shared_ptr<UniqueFd>> sessions_;  // By nonce.
  std::shared_ptr<UniqueFd> attached_;
  uint64_t last_grant_ = 0;
  int last_session_ = 0;

  std::unique_ptr<grpc::Server> server_;
  std::thread accepter_;
};

}  // namespace qpbroker::client::testing

#endif  // QPBROKER_CLIENT_SRC_TESTING_FAKE_DAEMON_H_
