// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_TYPES_H_
#define QPBROKER_TYPES_H_

// The values that calls take and give. Limits are checked by the daemon; a value outside of them is
// INVALID_FIELD with metadata "field". Every struct is made for designated initialisers.

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace qpbroker {

// 128-bit port address, in network order.
using Gid = std::array<uint8_t, 16>;

// State of a queue pair (InfiniBand specification, 10.3.1).
enum class QpState : uint8_t { kUnknown, kReset, kInit, kRtr, kRts, kSqd, kSqe, kErr };

// State of a port (InfiniBand specification, 14.2.5.6).
enum class PortState : uint8_t { kUnknown, kDown, kInit, kArmed, kActive };

// How long a domain lives: until its last lease is closed, or until DestroyXrcd.
enum class XrcdLife : uint8_t { kLeases, kPersistent };

// How long a QP lives: until the last lease on it is closed, or as long as its domain (then there
// are no leases on the QP itself).
enum class QpLife : uint8_t { kHolders, kDomain };

// What the remote side and other openers may do through a QP (ibv_access_flags).
struct AccessFlags {
  bool local_write = false;
  bool remote_write = false;
  bool remote_read = false;
  bool remote_atomic = false;
};

// The part of an address that crosses subnets (InfiniBand) or is the address (RoCE).
struct GlobalRoute {
  Gid dgid = {};                 // The destination's GID.
  std::optional<Gid> sgid = {};  // The source GID by value; the daemon looks up its index.
  std::optional<uint32_t> sgid_index = {};  // Or by index, 0 to 255. Neither given: index 0.
  uint32_t hop_limit = 0;                   // 0 to 255; 0 means 64.
  uint32_t traffic_class = 0;               // 0 to 255.
  uint32_t flow_label = 0;                  // 0 to 2^20-1.
};

// How packets reach the remote port.
struct Path {
  // The destination's LID, 1 to 0xBFFF on InfiniBand; 0 where the link layer has none.
  uint32_t dlid = 0;
  // Required where dlid is 0.
  std::optional<GlobalRoute> global_route = {};
  // 0 to 15.
  uint32_t service_level = 0;
  // The lowest 7 bits that tell apart the paths of a port with several LIDs (LMC); 0 to 127.
  uint32_t source_path_bits = 0;
  // Upper limit of the injection rate in Mb/s, one of those that InfiniBand names (2500, 5000,
  // 10000, 14000, 20000, ...); 0: as fast as the port.
  uint32_t rate_mbps = 0;
};

// Attributes of an XRC target QP: those that ModifyQp sets, those that QueryQp reports. What is not
// given is not changed.
struct QpAttributes {
  std::optional<QpState> state = {};         // The state to move to.
  std::optional<uint32_t> port = {};         // Physical port, from 1.
  std::optional<uint32_t> pkey = {};         // P_Key by value, 16 bits, e.g. 0xffff.
  std::optional<AccessFlags> access = {};    //
  std::optional<uint32_t> path_mtu = {};     // Bytes: 256, 512, 1024, 2048 or 4096.
  std::optional<uint32_t> dest_qp_num = {};  // The remote QP's number, 24 bits.
  std::optional<uint32_t> rq_psn = {};       // First PSN expected from the remote side, 24 bits.
  std::optional<uint32_t> sq_psn = {};       // First PSN of this side, 24 bits.
  std::optional<uint32_t> max_dest_rd_atomic =
      {};  // Reads and atomics in flight; 0 to device limit.
  // Least time that a sender waits after "receiver not ready", as the 5-bit code of the InfiniBand
  // specification (table 45): 1 is 0.01 ms, 12 is 0.64 ms, 31 is 491.52 ms, 0 is 655.36 ms.
  std::optional<uint32_t> min_rnr_timer = {};
  // Local acknowledge timeout as a 5-bit code: 4.096 us * 2^code; 0 means for ever.
  std::optional<uint32_t> timeout = {};
  std::optional<Path> path = {};
};

// What a remote side needs to know of a QP to reach it.
struct QpEndpoint {
  uint32_t qp_num = 0;     // 24 bits.
  uint32_t port = 0;       // From 1.
  uint32_t lid = 0;        // 0 where the link layer has none.
  Gid gid = {};            // All zero where the port has none.
  uint32_t gid_index = 0;  // Of `gid` in the port's table.
  uint32_t mtu = 0;        // The port's active MTU in bytes.
  uint32_t psn = 0;        // First PSN of this QP's side, 24 bits: the remote side's rq_psn.
};

// The remote end of a connection.
struct RemoteEndpoint {
  uint32_t qp_num = 0;  // Number of the remote (XRC initiator) QP, 24 bits.
  uint32_t psn = 0;     // The remote side's first PSN (its sq_psn), 24 bits.
  Path path = {};       // How to reach its port.
};

// Who the kernel says that this client is.
struct Identity {
  uint32_t uid = 0;                   // Effective, at connect time.
  uint32_t gid = 0;                   // Effective, at connect time.
  std::vector<uint32_t> groups = {};  // Supplementary groups at connect time.
  int32_t pid = 0;                    // 0 where there is none in the daemon's namespace.
  std::string session = {};           // Name of this client's session.
  std::string generation = {};        // The daemon's generation: 12 hexadecimal digits.
  std::string version = {};           // The daemon's version.
};

// A port of a device.
struct Port {
  uint32_t number = 0;  // From 1.
  PortState state = PortState::kUnknown;
  std::string link_layer = {};       // "InfiniBand", "Ethernet" or "unknown".
  uint32_t lid = 0;                  // 0 where the link layer has none.
  uint32_t active_mtu = 0;           // Bytes; 0 when down.
  std::vector<Gid> gids = {};        // Those in use, in the order of the table.
  std::vector<uint32_t> pkeys = {};  // Those in use, by value.
};

// A device, as the daemon sees it.
struct Device {
  std::string name = {};                    // "devices/mlx5_0".
  bool xrc_supported = false;               // Whether domains can be opened on it.
  std::string xrc_unsupported_reason = {};  // Where not: why.
  std::string firmware = {};
  std::string node_guid = {};  // 16 hexadecimal digits.
  std::vector<Port> ports = {};
  uint32_t max_qp = 0;  // Limit of QPs.
};

// An XRC domain, as it was when the daemon answered.
struct XrcdInfo {
  std::string name = {};  // devices/DEVICE/xrcds/OWNER/NAME@GENERATION.
  uint32_t owner_uid = 0;
  uint32_t gid = 0;
  uint32_t mode = 0;  // 9 bits as of a file: r (4) open and query, w (2) create, modify, destroy.
  std::vector<uint32_t> member_uids = {};  // Who has the group's rights without being in it.
  XrcdLife life = XrcdLife::kLeases;
  bool destroyed = false;  // Takes no new opens; goes with its last lease.
  std::chrono::system_clock::time_point create_time = {};
  uint32_t lease_count = 0;  // Leases on the domain itself.
  uint32_t qp_count = 0;     // QPs in it.
};

// A QP, as it was in the broker's books when the daemon answered.
struct QpInfo {
  std::string name = {};  // The domain's name + /qps/0xNUMBER.
  uint32_t qp_num = 0;    // 24 bits.
  std::string key = {};   // Unique in the domain; may be empty.
  QpLife life = QpLife::kHolders;
  uint32_t creator_uid = 0;
  uint32_t lease_count = 0;  // Its reference count.
  bool destroyed = false;    // Takes no new opens; goes with its last lease.
  bool lingering = false;    // The broker let go of it, but some process keeps a handle of its own.
  std::chrono::system_clock::time_point create_time = {};
};

// One reference, as the broker's books show it.
struct LeaseInfo {
  std::string name = {};    // leases/ID@GENERATION.
  std::string target = {};  // Name of the domain or QP.
  uint32_t uid = 0;         // Who it was granted to; the descriptor may have been passed on since.
  int32_t pid = 0;          // At connect time.
  std::chrono::system_clock::time_point create_time = {};
};

}  // namespace qpbroker

#endif  // QPBROKER_TYPES_H_
