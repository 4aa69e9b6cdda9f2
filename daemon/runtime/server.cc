// SPDX-License-Identifier: Apache-2.0
//
// Order of start: lock the place, make the broker, subscribe to device changes, look for devices,
// open the sockets. Order of stop: close the sockets, revoke the leases and give the kernel objects
// back, end the connections, and only then free the broker, whose destruction checks the books.
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
         std::unique_ptr<session::DomainFiles> files)
      : config_(config),
        signals_(std::move(signals)),
        files_(std::move(files)),
        executor_(config.verbs_threads),
        leases_(loop_, [this](core::LeaseId id) { broker_.LeaseHolderGone(id); }),
        broker_({NewGeneration(environment_), config.quotas},
                {&leases_, files_.get(), &delivery_, &executor_, &environment_, &journal_}),
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
    devices_->Scan();
    if (absl::Status status = OpenSockets(); !status.ok()) return status;
    ProbeLater();
    return loop_.Watch(signals_.get(), EPOLLIN, [this](uint32_t) { OnSignal(); });
  }

  void Run() { loop_.Run(); }

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
    telemetry::Log(telemetry::Event::kStopping,
                   absl::StrCat("signal ", signal.ssi_signo, " from pid ", signal.ssi_pid));
    loop_.Stop();
  }

  const Config config_;
  const UniqueFd signals_;
  SystemEnvironment environment_;
  LogJournal journal_;
  const std::unique_ptr<session::DomainFiles> files_;
  EventLoop loop_;
  session::FdDelivery delivery_;
  StrandExecutor executor_;
  session::LeaseWatcher leases_;
  core::Broker broker_;
  session::SessionServer sessions_;
  rpc::ConnectionTable connections_;
  std::unique_ptr<DeviceManager> devices_;
  std::vector<std::unique_ptr<Listener>> listeners_;
};

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

  auto server = std::make_unique<Server>(config, verbs, *std::move(signals), *std::move(files));
  absl::Status started = server->Start(changes);
  if (started.ok()) {
    telemetry::Log(telemetry::Event::kStarted,
                   absl::StrCat("qpbrokerd ", kVersion, " serves ", config.runtime_dir,
                                ", generation ", core::FormatGeneration(server->generation())));
    server->Run();
  }
  if (!server->Stop()) {
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
