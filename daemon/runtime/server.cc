// SPDX-License-Identifier: Apache-2.0
//
// Order of start: lock the place, ask the keeper, make the broker, subscribe to device changes,
// take over what an earlier daemon left, look for devices, open the sockets. Order of stop: close
// the sockets, revoke the leases and give the kernel objects back, end the connections, and only
// then free the broker, whose destruction checks the books. Handing over to a successor is the end
// that every daemon must be able to meet: it stops where it stands, and leaves what the keeper has.
#include "daemon/runtime/server.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/error_reason.h"
#include "common/event_loop.h"
#include "common/version.h"
#include "daemon/core/broker.h"
#include "daemon/core/resource_name.h"
#include "daemon/rpc/connection_table.h"
#include "daemon/runtime/device_manager.h"
#include "daemon/runtime/inheritance.h"
#include "daemon/runtime/keeper_client.h"
#include "daemon/runtime/listener.h"
#include "daemon/runtime/strand_executor.h"
#include "daemon/session/domain_files.h"
#include "daemon/session/lease_watcher.h"
#include "daemon/session/session_server.h"
#include "daemon/telemetry/log.h"

namespace qpbroker::runtime {
namespace {

// Together well below any service manager's patience.
constexpr absl::Duration kReleaseTime = absl::Seconds(3);
constexpr absl::Duration kConnectionTime = absl::Seconds(2);
constexpr absl::Duration kCloseTime = absl::Seconds(1);
// A keeper that does not answer for so long is done without.
constexpr absl::Duration kKeeperTime = absl::Seconds(5);
// What systemd sends for a restart (RestartKillSignal=).
constexpr int kHandOverSignal = SIGUSR2;

class SystemEnvironment : public core::Environment {
 public:
  absl::Time Now() override { return absl::Now(); }
  uint64_t Random() override {
    uint64_t value = 0;
    // Eight bytes are never cut short, and the pool is ready long before a daemon starts.
    [[maybe_unused]] ssize_t n = getrandom(&value, sizeof(value), 0);
    return value;
  }
};

class LogJournal : public core::Journal {
 public:
  void ReleaseFailed(absl::string_view object, const absl::Status& why) override {
    telemetry::LogLimited(telemetry::Event::kReleaseFailed, object, why.message());
  }
  void Difference(absl::string_view object, absl::string_view action) override {
    telemetry::LogLimited(telemetry::Event::kDifference, object, action);
  }
};

core::Generation NewGeneration(core::Environment& environment) {
  constexpr uint64_t k48Bits = (uint64_t{1} << 48) - 1;
  uint64_t value = 0;
  while (value == 0) value = environment.Random() & k48Bits;
  return core::Generation(value);
}

// Leases are descriptors: as many as the system lets us have.
void RaiseFileLimit() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

absl::StatusOr<UniqueFd> TakeSignals() {
  std::signal(SIGPIPE, SIG_IGN);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, kHandOverSignal);
  if (int error = pthread_sigmask(SIG_BLOCK, &signals, nullptr); error != 0) {
    return ErrnoError(v1::REASON_INTERNAL, error, "pthread_sigmask");
  }
  UniqueFd fd(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd) return ErrnoError(v1::REASON_INTERNAL, errno, "signalfd");
  return fd;
}

class Server {
 public:
  Server(const Config& config, verbs::Verbs& verbs, UniqueFd signals,
         std::unique_ptr<session::DomainFiles> files, std::unique_ptr<KeeperClient> keeper,
         Inheritance inheritance)
      : config_(config),
        signals_(std::move(signals)),
        files_(std::move(files)),
        keeper_(std::move(keeper)),
        inheritance_(std::move(inheritance)),
        executor_(config.verbs_threads),
        leases_(
            loop_, [this](core::LeaseId id) { broker_.LeaseHolderGone(id); }, inheritance_.life),
        broker_({inheritance_.generation, inheritance_.life, config.quotas},
                {&leases_, files_.get(), &delivery_, keeper_.get(), &executor_, &environment_,
                 &journal_}),
        sessions_(loop_, broker_, delivery_, config.attach_timeout),
        connections_(loop_, broker_, [this](core::SessionId id) { sessions_.End(id); }),
        devices_(std::make_unique<DeviceManager>(loop_, verbs, broker_, executor_)) {}

  absl::Status Start(DeviceChanges* changes) {
    if (changes != nullptr) {
      absl::Status watched = loop_.Watch(changes->fd(), EPOLLIN, [this, changes](uint32_t) {
        changes->Drain();
        devices_->Scan();
      });
      if (!watched.ok()) return watched;
    }
    keeper_->Start(loop_);
    TakeOver();
    if (absl::Status status = files_->RemoveStrangers(); !status.ok()) return status;
    devices_->Scan();
    if (absl::Status status = OpenSockets(); !status.ok()) return status;
    ProbeLater();
    return loop_.Watch(signals_.get(), EPOLLIN, [this](uint32_t) { OnSignal(); });
  }

  void Run() { loop_.Run(); }

  // Whether it was asked to leave everything to a successor.
  bool hands_over() const { return hands_over_; }
  void Leave() { keeper_->Leave(); }
  void Forget() { keeper_->Forget(); }

  // False: something did not come back in time, and nothing of the server may be freed.
  bool Stop() {
    listeners_.clear();
    broker_.Shutdown();
    const bool released = executor_.AwaitIdle(kReleaseTime);
    const bool ended = connections_.Shutdown(kConnectionTime);
    // Closing a device is a call into it, too.
    devices_.reset();
    const bool closed = executor_.AwaitIdle(kCloseTime);
    return released && ended && closed;
  }

  core::Generation generation() const { return broker_.generation(); }

 private:
  void TakeOver() {
    if (inheritance_.kept.empty()) return;
    for (const std::string& name : inheritance_.Devices()) devices_->OpenNow(name);
    const core::RestoreReport report = broker_.Restore(std::move(inheritance_.kept));
    telemetry::Log(
        telemetry::Event::kTookOver,
        absl::StrCat(report.xrcds, " domains, ", report.qps, " QPs, ", report.leases, " leases; ",
                     report.ended_leases, " leases had ended, ", report.revoked_leases,
                     " were revoked, ", report.differences, " differences"));
  }

  absl::Status OpenSockets() {
    auto add = [this](const SocketConfig& socket, int type, Listener::OnAccept on_accept) {
      absl::StatusOr<std::unique_ptr<Listener>> opened =
          Listener::Open(loop_, socket, type, std::move(on_accept));
      if (opened.ok()) listeners_.push_back(*std::move(opened));
      return opened.status();
    };
    auto serve = [this](core::Scope scope) {
      return [this, scope](UniqueFd socket) { connections_.Adopt(std::move(socket), scope); };
    };
    absl::Status status = add(config_.session_socket, SOCK_SEQPACKET,
                              [this](UniqueFd socket) { sessions_.Adopt(std::move(socket)); });
    if (status.ok()) status = add(config_.api_socket, SOCK_STREAM, serve(core::Scope::kOwn));
    if (status.ok()) status = add(config_.inspect_socket, SOCK_STREAM, serve(core::Scope::kAll));
    if (status.ok()) status = add(config_.admin_socket, SOCK_STREAM, serve(core::Scope::kAll));
    return status;
  }

  void ProbeLater() {
    loop_.After(config_.lingering_probe_interval, [this] {
      broker_.ProbeLingering();
      ProbeLater();
    });
  }

  void OnSignal() {
    signalfd_siginfo signal;
    if (read(signals_.get(), &signal, sizeof(signal)) != sizeof(signal)) return;
    hands_over_ = signal.ssi_signo == static_cast<uint32_t>(kHandOverSignal);
    telemetry::Log(hands_over_ ? telemetry::Event::kHandingOver : telemetry::Event::kStopping,
                   absl::StrCat("signal ", signal.ssi_signo, " from pid ", signal.ssi_pid));
    loop_.Stop();
  }

  const Config config_;
  const UniqueFd signals_;
  SystemEnvironment environment_;
  LogJournal journal_;
  const std::unique_ptr<session::DomainFiles> files_;
  EventLoop loop_;
  const std::unique_ptr<KeeperClient> keeper_;
  Inheritance inheritance_;
  bool hands_over_ = false;
  session::FdDelivery delivery_;
  StrandExecutor executor_;
  session::LeaseWatcher leases_;
  core::Broker broker_;
  session::SessionServer sessions_;
  rpc::ConnectionTable connections_;
  std::unique_ptr<DeviceManager> devices_;
  std::vector<std::unique_ptr<Listener>> listeners_;
};

absl::StatusOr<Inheritance> AskKeeper(KeeperClient& keeper) {
  SystemEnvironment environment;
  const core::Generation fresh = NewGeneration(environment);
  absl::StatusOr<std::vector<core::KeptObject>> kept = keeper.TakeAll(kKeeperTime);
  if (!kept.ok()) {
    telemetry::Log(telemetry::Event::kKeeperLost, kept.status().message());
    kept = std::vector<core::KeptObject>();
  }
  absl::StatusOr<Inheritance> inheritance = Inherit(*std::move(kept), keeper, fresh);
  if (!inheritance.ok()) keeper.Leave();
  return inheritance;
}

}  // namespace

absl::Status Serve(const Config& config, verbs::Verbs& verbs, DeviceChanges* changes) {
  absl::StatusOr<UniqueFd> lock = LockRuntimeDirectory(config.runtime_dir);
  if (!lock.ok()) return lock.status();
  absl::StatusOr<std::unique_ptr<session::DomainFiles>> files =
      session::DomainFiles::Open(config.state_dir);
  if (!files.ok()) return files.status();
  absl::StatusOr<UniqueFd> signals = TakeSignals();
  if (!signals.ok()) return signals.status();
  RaiseFileLimit();
  telemetry::StartLog(config.log_level);
  rpc::InitServices();

  auto keeper = std::make_unique<KeeperClient>(config.keeper_socket);
  absl::StatusOr<Inheritance> inheritance = AskKeeper(*keeper);
  if (!inheritance.ok()) return inheritance.status();

  auto server = std::make_unique<Server>(config, verbs, *std::move(signals), *std::move(files),
                                         std::move(keeper), *std::move(inheritance));
  absl::Status started = server->Start(changes);
  if (started.ok()) {
    telemetry::Log(telemetry::Event::kStarted,
                   absl::StrCat("qpbrokerd ", kVersion, " serves ", config.runtime_dir,
                                ", generation ", core::FormatGeneration(server->generation())));
    server->Run();
  }
  if (server->hands_over()) {
    server->Leave();
    telemetry::StopLog();
    _exit(0);
  }
  if (!server->Stop()) {
    server->Forget();
    telemetry::Log(telemetry::Event::kStopTimedOut,
                   "a call into a device does not come back; leaving it to the kernel");
    telemetry::StopLog();
    _exit(started.ok() ? 0 : 1);
  }
  server.reset();
  if (started.ok()) telemetry::Log(telemetry::Event::kStopped, "every object was given back");
  if (!telemetry::StopLog()) _exit(started.ok() ? 0 : 1);
  return started;
}

}  // namespace qpbroker::runtime
