// SPDX-License-Identifier: Apache-2.0
//
// A device that reset itself is unregistered and registered again under its name: by the time its
// fatal event is read, a scan may find it present without ever having found it gone. So nothing is
// remembered of a device that failed; while one is listed and not open, it is tried again at every
// change and from time to time.
#include "daemon/runtime/device_manager.h"

#include <sys/epoll.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/telemetry/log.h"

namespace qpbroker::runtime {
namespace {

// Opening a device is a strand of its own, beside those of the objects on it.
constexpr uint64_t kOpenStrand = ~uint64_t{0};
// A flood of events of one device must not keep the loop from the others.
constexpr int kEventsAtOnce = 64;

}  // namespace

DeviceManager::DeviceManager(EventLoop& loop, verbs::Verbs& verbs, core::Broker& broker,
                             core::Executor& executor, absl::Duration retry_interval)
    : loop_(loop),
      verbs_(verbs),
      broker_(broker),
      executor_(executor),
      retry_interval_(retry_interval) {}

DeviceManager::~DeviceManager() {
  *alive_ = false;
  while (!devices_.empty()) Remove(devices_.begin()->first);
}

void DeviceManager::Scan() {
  absl::StatusOr<std::vector<std::string>> listed = verbs_.ListDevices();
  if (!listed.ok()) return Failed("the list of devices", listed.status());
  const absl::btree_set<std::string> present(listed->begin(), listed->end());
  std::vector<std::string> gone;
  for (const auto& [name, device] : devices_) {
    if (!present.contains(name)) gone.push_back(name);
  }
  for (const std::string& name : gone) Remove(name);
  for (const std::string& name : present) {
    if (!devices_.contains(name) && !opening_.contains(name)) Open(name);
  }
}

void DeviceManager::Failed(absl::string_view name, const absl::Status& why) {
  telemetry::LogLimited(telemetry::Event::kDeviceFailed, name, why.message());
  ScanLater();
}

void DeviceManager::ScanLater() {
  if (std::exchange(scan_pending_, true)) return;
  loop_.After(retry_interval_, [this, alive = alive_] {
    if (!*alive) return;
    scan_pending_ = false;
    Scan();
  });
}

void DeviceManager::Open(const std::string& name) {
  opening_.insert(name);
  executor_.Post(name, kOpenStrand, [this, name, alive = alive_, &loop = loop_, &verbs = verbs_] {
    // Shared, so that what is opened too late is closed by whoever drops the task.
    auto opened =
        std::make_shared<absl::StatusOr<std::unique_ptr<verbs::Device>>>(verbs.OpenDevice(name));
    loop.Post([this, name, alive, opened] {
      if (*alive) OnOpened(name, std::move(*opened));
    });
  });
}

void DeviceManager::OpenNow(const std::string& name) { OnOpened(name, verbs_.OpenDevice(name)); }

void DeviceManager::OnOpened(const std::string& name,
                             absl::StatusOr<std::unique_ptr<verbs::Device>> opened) {
  opening_.erase(name);
  if (!opened.ok()) return Failed(name, opened.status());
  std::shared_ptr<verbs::Device> device = *std::move(opened);
  absl::Status watched =
      loop_.Watch(device->event_fd(), EPOLLIN, [this, name](uint32_t) { OnEvents(name); });
  if (!watched.ok()) return Failed(name, watched);
  const verbs::DeviceInfo& info = device->info();
  telemetry::LogLimited(
      telemetry::Event::kDeviceAdded, name,
      info.xrc_supported ? "ready" : absl::StrCat("without XRC: ", info.xrc_unsupported_reason));
  devices_[name] = device;
  broker_.AddDevice(std::move(device));
  // It may have gone while it was being opened.
  Scan();
}

void DeviceManager::OnEvents(const std::string& name) {
  auto found = devices_.find(name);
  if (found == devices_.end()) return;
  const std::shared_ptr<verbs::Device> device = found->second;
  for (int i = 0; i < kEventsAtOnce; ++i) {
    absl::StatusOr<std::optional<verbs::AsyncEvent>> event = device->NextEvent();
    if (event.ok() && !event->has_value()) return;
    if (!event.ok() || (*event)->kind == verbs::AsyncEventKind::kDeviceFatal) {
      Remove(name);
      return ScanLater();
    }
    broker_.HandleDeviceEvent(name, **event);
  }
}

void DeviceManager::Remove(const std::string& name) {
  auto found = devices_.find(name);
  if (found == devices_.end()) return;
  loop_.Unwatch(found->second->event_fd());
  if (*alive_) telemetry::LogLimited(telemetry::Event::kDeviceRemoved, name, "gone or broken");
  const std::string key = name;  // `name` may be the entry's.
  devices_.erase(found);
  broker_.RemoveDevice(key);
}

}  // namespace qpbroker::runtime
