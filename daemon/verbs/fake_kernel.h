// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_DAEMON_VERBS_FAKE_KERNEL_H_
#define QPBROKER_DAEMON_VERBS_FAKE_KERNEL_H_

// The RDMA subsystem of a kernel, in memory: devices, XRC domains and target QPs, control path
// only, by the rules and with the errnos of Linux 6.1 and mlx4 (the contract test compares them
// with a real one). FakeVerbs is what a process sees of it; several on one FakeKernel are several
// processes.
//
//   FakeKernel kernel;
//   kernel.AddDevice({.name = "fake0"});
//   FakeVerbs daemon_side(kernel), client_side(kernel);
//   kernel.FailNthCall(2, ENOMEM);
//
// Threads: any. It must outlive every FakeVerbs on it and all that these opened.

#include <sys/types.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/unique_fd.h"
#include "daemon/verbs/qp_attributes.h"
#include "daemon/verbs/verbs.h"
#include "daemon/verbs/verbs_calls.h"

namespace qpbroker::verbs {

// An active port with LID `number`, P_Key 0xffff and one GID.
PortInfo FakePort(uint8_t number);

struct FakeDeviceOptions {
  std::string name = "fake0";
  std::vector<PortInfo> ports = {FakePort(1)};
  uint64_t node_guid = 0x0002c90300000001;
  bool xrc_supported = true;
  uint32_t max_qp = 65536;
  uint32_t max_dest_rd_atomic = 16;
};

struct FakeQpInfo {
  std::string device;
  uint32_t number = 0;
  int handles = 0;  // In all processes.
  QpAttributes attributes;
};

class FakeKernel {
 public:
  FakeKernel() = default;
  ~FakeKernel();
  FakeKernel(const FakeKernel&) = delete;
  FakeKernel& operator=(const FakeKernel&) = delete;

  // --- Hot plug and events.

  // A device of this name must not be there.
  void AddDevice(FakeDeviceOptions options);

  // Hot unplug. Who has it open gets kDeviceFatal; its QPs and domains are gone. Of later calls
  // query, modify, create and open fail with EIO, destroy and close succeed.
  void RemoveDevice(const std::string& name);

  // Sets a port's state; an event goes to every context of the device when it becomes, or ceases to
  // be, active.
  void SetPortState(const std::string& device, uint8_t port, PortState state);

  // Replaces port `port.number`, without an event.
  void SetPort(const std::string& device, const PortInfo& port);

  // Raises an event. One about a QP goes to the handle that created it and to no other, as in the
  // kernel: to nobody when that is closed. kQpFatal leaves the QP in state ERR.
  void RaiseEvent(const std::string& device, const AsyncEvent& event);

  // --- Faults. A call is one of enum Call but kGetEvent.

  // The n-th call from now (1: the next) fails with `errno_value` and does nothing.
  void FailNthCall(int n, int errno_value);
  void ClearFaults();
  int calls_made() const;

  // Holds calls of this kind before they do anything, until Unblock.
  void Block(Call call);
  void Unblock(Call call);
  // Returns when `count` calls of this kind are being held.
  void AwaitBlocked(Call call, int count = 1);

  // --- What there is.

  size_t contexts();
  size_t xrcds();  // Domains, not handles of them.
  size_t qps();
  std::vector<FakeQpInfo> ListQps();

 private:
  friend class FakeVerbs;
  friend class FakeProcessContext;
  friend class FakeDevice;
  friend class FakeXrcd;
  friend class FakeTargetQp;

  using Inode = std::pair<dev_t, ino_t>;
  using Handle = uint32_t;  // Unique among all contexts.

  struct Domain {
    UniqueFd file;  // The kernel holds the inode too: its number is not given to another file.
    int handles = 0;
    std::set<uint32_t> qps;
  };
  struct Qp {
    QpAttributes attributes;
    Domain* domain = nullptr;
    int handles = 0;
    Handle creator = 0;
  };
  struct HwDevice {
    FakeDeviceOptions options;
    std::map<Inode, Domain> domains;
    std::map<uint32_t, Qp> qps;
    uint32_t last_number = 0;
    bool removed = false;
  };
  struct XrcdHandle {
    Inode inode;
    Domain* domain = nullptr;
    int qps = 0;
  };
  struct QpHandle {
    uint32_t number = 0;
    Handle xrcd = 0;
  };
  // One open of a device.
  struct Context {
    std::shared_ptr<HwDevice> device;
    UniqueFd event_fd;
    // Its other end is Device::context_fd(). While a copy of that is open, this context lives.
    UniqueFd liveness;
    bool closed = false;  // By its Device; a copy may remain.
    std::deque<AsyncEvent> events;
    std::map<Handle, XrcdHandle> xrcds;
    std::map<Handle, QpHandle> qps;
  };
  struct OpenedContext {
    std::shared_ptr<Context> context;
    UniqueFd event_fd;
    UniqueFd context_fd;
    DeviceInfo info;
  };

  // The calls, as uverbs has them: 0 or an errno.
  int ListDevices(std::vector<std::string>& names);
  int OpenDevice(const std::string& name, OpenedContext& opened);
  int QueryPorts(Context& context, std::vector<PortInfo>& ports);
  int OpenXrcd(Context& context, int fd, const Inode& inode, OpenXrcdMode mode, Handle& handle);
  int CloseXrcd(Context& context, Handle handle);
  int CreateQp(Context& context, Handle xrcd, Handle& handle, uint32_t& number);
  int OpenQp(Context& context, Handle xrcd, uint32_t number, Handle& handle);
  int ModifyQp(Context& context, Handle handle, const QpAttributes& attributes, uint32_t mask);
  int QueryQp(Context& context, Handle handle, QpAttributes& attributes);
  int DestroyQp(Context& context, Handle handle);
  std::optional<AsyncEvent> NextEvent(Context& context);
  // `context_fd` is the last thing that this process had of it.
  void CloseContext(Context& context, UniqueFd context_fd);

  // Counts a call, holds it, and says whether it is to fail.
  int Enter(Call call, std::unique_lock<std::mutex>& lock);
  void Reap();
  void Release(Context& context);
  void ReleaseQp(Context& context, Handle handle);
  void ReleaseXrcd(Context& context, Handle handle);
  void Post(Context& context, const AsyncEvent& event);
  // What is still in the queue when the QP's creating handle goes, goes with it.
  void DropEventsOf(Context& context, uint32_t qp_num);
  void PostToAll(const HwDevice& device, const AsyncEvent& event);
  HwDevice& DeviceNamed(const std::string& name);
  Handle AddQpHandle(Context& context, Handle xrcd, uint32_t number);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::shared_ptr<HwDevice>> devices_;
  std::set<std::shared_ptr<Context>> contexts_;
  std::map<int, int> faults_;  // Number of the call to errno.
  std::set<Call> blocked_;
  std::map<Call, int> held_;
  int calls_ = 0;
  Handle last_handle_ = 0;
};

}  // namespace qpbroker::verbs

#endif  // QPBROKER_DAEMON_VERBS_FAKE_KERNEL_H_
