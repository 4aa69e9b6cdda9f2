// SPDX-License-Identifier: Apache-2.0
// As in uverbs, every handle belongs to a context and dies with it. A context dies when the last
// copy of its descriptor is closed, in whatever process: here the descriptor is one end of a pipe
// and the kernel holds the other, which reports POLLERR from then on. It is looked at on the way
// into each call.
#include "daemon/verbs/fake_kernel.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "daemon/verbs/fake_qp_states.h"

namespace qpbroker::verbs {
namespace {

// mlx4 marks the numbers of XRC QPs by this bit, and its user-space driver relies on it.
constexpr uint32_t kXrcNumberBit = 1u << 23;
constexpr uint32_t kFirstNumber = 0x40;

// Of enum ibv_event_type.
constexpr uint32_t kEventQpFatal = 1;
constexpr uint32_t kEventDeviceFatal = 8;
constexpr uint32_t kEventPortActive = 9;
constexpr uint32_t kEventPortErr = 10;

bool IsAboutQp(const AsyncEvent& event) {
  return event.kind == AsyncEventKind::kQpFatal || event.kind == AsyncEventKind::kQpOther;
}

void TakeCount(const UniqueFd& event_fd) {
  eventfd_t count = 0;
  if (eventfd_read(event_fd.get(), &count) != 0) std::abort();
}

bool IsReleased(const UniqueFd& liveness) {
  pollfd poll_fd = {liveness.get(), 0, 0};
  return poll(&poll_fd, 1, 0) > 0 && (poll_fd.revents & POLLERR) != 0;
}

uint32_t NextNumber(uint32_t last) {
  uint32_t next = (last + 1) | kXrcNumberBit;
  return next <= 0xffffff ? next : (kFirstNumber | kXrcNumberBit);
}

}  // namespace

PortInfo FakePort(uint8_t number) {
  PortInfo port;
  port.number = number;
  port.state = PortState::kActive;
  port.link_layer = LinkLayer::kInfiniBand;
  port.lid = number;
  port.active_mtu = 4096;
  port.gids = {Gid{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0x02, 0xc9, 0x03, 0, 0, 0, number}};
  port.pkeys = {0xffff};
  return port;
}

FakeKernel::~FakeKernel() {
  // Contexts of which a stray copy of the descriptor was left.
  for (const std::shared_ptr<Context>& context : contexts_) Release(*context);
}

void FakeKernel::AddDevice(FakeDeviceOptions options) {
  std::lock_guard lock(mutex_);
  auto device = std::make_shared<HwDevice>();
  device->last_number = kFirstNumber | kXrcNumberBit;
  device->options = std::move(options);
  if (!devices_.emplace(device->options.name, device).second) std::abort();
}

void FakeKernel::RemoveDevice(const std::string& name) {
  std::lock_guard lock(mutex_);
  auto found = devices_.find(name);
  if (found == devices_.end()) std::abort();
  std::shared_ptr<HwDevice> device = found->second;
  devices_.erase(found);
  device->removed = true;
  for (const std::shared_ptr<Context>& context : contexts_) {
    if (context->device != device) continue;
    context->xrcds.clear();
    context->qps.clear();
    Post(*context, {.kind = AsyncEventKind::kDeviceFatal, .type = kEventDeviceFatal});
  }
  device->qps.clear();
  device->domains.clear();
}

void FakeKernel::SetPortState(const std::string& device_name, uint8_t number, PortState state) {
  std::lock_guard lock(mutex_);
  HwDevice& device = DeviceNamed(device_name);
  for (PortInfo& port : device.options.ports) {
    if (port.number != number) continue;
    const bool was_active = port.state == PortState::kActive;
    const bool is_active = state == PortState::kActive;
    port.state = state;
    if (was_active == is_active) return;
    PostToAll(device, {.kind = is_active ? AsyncEventKind::kPortActive : AsyncEventKind::kPortDown,
                       .port = number,
                       .type = is_active ? kEventPortActive : kEventPortErr});
  }
}

void FakeKernel::SetPort(const std::string& device_name, const PortInfo& port) {
  std::lock_guard lock(mutex_);
  for (PortInfo& present : DeviceNamed(device_name).options.ports) {
    if (present.number == port.number) present = port;
  }
}

void FakeKernel::RaiseEvent(const std::string& device_name, const AsyncEvent& event) {
  std::lock_guard lock(mutex_);
  HwDevice& device = DeviceNamed(device_name);
  if (!IsAboutQp(event)) {
    PostToAll(device, event);
    return;
  }
  auto qp = device.qps.find(event.qp_num);
  if (qp == device.qps.end()) return;
  AsyncEvent posted = event;
  if (event.kind == AsyncEventKind::kQpFatal) {
    qp->second.attributes.state = QpState::kErr;
    if (posted.type == 0) posted.type = kEventQpFatal;
  }
  for (const std::shared_ptr<Context>& context : contexts_) {
    if (context->qps.contains(qp->second.creator)) Post(*context, posted);
  }
}

void FakeKernel::FailNthCall(int n, int errno_value) {
  std::lock_guard lock(mutex_);
  faults_[calls_ + n] = errno_value;
}

void FakeKernel::ClearFaults() {
  std::lock_guard lock(mutex_);
  faults_.clear();
}

int FakeKernel::calls_made() const {
  std::lock_guard lock(mutex_);
  return calls_;
}

void FakeKernel::Block(Call call) {
  std::lock_guard lock(mutex_);
  blocked_.insert(call);
}

void FakeKernel::Unblock(Call call) {
  std::lock_guard lock(mutex_);
  blocked_.erase(call);
  changed_.notify_all();
}

void FakeKernel::AwaitBlocked(Call call, int count) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return held_[call] >= count; });
}

size_t FakeKernel::contexts() {
  std::lock_guard lock(mutex_);
  Reap();
  return contexts_.size();
}

size_t FakeKernel::xrcds() {
  std::lock_guard lock(mutex_);
  Reap();
  size_t count = 0;
  for (const auto& [name, device] : devices_) count += device->domains.size();
  return count;
}

size_t FakeKernel::qps() { return ListQps().size(); }

std::vector<FakeQpInfo> FakeKernel::ListQps() {
  std::lock_guard lock(mutex_);
  Reap();
  std::vector<FakeQpInfo> list;
  for (const auto& [name, device] : devices_) {
    for (const auto& [number, qp] : device->qps) {
      list.push_back({name, number, qp.handles, qp.attributes});
    }
  }
  return list;
}

int FakeKernel::Enter(Call call, std::unique_lock<std::mutex>& lock) {
  const int number = ++calls_;
  ++held_[call];
  changed_.notify_all();
  changed_.wait(lock, [&] { return !blocked_.contains(call); });
  --held_[call];
  Reap();
  auto fault = faults_.find(number);
  if (fault == faults_.end()) return 0;
  const int errno_value = fault->second;
  faults_.erase(fault);
  return errno_value;
}

int FakeKernel::ListDevices(std::vector<std::string>& names) {
  std::unique_lock lock(mutex_);
  if (int error = Enter(Call::kListDevices, lock); error != 0) return error;
  for (const auto& [name, device] : devices_) names.push_back(name);
  return 0;
}

int FakeKernel::OpenDevice(const std::string& name, OpenedContext& opened) {
  std::unique_lock lock(mutex_);
  if (int error = Enter(Call::kOpenDevice, lock); error != 0) return error;
  auto found = devices_.find(name);
  if (found == devices_.end()) return ENODEV;
  auto context = std::make_shared<Context>();
  context->device = found->second;
  int ends[2] = {};
  if (pipe2(ends, O_CLOEXEC) != 0) return errno;
  opened.context_fd.reset(ends[0]);
  context->liveness.reset(ends[1]);
  // One count an event, so that the descriptor is readable exactly while one is waiting.
  context->event_fd.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE));
  if (!context->event_fd) return errno;
  opened.event_fd.reset(fcntl(context->event_fd.get(), F_DUPFD_CLOEXEC, 0));
  if (!opened.event_fd) return errno;

  const FakeDeviceOptions& options = found->second->options;
  opened.info.name = options.name;
  opened.info.firmware = "fake";
  opened.info.node_guid = options.node_guid;
  opened.info.max_qp = options.max_qp;
  opened.info.max_dest_rd_atomic = options.max_dest_rd_atomic;
  opened.info.xrc_supported = options.xrc_supported;
  if (!options.xrc_supported) {
    opened.info.xrc_unsupported_reason = "the kernel driver reports no XRC capability";
  }
  opened.context = context;
  contexts_.insert(std::move(context));
  return 0;
}

int FakeKernel::QueryPorts(Context& context, std::vector<PortInfo>& ports) {
  std::unique_lock lock(mutex_);
  if (int error = Enter(Call::kQueryPort, lock); error != 0) return error;
  if (context.device->removed) return EIO;
  ports = context.device->options.ports;
  return 0;
}

int FakeKernel::OpenXrcd(Context& context, int fd, const Inode& inode, OpenXrcdMode mode,
                         Handle& handle) {
  std::unique_lock lock(mutex_);
  if (int error = Enter(Call::kOpenXrcd, lock); error != 0) return error;
  HwDevice& device = *context.device;
  if (device.removed) return EIO;
  if (!device.options.xrc_supported) return EOPNOTSUPP;
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || (flags & O_PATH) != 0) return EBADF;

  auto found = device.domains.find(inode);
  if (found == device.domains.end()) {
    if (mode == OpenXrcdMode::kExisting) return EAGAIN;
    UniqueFd file(fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (!file) return errno;
    found = device.domains.emplace(inode, Domain{}).first;
    found->second.file = std::move(file);
  } else if (mode == OpenXrcdMode::kCreateExclusive) {
    return EINVAL;
  }
  ++found->second.handles;
  handle = ++last_handle_;
  context.xrcds[handle] = {inode, &found->second, 0};
  return 0;
}

int FakeKernel::CloseXrcd(Context& context, Handle handle) {
  std::unique_lock lock(mutex_);
  if (int error = Enter(Call::kCloseXrcd, lock); error != 0) return error;
  if (context.device->removed) return 0;
  auto found = context.xrcds.find(handle);
  if (found == context.xrcds.end()) return EINVAL;
  if (found->second.qps != 0) return EBUSY;
  ReleaseXrcd(context, handle);
  return 0;
}

int FakeKernel::CreateQp(Context& context, Handle xrcd, Handle& handle, uint32_t& number) {
  std::unique_lock lock(mutex_);
  if (int error = Enter(Call::kCreateQp, lock); error != 0) return error;
  HwDevice& device = *context.device;
  if (device.removed) return EIO;
  auto domain = context.xrcds.find(xrcd);
  if (domain == context.xrcds.end()) return EINVAL;
  if (device.qps.size() >= device.options.max_qp) return ENOMEM;
  // A freed number is not given out again before all others were.
  do {
    device.last_number = NextNumber(device.last_number);
  } while (device.qps.contains(device.last_number));
  number = device.last_number;
  Qp& qp = device.qps[number];
  qp.domain = domain->second.domain;
  qp.domain->qps.insert(number);
  handle = AddQpHandle(context, xrcd, number);
  qp.creator = handle;
  return 0;
}

int FakeKernel::OpenQp(Context& context, Handle xrcd, uint32_t number, Handle& handle) {
  std::unique_lock lock(mutex_);
  if (int error = Enter(Call::kOpenQp, lock); error != 0) return error;
  if (context.device->removed) return EIO;
  auto domain = context.xrcds.find(xrcd);
  if (domain == context.xrcds.end()) return EINVAL;
  if (!domain->second.domain->qps.contains(number)) return EINVAL;
  handle = AddQpHandle(context, xrcd, number);
  return 0;
}

int FakeKernel::ModifyQp(Context& context, Handle handle, const QpAttributes& attributes,
                         uint32_t mask) {
  std::unique_lock lock(mutex_);
  if (int error = Enter(Call::kModifyQp, lock); error != 0) return error;
  HwDevice& device = *context.device;
  if (device.removed) return EIO;
  auto found = context.qps.find(handle);
  if (found == context.qps.end()) return EINVAL;
  return ModifyFakeQp(device.options.ports, device.options.max_dest_rd_atomic, attributes, mask,
                      device.qps.at(found->second.number).attributes);
}

int FakeKernel::QueryQp(Context& context, Handle handle, QpAttributes& attributes) {
  std::unique_lock lock(mutex_);
  if (int error = Enter(Call::kQueryQp, lock); error != 0) return error;
  if (context.device->removed) return EIO;
  auto found = context.qps.find(handle);
  if (found == context.qps.end()) return EINVAL;
  attributes = context.device->qps.at(found->second.number).attributes;
  return 0;
}

int FakeKernel::DestroyQp(Context& context, Handle handle) {
  std::unique_lock lock(mutex_);
  if (int error = Enter(Call::kDestroyQp, lock); error != 0) return error;
  if (context.device->removed) return 0;
  if (!context.qps.contains(handle)) return EINVAL;
  ReleaseQp(context, handle);
  return 0;
}

std::optional<AsyncEvent> FakeKernel::NextEvent(Context& context) {
  std::lock_guard lock(mutex_);
  if (context.events.empty()) return std::nullopt;
  TakeCount(context.event_fd);
  AsyncEvent event = context.events.front();
  context.events.pop_front();
  return event;
}

void FakeKernel::CloseContext(Context& context, UniqueFd context_fd) {
  std::lock_guard lock(mutex_);
  context_fd.reset();
  context.closed = true;
  Reap();
}

void FakeKernel::Reap() {
  for (auto it = contexts_.begin(); it != contexts_.end();) {
    Context& context = **it;
    if (!context.closed || !IsReleased(context.liveness)) {
      ++it;
      continue;
    }
    Release(context);
    it = contexts_.erase(it);
  }
}

void FakeKernel::Release(Context& context) {
  while (!context.qps.empty()) ReleaseQp(context, context.qps.begin()->first);
  while (!context.xrcds.empty()) ReleaseXrcd(context, context.xrcds.begin()->first);
}

void FakeKernel::ReleaseQp(Context& context, Handle handle) {
  const QpHandle qp_handle = context.qps.at(handle);
  context.qps.erase(handle);
  --context.xrcds.at(qp_handle.xrcd).qps;
  auto qp = context.device->qps.find(qp_handle.number);
  if (qp->second.creator == handle) DropEventsOf(context, qp_handle.number);
  if (--qp->second.handles != 0) return;
  qp->second.domain->qps.erase(qp_handle.number);
  context.device->qps.erase(qp);
}

void FakeKernel::ReleaseXrcd(Context& context, Handle handle) {
  const XrcdHandle xrcd = context.xrcds.at(handle);
  context.xrcds.erase(handle);
  if (--xrcd.domain->handles == 0) context.device->domains.erase(xrcd.inode);
}

void FakeKernel::Post(Context& context, const AsyncEvent& event) {
  context.events.push_back(event);
  if (eventfd_write(context.event_fd.get(), 1) != 0) std::abort();
}

void FakeKernel::DropEventsOf(Context& context, uint32_t qp_num) {
  const size_t dropped = std::erase_if(context.events, [&](const AsyncEvent& event) {
    return IsAboutQp(event) && event.qp_num == qp_num;
  });
  for (size_t i = 0; i < dropped; ++i) TakeCount(context.event_fd);
}

void FakeKernel::PostToAll(const HwDevice& device, const AsyncEvent& event) {
  for (const std::shared_ptr<Context>& context : contexts_) {
    if (context->device.get() == &device) Post(*context, event);
  }
}

FakeKernel::HwDevice& FakeKernel::DeviceNamed(const std::string& name) {
  auto found = devices_.find(name);
  if (found == devices_.end()) std::abort();
  return *found->second;
}

FakeKernel::Handle FakeKernel::AddQpHandle(Context& context, Handle xrcd, uint32_t number) {
  const Handle handle = ++last_handle_;
  context.qps[handle] = {number, xrcd};
  ++context.xrcds.at(xrcd).qps;
  ++context.device->qps.at(number).handles;
  return handle;
}

}  // namespace qpbroker::verbs
