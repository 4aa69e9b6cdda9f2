// SPDX-License-Identifier: Apache-2.0
#include "daemon/verbs/fake_verbs.h"

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/error_reason.h"
#include "daemon/verbs/verbs_calls.h"

namespace qpbroker::verbs {
// A process's open device. The objects made through it share it; Kill ends it under them.
class FakeProcessContext {
 public:
  FakeProcessContext(FakeKernel& kernel, FakeKernel::OpenedContext opened)
      : kernel_(kernel), opened_(std::move(opened)) {}

  // Once; later calls do nothing.
  void Close() {
    if (!closed_.exchange(true)) {
      kernel_.CloseContext(*opened_.context, std::move(opened_.context_fd));
    }
  }

  bool closed() const { return closed_; }
  const DeviceInfo& info() const { return opened_.info; }
  int context_fd() const { return opened_.context_fd.get(); }
  int event_fd() const { return opened_.event_fd.get(); }

  // Makes a kernel call on this context.
  template <typename Method, typename... Arguments>
  int Call(Method method, Arguments&&... arguments) {
    if (closed_) return EBADF;
    return (kernel_.*method)(*opened_.context, std::forward<Arguments>(arguments)...);
  }
  std::optional<AsyncEvent> NextEvent() { return kernel_.NextEvent(*opened_.context); }

 private:
  FakeKernel& kernel_;
  FakeKernel::OpenedContext opened_;
  std::atomic<bool> closed_ = false;
};

class FakeTargetQp : public TargetQp {
 public:
  FakeTargetQp(std::shared_ptr<FakeProcessContext> context, FakeKernel::Handle handle,
               uint32_t number)
      : context_(std::move(context)), handle_(handle), number_(number) {}
  ~FakeTargetQp() override { Destroy().IgnoreError(); }

  uint32_t number() const override { return number_; }

  absl::Status Modify(const QpAttributes& attributes, uint32_t mask) override {
    if (absl::Status status = CheckModifyArguments(attributes, mask); !status.ok()) return status;
    return StatusOf(Call::kModifyQp,
                    context_->Call(&FakeKernel::ModifyQp, handle_, attributes, mask));
  }

  absl::StatusOr<QpAttributes> Query() override {
    QpAttributes attributes;
    int error = context_->Call(&FakeKernel::QueryQp, handle_, attributes);
    if (error != 0) return StatusOf(Call::kQueryQp, error);
    return attributes;
  }

  absl::Status Destroy() override {
    if (spent_ || context_->closed()) return absl::OkStatus();
    int error = context_->Call(&FakeKernel::DestroyQp, handle_);
    spent_ = error == 0;
    return spent_ ? absl::OkStatus() : StatusOf(Call::kDestroyQp, error);
  }

 private:
  absl::Status StatusOf(Call call, int error) const {
    if (error == 0) return absl::OkStatus();
    return CallError(call, error,
                     {{"device", context_->info().name}, {"qp_num", QpNumberText(number_)}});
  }

  const std::shared_ptr<FakeProcessContext> context_;
  const FakeKernel::Handle handle_;
  const uint32_t number_;
  bool spent_ = false;
};

class FakeXrcd : public Xrcd {
 public:
  FakeXrcd(std::shared_ptr<FakeProcessContext> context, FakeKernel::Handle handle)
      : context_(std::move(context)), handle_(handle) {}
  ~FakeXrcd() override { Close().IgnoreError(); }

  absl::StatusOr<std::unique_ptr<TargetQp>> CreateTargetQp() override {
    FakeKernel::Handle handle = 0;
    uint32_t number = 0;
    int error = context_->Call(&FakeKernel::CreateQp, handle_, handle, number);
    if (error != 0) return CallError(Call::kCreateQp, error, {{"device", context_->info().name}});
    return std::make_unique<FakeTargetQp>(context_, handle, number);
  }

  absl::StatusOr<std::unique_ptr<TargetQp>> OpenTargetQp(uint32_t qp_num) override {
    FakeKernel::Handle handle = 0;
    int error = context_->Call(&FakeKernel::OpenQp, handle_, qp_num, handle);
    if (error != 0) {
      return CallError(Call::kOpenQp, error,
                       {{"device", context_->info().name}, {"qp_num", QpNumberText(qp_num)}});
    }
    return std::make_unique<FakeTargetQp>(context_, handle, qp_num);
  }

  absl::Status Close() override {
    if (spent_ || context_->closed()) return absl::OkStatus();
    int error = context_->Call(&FakeKernel::CloseXrcd, handle_);
    spent_ = error == 0;
    if (spent_) return absl::OkStatus();
    return CallError(Call::kCloseXrcd, error, {{"device", context_->info().name}});
  }

 private:
  const std::shared_ptr<FakeProcessContext> context_;
  const FakeKernel::Handle handle_;
  bool spent_ = false;
};

class FakeDevice : public Device {
 public:
  explicit FakeDevice(std::shared_ptr<FakeProcessContext> context) : context_(std::move(context)) {}
  ~FakeDevice() override { context_->Close(); }

  const DeviceInfo& info() const override { return context_->info(); }

  absl::StatusOr<std::vector<PortInfo>> QueryPorts() override {
    std::vector<PortInfo> ports;
    int error = context_->Call(&FakeKernel::QueryPorts, ports);
    if (error != 0) return CallError(Call::kQueryPort, error, {{"device", info().name}});
    return ports;
  }

  absl::StatusOr<std::unique_ptr<Xrcd>> OpenXrcd(int fd, OpenXrcdMode mode) override {
    if (!info().xrc_supported) {
      return MakeError(v1::REASON_XRC_NOT_SUPPORTED,
                       absl::StrCat(info().name, ": ", info().xrc_unsupported_reason),
                       {{"device", info().name}});
    }
    absl::StatusOr<struct stat> file = StatDomainFile(fd);
    if (!file.ok()) return file.status();
    FakeKernel::Inode inode = {file->st_dev, file->st_ino};
    FakeKernel::Handle handle = 0;
    int error = context_->Call(&FakeKernel::OpenXrcd, fd, inode, mode, handle);
    if (error != 0) return OpenXrcdError(mode, error, {{"device", info().name}});
    return std::make_unique<FakeXrcd>(context_, handle);
  }

  int context_fd() const override { return context_->context_fd(); }
  int event_fd() const override { return context_->event_fd(); }

  absl::StatusOr<std::optional<AsyncEvent>> NextEvent() override {
    if (context_->closed()) return CallError(Call::kGetEvent, EBADF, {{"device", info().name}});
    return context_->NextEvent();
  }

 private:
  const std::shared_ptr<FakeProcessContext> context_;
};

absl::StatusOr<std::vector<std::string>> FakeVerbs::ListDevices() {
  std::vector<std::string> names;
  int error = kernel_.ListDevices(names);
  if (error != 0) return CallError(Call::kListDevices, error);
  return names;
}

absl::StatusOr<std::unique_ptr<Device>> FakeVerbs::OpenDevice(const std::string& name) {
  FakeKernel::OpenedContext opened;
  int error = kernel_.OpenDevice(name, opened);
  if (error != 0) return CallError(Call::kOpenDevice, error, {{"device", name}});
  auto context = std::make_shared<FakeProcessContext>(kernel_, std::move(opened));
  {
    std::lock_guard lock(mutex_);
    std::erase_if(contexts_, [](const auto& known) { return known.expired(); });
    contexts_.push_back(context);
  }
  return std::make_unique<FakeDevice>(std::move(context));
}

void FakeVerbs::Kill() {
  std::lock_guard lock(mutex_);
  for (const std::weak_ptr<FakeProcessContext>& known : contexts_) {
    if (std::shared_ptr<FakeProcessContext> context = known.lock()) context->Close();
  }
  contexts_.clear();
}

std::unique_ptr<FakeKernel> MakeLaptopKernel() {
  auto kernel = std::make_unique<FakeKernel>();
  kernel->AddDevice({.name = "fake0", .ports = {FakePort(1), FakePort(2)}});
  return kernel;
}

}  // namespace qpbroker::verbs
