// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_DAEMON_VERBS_VERBS_H_
#define QPBROKER_DAEMON_VERBS_VERBS_H_

// The hardware seam: what the broker needs of libibverbs, no more. IbvVerbs does it on a real
// kernel, FakeVerbs in memory by the same rules and errnos; the contract test holds them together.
//
//   std::unique_ptr<Device> device = *verbs.OpenDevice("mlx5_0");
//   std::unique_ptr<Xrcd> xrcd = *device->OpenXrcd(file.get(), OpenXrcdMode::kCreateExclusive);
//   std::unique_ptr<TargetQp> qp = *xrcd->CreateTargetQp();
//
// Ownership: an Xrcd must outlive the QPs made from it, a Device its Xrcds. A destructor releases
// what Destroy / Close did not, and ignores errors: call these where the answer matters. Threads:
// Verbs, Device and Xrcd may be used from any thread, but Xrcd::Close with no other call under way;
// calls on one TargetQp are serialised by the caller. Every call may take seconds in firmware.
// Errors: a reason of common/error_reason.h with metadata "call" and "errno"; mapped per call,
// since the kernel's errnos are not telling: EAGAIN from open_xrcd is "no such domain", EINVAL from
// open_qp is "no such QP". EIO, after a device was removed, is DEVICE_GONE everywhere.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/verbs/qp_attributes.h"

namespace qpbroker::verbs {

enum class PortState : uint8_t { kUnknown, kDown, kInit, kArmed, kActive };
enum class LinkLayer : uint8_t { kUnknown, kInfiniBand, kEthernet };

struct PortInfo {
  uint8_t number = 0;  // From 1.
  PortState state = PortState::kUnknown;
  LinkLayer link_layer = LinkLayer::kUnknown;
  uint16_t lid = 0;
  uint32_t active_mtu = 0;  // Bytes.
  // By index; an entry that cannot be read (another namespace's) is all zero.
  std::vector<Gid> gids;
  // By index; 0 is an empty entry.
  std::vector<uint16_t> pkeys;
};

struct DeviceInfo {
  std::string name;      // "mlx5_0"
  std::string firmware;  // As the device tells it.
  uint64_t node_guid = 0;
  uint32_t max_qp = 0;
  uint32_t max_dest_rd_atomic = 0;  // Limit of QpAttributes::max_dest_rd_atomic.
  bool xrc_supported = false;
  std::string xrc_unsupported_reason;  // Where it is not: why, for a person.
};

enum class AsyncEventKind : uint8_t {
  kQpFatal,
  kQpOther,
  kPortActive,
  kPortDown,
  kDeviceFatal,
  kOther
};

struct AsyncEvent {
  AsyncEventKind kind = AsyncEventKind::kOther;
  uint32_t qp_num = 0;  // kQpFatal, kQpOther.
  uint8_t port = 0;     // kPortActive, kPortDown.
  uint32_t type = 0;    // enum ibv_event_type.
};

// An XRC target QP. The handle is one reference to it: the kernel's QP goes with the last handle,
// in whatever process that is.
class TargetQp {
 public:
  virtual ~TargetQp() = default;
  TargetQp(const TargetQp&) = delete;
  TargetQp& operator=(const TargetQp&) = delete;

  virtual uint32_t number() const = 0;

  // ibv_modify_qp with exactly the attributes in `mask` (QpAttributeMask). INVALID_TRANSITION when
  // the kernel says EINVAL.
  virtual absl::Status Modify(const QpAttributes& attributes, uint32_t mask) = 0;

  // ibv_query_qp with every attribute.
  virtual absl::StatusOr<QpAttributes> Query() = 0;

  // Lets go of the handle; on an error it is still held and may be tried again. After the device
  // was removed this succeeds.
  virtual absl::Status Destroy() = 0;

 protected:
  TargetQp() = default;
};

// An open XRC domain.
class Xrcd {
 public:
  virtual ~Xrcd() = default;
  Xrcd(const Xrcd&) = delete;
  Xrcd& operator=(const Xrcd&) = delete;

  // A new QP in state RESET. DEVICE_LIMIT when the device is full (ENOMEM).
  virtual absl::StatusOr<std::unique_ptr<TargetQp>> CreateTargetQp() = 0;

  // A further handle of a QP that exists in this domain; QP_NOT_FOUND if there is none.
  virtual absl::StatusOr<std::unique_ptr<TargetQp>> OpenTargetQp(uint32_t qp_num) = 0;

  // Lets go of the domain; XRCD_BUSY (EBUSY) while it has QPs here. As TargetQp::Destroy.
  virtual absl::Status Close() = 0;

 protected:
  Xrcd() = default;
};

enum class OpenXrcdMode : uint8_t {
  kExisting,         // XRCD_NOT_FOUND (EAGAIN) if there is none on this inode.
  kCreate,           // O_CREAT.
  kCreateExclusive,  // O_CREAT | O_EXCL; XRCD_EXISTS (EINVAL) if there is one.
};

// An open device.
class Device {
 public:
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  virtual const DeviceInfo& info() const = 0;

  // All ports, asked of the device now.
  virtual absl::StatusOr<std::vector<PortInfo>> QueryPorts() = 0;

  // The domain of the inode behind `fd`, which must be a regular file. `fd` stays the caller's and
  // need not stay open.
  virtual absl::StatusOr<std::unique_ptr<Xrcd>> OpenXrcd(int fd, OpenXrcdMode mode) = 0;

  // The descriptor that the device's objects hang on: while a copy of it is open in any process,
  // what was made through this Device lives on after it. The Device owns it. Never give it to a
  // client: it carries full power over all these objects.
  virtual int context_fd() const = 0;

  // Readable when an event is waiting.
  virtual int event_fd() const = 0;

  // The next event, acknowledged before it is returned (an event that is not acknowledged blocks
  // the destruction of its QP); nullopt when none is waiting. Never blocks. One thread only.
  virtual absl::StatusOr<std::optional<AsyncEvent>> NextEvent() = 0;

 protected:
  Device() = default;
};

// The way to the devices of this machine.
class Verbs {
 public:
  virtual ~Verbs() = default;

  // Names of the devices there are now; empty where there are none or no RDMA at all.
  virtual absl::StatusOr<std::vector<std::string>> ListDevices() = 0;

  // Opens one. DEVICE_NOT_FOUND if it is not there. A device without XRC can be opened: its info
  // says so.
  virtual absl::StatusOr<std::unique_ptr<Device>> OpenDevice(const std::string& name) = 0;
};

}  // namespace qpbroker::verbs

#endif  // QPBROKER_DAEMON_VERBS_VERBS_H_
