// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_DAEMON_RPC_CALLER_CONTEXT_H_
#define QPBROKER_DAEMON_RPC_CALLER_CONTEXT_H_

// Who is at the other end of a connection, for the services that serve it.

#include <atomic>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "common/error_reason.h"
#include "daemon/core/broker.h"
#include "daemon/core/identity.h"

namespace qpbroker::rpc {

// Credentials are those of connect time and never change; the session is set once. An answer that
// comes later keeps the context, and with it the server that sends it, alive by Keep. Any thread.
class CallerContext : public std::enable_shared_from_this<CallerContext> {
 public:
  CallerContext(core::Broker& broker, core::Caller caller)
      : broker_(broker), before_attach_(std::move(caller)), caller_(&before_attach_) {}
  virtual ~CallerContext() = default;
  CallerContext(const CallerContext&) = delete;
  CallerContext& operator=(const CallerContext&) = delete;

  core::Broker& broker() const { return broker_; }
  const core::Caller& caller() const { return *caller_.load(std::memory_order_acquire); }

  // Null when the connection has ended and its server is being shut down: a call may still come in
  // then, and must not begin anything.
  std::shared_ptr<CallerContext> Keep() { return weak_from_this().lock(); }

  // Joins the connection with the session of `nonce`.
  absl::StatusOr<core::SessionId> Attach(absl::string_view nonce) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (ended_) return MakeError(v1::REASON_SESSION_GONE);
    absl::StatusOr<core::SessionId> session = broker_.Attach(caller(), nonce);
    if (session.ok()) {
      attached_.emplace(before_attach_);
      attached_->session = *session;
      caller_.store(&*attached_, std::memory_order_release);
    }
    return session;
  }

  // The connection ended: no Attach succeeds any more. The session that ends with it.
  std::optional<core::SessionId> End() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    ended_ = true;
    return caller().session;
  }

 private:
  core::Broker& broker_;
  const core::Caller before_attach_;
  std::atomic<const core::Caller*> caller_;
  absl::Mutex mutex_;  // One Attach at a time, and none after the end.
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<core::Caller> attached_;  // Written before caller_ points to it, and only then.
};

}  // namespace qpbroker::rpc

#endif  // QPBROKER_DAEMON_RPC_CALLER_CONTEXT_H_
