// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_DAEMON_CORE_CALLS_H_
#define QPBROKER_DAEMON_CORE_CALLS_H_

// What the broker is asked and what it answers, free of the wire format. The meaning of every
// member is that of the field of the same name in broker.proto and resources.proto.

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "daemon/core/ids.h"
#include "daemon/core/resource_name.h"
#include "daemon/verbs/verbs.h"

namespace qpbroker::core {

enum class XrcdLife : uint8_t { kLeases, kPersistent };
enum class QpLife : uint8_t { kHolders, kDomain };

// Makes a repeated call give the same grant again.
struct RequestTag {
  std::string id;            // Unique for the user.
  uint64_t fingerprint = 0;  // Hash of the request: the same id with another request is an error.
};

// ---- Views: copies of what the books say, for answers and lists.

struct XrcdView {
  XrcdKey key;
  gid_t gid = 0;
  uint32_t mode = 0;
  std::vector<uid_t> members;
  XrcdLife life = XrcdLife::kLeases;
  bool destroyed = false;
  absl::Time created;
  uint32_t leases = 0;
  uint32_t qps = 0;
};

struct QpView {
  XrcdKey xrcd;
  uint32_t number = 0;
  std::string key;
  QpLife life = QpLife::kHolders;
  uid_t creator = 0;
  uint32_t leases = 0;
  bool destroyed = false;
  bool lingering = false;
  absl::Time created;
};

struct LeaseView {
  LeaseId id;
  XrcdKey xrcd;
  std::optional<uint32_t> qp_num;  // Set: a lease on this QP; otherwise on the domain.
  uid_t uid = 0;
  pid_t pid = 0;
  absl::Time created;
};

struct SessionView {
  SessionId id;
  uid_t uid = 0;
  pid_t pid = 0;
  bool attached = false;
  absl::Time created;
};

struct DeviceView {
  verbs::DeviceInfo info;
  std::vector<verbs::PortInfo> ports;
};

struct QpEndpoint {
  uint32_t qp_num = 0;
  uint8_t port = 1;
  uint16_t lid = 0;
  verbs::Gid gid{};
  uint8_t gid_index = 0;
  uint32_t mtu = 0;
  uint32_t psn = 0;
};

// ---- Calls.

struct OpenXrcdCall {
  XrcdKey key;
  bool create = false;
  bool exclusive = false;
  uint32_t mode = 0600;
  std::optional<gid_t> gid;
  std::vector<uid_t> members;
  XrcdLife life = XrcdLife::kLeases;
  RequestTag request;
};

struct OpenXrcdAnswer {
  LeaseId lease;
  XrcdView xrcd;
  bool created = false;
};

struct CreateQpCall {
  XrcdName xrcd;
  std::string key;
  bool exclusive = false;
  QpLife life = QpLife::kHolders;
  uint8_t port = 1;
  RequestTag request;
};

struct CreateQpAnswer {
  std::optional<LeaseId> lease;
  QpView qp;
  bool created = false;
  QpEndpoint endpoint;
};

struct OpenQpCall {
  XrcdName xrcd;
  // Exactly one of the two.
  std::optional<uint32_t> number;
  std::optional<std::string> key;
  RequestTag request;
};

struct OpenQpAnswer {
  LeaseId lease;
  QpView qp;
};

// A path whose source GID may be given by value.
struct Path {
  verbs::AddressVector av;  // Without port and, if `sgid` is set, sgid_index.
  std::optional<verbs::Gid> sgid;
};

// Attributes as people give them: P_Key and source GID by value.
struct QpChange {
  uint32_t mask =
      0;  // verbs::QpAttributeMask; kQpAttrPkeyIndex means `pkey`, kQpAttrAv means `path`.
  verbs::QpAttributes attributes;  // Without pkey_index and av.
  uint16_t pkey = 0;
  Path path;
};

struct ModifyQpCall {
  QpName qp;
  QpChange change;
};

struct ConnectQpCall {
  QpName qp;
  uint32_t remote_qp_num = 0;
  uint32_t remote_psn = 0;
  Path path;
  uint8_t port = 1;
  uint16_t pkey = 0xffff;
  uint32_t access =
      verbs::kAccessRemoteWrite | verbs::kAccessRemoteRead | verbs::kAccessRemoteAtomic;
  uint32_t path_mtu = 0;  // 0: the port's active MTU.
  std::optional<uint32_t> psn;
  uint8_t max_dest_rd_atomic = 1;
  uint8_t min_rnr_timer = 12;
  uint8_t timeout = 14;
};

struct ConnectQpAnswer {
  bool already_connected = false;
  QpEndpoint endpoint;
};

struct QueryQpAnswer {
  QpView qp;
  verbs::QpAttributes attributes;
  uint16_t pkey = 0;               // Value of attributes.pkey_index; 0 before INIT.
  std::optional<verbs::Gid> sgid;  // Value of attributes.av.sgid_index, for a global path.
};

struct DestroyQpAnswer {
  uint32_t remaining_leases = 0;
  bool lingering = false;
};

struct DestroyXrcdAnswer {
  bool existed = false;
  std::vector<LeaseView> holders;  // At most 100.
};

// A page of a list: entries behind `after` in the order of their ids (QPs of a domain: numbers).
struct PageRequest {
  size_t size = 100;
  uint64_t after = 0;
};

template <class T>
struct Page {
  std::vector<T> entries;
  uint64_t next_after = 0;  // 0: that was the last page.
};

}  // namespace qpbroker::core

#endif  // QPBROKER_DAEMON_CORE_CALLS_H_
