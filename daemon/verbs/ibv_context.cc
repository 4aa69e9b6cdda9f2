// SPDX-License-Identifier: Apache-2.0
// Which provider serves a context is asked of the dynamic linker: the object that its poll_cq comes
// from. sysfs does not tell it (a virtual device has no `driver` link, and one may be matched by
// another vendor's provider), and what matters here is whose code will run, not what the hardware
// is.
#include "daemon/verbs/ibv_context.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/error_reason.h"
#include "common/unique_fd.h"
#include "daemon/verbs/verbs_calls.h"

namespace qpbroker::verbs {
namespace {

constexpr char kKernelDevices[] = "/sys/class/infiniband";

struct KnownProvider {
  std::string_view name;
  bool opened_handles_are_safe;
  uint32_t driver_id;
};

// The providers that implement ibv_open_qp. libmlx5's ibv_destroy_qp and its modify to RESET follow
// a queue that an opened handle does not have; libhns was not tried.
constexpr KnownProvider kKnownProviders[] = {
    {"mlx4", true, RDMA_DRIVER_MLX4},
    {"mlx5", false, RDMA_DRIVER_MLX5},
    {"hns", false, RDMA_DRIVER_HNS},
};

// "mlx5" of ".../libmlx5.so.1" and of ".../libmlx5-rdmav34.so".
std::string ProviderNameOf(std::string_view object_path) {
  std::string_view name = object_path.substr(object_path.rfind('/') + 1);
  constexpr std::string_view kPrefix = "lib";
  if (!name.starts_with(kPrefix)) return {};
  name.remove_prefix(kPrefix.size());
  return std::string(name.substr(0, name.find_first_of("-.")));
}

IbvProvider ProviderOf(const ibv_context& context) {
  Dl_info object = {};
  if (dladdr(reinterpret_cast<const void*>(context.ops.poll_cq), &object) == 0 ||
      object.dli_fname == nullptr) {
    return {};
  }
  IbvProvider provider;
  provider.name = ProviderNameOf(object.dli_fname);
  for (const KnownProvider& known : kKnownProviders) {
    if (known.name != provider.name) continue;
    provider.opened_handles_are_safe = known.opened_handles_are_safe;
    provider.driver_id = known.driver_id;
  }
  return provider;
}

// ibv_open_device takes a node that it may not open for one that udev has yet to make, and waits 5
// s.
absl::Status ProbeNode(const ibv_device& device) {
  std::string path = absl::StrCat("/dev/infiniband/", device.dev_name);
  if (faccessat(AT_FDCWD, path.c_str(), R_OK | W_OK, AT_EACCESS) == 0) return absl::OkStatus();
  return ErrnoError(v1::REASON_DEVICE_ERROR, errno, absl::StrCat("access ", path),
                    {{"device", device.name}});
}

absl::Status NotListed(const std::string& name) {
  std::vector<std::string> kernel_names = KernelDeviceNames();
  if (std::find(kernel_names.begin(), kernel_names.end(), name) == kernel_names.end()) {
    return CallError(Call::kOpenDevice, ENODEV, {{"device", name}});
  }
  return MakeError(v1::REASON_XRC_NOT_SUPPORTED,
                   absl::StrCat("libibverbs has no user-space driver for ", name,
                                ": is its provider library installed?"),
                   {{"device", name}});
}

absl::StatusOr<ibv_context*> OpenListed(ibv_device& device) {
  if (absl::Status status = ProbeNode(device); !status.ok()) return status;
  errno = 0;
  if (ibv_context* context = ibv_open_device(&device)) return context;
  return CallError(Call::kOpenDevice, errno != 0 ? errno : EIO, {{"device", device.name}});
}

}  // namespace

absl::StatusOr<std::unique_ptr<IbvContext>> IbvContext::Open(const std::string& device_name,
                                                             OpenedHandles opened_handles) {
  int count = 0;
  errno = 0;
  ibv_device** list = ibv_get_device_list(&count);
  if (list == nullptr) {
    if (errno == ENOSYS || errno == 0) return NotListed(device_name);
    return CallError(Call::kListDevices, errno, {{"device", device_name}});
  }
  absl::Cleanup free_list = [list] { ibv_free_device_list(list); };
  ibv_device** end = list + count;
  ibv_device** found =
      std::find_if(list, end, [&](ibv_device* device) { return device_name == device->name; });
  if (found == end) return NotListed(device_name);
  absl::StatusOr<ibv_context*> context = OpenListed(**found);
  if (!context.ok()) return context.status();
  return std::unique_ptr<IbvContext>(new IbvContext(*context, device_name, opened_handles));
}

IbvContext::IbvContext(ibv_context* context, std::string device_name, OpenedHandles opened_handles)
    : context_(context), device_name_(std::move(device_name)), provider_(ProviderOf(*context)) {
  if (opened_handles == OpenedHandles::kPrivateContext) provider_.opened_handles_are_safe = false;
}

IbvContext::~IbvContext() { ibv_close_device(context_); }

absl::Status IbvContext::DiscardEvents() {
  // The kernel drops the queue with its descriptor; the number must stay taken until
  // ibv_close_device closes it.
  UniqueFd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!null || dup3(null.get(), context_->async_fd, O_CLOEXEC) < 0) {
    return ErrnoError(v1::REASON_DAEMON_LIMIT, errno, "dup3", {{"device", device_name_}});
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> IbvDeviceNames() {
  std::vector<std::string> names;
  int count = 0;
  errno = 0;
  ibv_device** list = ibv_get_device_list(&count);
  if (list == nullptr) {
    // ENOSYS: a kernel without RDMA.
    if (errno == ENOSYS || errno == 0) return names;
    return CallError(Call::kListDevices, errno);
  }
  for (ibv_device** device = list; *device != nullptr; ++device)
    names.emplace_back((*device)->name);
  ibv_free_device_list(list);
  return names;
}

std::vector<std::string> KernelDeviceNames() {
  std::vector<std::string> names;
  std::error_code error;
  std::filesystem::directory_iterator entry(kKernelDevices, error);
  while (!error && entry != std::filesystem::directory_iterator()) {
    names.push_back(entry->path().filename().string());
    entry.increment(error);
  }
  return names;
}

}  // namespace qpbroker::verbs
