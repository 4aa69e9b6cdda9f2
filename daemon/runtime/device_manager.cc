// SPDX-License-Identifier: Apache-2.0
#include "daemon/runtime/device_manager.h"

#include <sys/epoll.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/telemetry/log.h"

namespace qpbroker::runtime {
namespace {

// Opening a device is a strand of its own, beside those of the objects on it.
constexpr uint64_t kOpenStrand = ~uint64_t{0};

}  // namespace

DeviceManager::DeviceManager(EventLoop& loop, verbs::Verbs& verbs, core::Broker& broker,
                             core::Executor& executor)
    : loop_(loop), verbs_(verbs), broker_(broker), executor_(executor) {}

DeviceManager::~DeviceManager() {
  *alive_ = false;
  while (!devices_.empty()) Remove(devices_.begin()->first);
}

void DeviceManager::Scan() {
  absl::StatusOr<std::vector<std::string>> listed = verbs_.ListDevices();
  if (!listed.ok()) {
    return telemetry::LogLimited(telemetry::Event::kDeviceFailed, 0, listed.status().message());
  }
  const absl::btree_set<std::string> present(listed->begin(), listed->end());
  std::vector<std::string> gone;
  for (const auto& [name, device] : devices_) {
    if (!present.contains(name)) gone.push_back(name);
  }
  for (const std::string& name : gone) Remove(name);
  for (auto it = failed_.begin(); it != failed_.end();) {
    it = present.contains(*it) ? std::next(it) : failed_.erase(it);
  }
  for (const std::string& name : present) {
    if (!devices_.contains(name) && !opening_.contains(name) && !failed_.contains(name)) Open(name);
  }
}

void DeviceManager::Open(const std::string& name) {
  opening_.insert(name);
  executor_.Post(name, kOpenStrand, [this, name, alive = alive_, &loop = loop_, &verbs = verbs_] {
    // Shared, so that what is opened too late is closed by whoever drops the task.
    auto opened = std::make_shared<absl::StatusOr<std::unique_ptr<verbs::Device>>>(
        verbs.OpenDevice(name));
    loop.Post([this, name, alive, opened] {
      if (*alive) OnOpened(name, std::move(*opened));
    });
  });
}

void DeviceManager::OnOpened(const std::string& name,
                             absl::StatusOr<std::unique_ptr<verbs::Device>> opened) {
  opening_.erase(name);
  if (!opened.ok()) {
    failed_.insert(name);
    return telemetry::Log(telemetry::Event::kDeviceFailed,
                          absl::StrCat(name, ": ", opened.status().message()));
  }
  std::shared_ptr<verbs::Device> device = *std::move(opened);
  absl::Status watched =
      loop_.Watch(device->event_fd(), EPOLLIN, [this, name](uint32_t) { OnEvents(name); });
  if (!watched.ok()) {
    failed_.insert(name);
    return telemetry::Log(telemetry::Event::kDeviceFailed,
                          absl::StrCat(name, ": ", watched.message()));
  }
  const verbs::DeviceInfo& info = device->info();
  telemetry::Log(telemetry::Event::kDeviceAdded,
                 info.xrc_supported
                     ? name
                     : absl::StrCat(name, " (without XRC: ", info.xrc_unsupported_reason, ")"));
  devices_[name] = device;
  broker_.AddDevice(std::move(device));
  // It may have gone while it was being opened.
  Scan();
}

void DeviceManager::OnEvents(const std::string& name) {
  auto found = devices_.find(name);
  if (found == devices_.end()) return;
  const std::shared_ptr<verbs::Device> device = found->second;
  while (true) {
    absl::StatusOr<std::optional<verbs::AsyncEvent>> event = device->NextEvent();
    if (event.ok() && !event->has_value()) return;
    if (!event.ok() || (*event)->kind == verbs::AsyncEventKind::kDeviceFatal) {
      // Not opened again until it was away: a broken device would only break again.
      failed_.insert(name);
      return Remove(name);
    }
    broker_.HandleDeviceEvent(name, **event);
  }
}

void DeviceManager::Remove(const std::string& name) {
  auto found = devices_.find(name);
  if (found == devices_.end()) return;
  loop_.Unwatch(found->second->event_fd());
  if (*alive_) telemetry::Log(telemetry::Event::kDeviceRemoved, name);
  const std::string key = name;  // `name` may be the entry's.
  devices_.erase(found);
  broker_.RemoveDevice(key);
}

}  // namespace qpbroker::runtime
