// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_DAEMON_VERBS_IBV_XRCD_H_
#define QPBROKER_DAEMON_VERBS_IBV_XRCD_H_

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/unique_fd.h"
#include "daemon/verbs/ibv_context.h"
#include "daemon/verbs/verbs.h"
#include "daemon/verbs/verbs_calls.h"

namespace qpbroker::verbs {

// The context of its own of one opened handle; the handle goes with it. `count` is how many of
// these a domain has, and must outlive it.
class PrivateHandle {
 public:
  PrivateHandle(std::unique_ptr<IbvContext> context, std::atomic<int>& count)
      : context_(std::move(context)), count_(count) {
    ++count_;
  }
  ~PrivateHandle() {
    context_.reset();
    --count_;
  }
  PrivateHandle(const PrivateHandle&) = delete;
  PrivateHandle& operator=(const PrivateHandle&) = delete;

  const IbvProvider& provider() const { return context_->provider(); }

 private:
  std::unique_ptr<IbvContext> context_;
  std::atomic<int>& count_;
};

class IbvXrcd : public Xrcd {
 public:
  // `context` must outlive the result.
  static absl::StatusOr<std::unique_ptr<IbvXrcd>> Open(const IbvContext& context, int fd,
                                                       OpenXrcdMode mode);
  ~IbvXrcd() override;

  absl::StatusOr<std::unique_ptr<TargetQp>> CreateTargetQp() override;
  absl::StatusOr<std::unique_ptr<TargetQp>> OpenTargetQp(uint32_t qp_num) override;
  absl::Status Close() override;

 private:
  IbvXrcd(const IbvContext& context, ibv_xrcd* xrcd, UniqueFd file)
      : context_(context), xrcd_(xrcd), file_(std::move(file)) {}

  absl::StatusOr<std::unique_ptr<TargetQp>> OpenInPrivateContext(uint32_t qp_num);

  // Whether the kernel would call the domain busy if the private handles were in this context.
  bool IsBusyWithPrivateHandles() const;

  const IbvContext& context_;
  ibv_xrcd* xrcd_;  // Null: closed.
  // Handles in private contexts, which the kernel does not count as this one's.
  std::atomic<int> private_handles_ = 0;
  // The domain's file, where a private context will have to open the domain again.
  UniqueFd file_;
};

class IbvTargetQp : public TargetQp {
 public:
  // `private_handle`, where there is one, is what `qp` was opened in.
  IbvTargetQp(const IbvContext& context, ibv_qp* qp, std::unique_ptr<PrivateHandle> private_handle)
      : context_(context),
        private_handle_(std::move(private_handle)),
        qp_(qp),
        number_(qp->qp_num) {}
  ~IbvTargetQp() override;

  uint32_t number() const override { return number_; }
  absl::Status Modify(const QpAttributes& attributes, uint32_t mask) override;
  absl::StatusOr<QpAttributes> Query() override;
  absl::Status Destroy() override;

 private:
  absl::Status Error(Call call, int errno_value) const;

  const IbvContext& context_;
  std::unique_ptr<PrivateHandle> private_handle_;
  ibv_qp* qp_;  // Null: destroyed.
  const uint32_t number_;
};

}  // namespace qpbroker::verbs

#endif  // QPBROKER_DAEMON_VERBS_IBV_XRCD_H_
