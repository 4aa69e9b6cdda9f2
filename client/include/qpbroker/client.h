// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_CLIENT_H_
#define QPBROKER_CLIENT_H_

// The client of qpbrokerd: opens XRC domains and sharable target QPs that the daemon owns.
//
//   qpbroker::Result<qpbroker::Client> client = qpbroker::Client::Connect();
//   if (!client.ok()) return Fail(client.error());
//   qpbroker::Result<qpbroker::Xrcd> domain =
//       client->OpenXrcd({.device = "mlx5_0", .name = "job-7", .create = true});
//   if (!domain.ok()) return Fail(domain.error());
//   qpbroker::Result<qpbroker::Qp> qp = client->CreateQp(domain->name(), {.key = "rank-0"});
//   if (!qp.ok()) return Fail(qp.error());
//   std::cout << "QP 0x" << std::hex << qp->number() << "\n";
//
// Several processes may do this at the same time: all get the same domain and the same QP, each
// with a lease of its own. verbs_util.h turns what was granted into ibv_xrcd* and ibv_qp*.
//
// Ownership: Xrcd and Qp own their descriptors and outlive the Client if need be; only their Close
// needs it. Destroying them is enough to release what they hold. An object that was moved from may
// only be destroyed or assigned to.
//
// Threads: a Client may be used by several threads at once, also for calls that deliver
// descriptors. It must not be moved or destroyed meanwhile. The library never changes signal
// dispositions and raises no SIGPIPE.
//
// fork(2): in the child every call on an inherited Client fails at once (NOT_ATTACHED), and so does
// a new Connect if the parent had connected; exec first. Destroying the inherited Client there does
// not disturb the parent. Leases: see lease.h.
//
// Timeouts: a call that fails with DEADLINE_EXCEEDED may have been carried out. Descriptors that
// come for it later are closed, and what they hold is released, as soon as the library reads its
// session socket: in ProcessSession, in the next call, or with the Client.
//
// Errors: besides those that are listed at a call, every call may fail with PERMISSION_DENIED,
// INVALID_FIELD, DEADLINE_EXCEEDED, DAEMON_UNREACHABLE (connect anew: the library does not by
// itself), SHUTTING_DOWN, INTERNAL, and in a forked child NOT_ATTACHED. Calls that deliver
// descriptors add FD_NOT_DELIVERED (this process's file limit, or a security policy; nothing is
// held), SESSION_GONE, SESSION_BACKLOG, PROTOCOL_VIOLATION, QUOTA_EXCEEDED and DAEMON_LIMIT.

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "qpbroker/error.h"
#include "qpbroker/lease.h"
#include "qpbroker/types.h"

namespace qpbroker {

namespace client {
class Connection;
struct GrantedXrcd;
}  // namespace client

struct ConnectOptions {
  // Where the daemon's sockets are; at most 90 bytes.
  std::string runtime_dir = "/run/qpbroker";
  // How long connecting may take in all.
  std::chrono::milliseconds timeout = std::chrono::seconds(30);
};

struct OpenXrcdOptions {
  // Name of the device, with or without "devices/".
  std::string device = {};
  // Owner's uid; not given: the caller.
  std::optional<uint32_t> owner_uid = {};
  // 1 to 64 characters of [A-Za-z0-9._-], not beginning with a dot.
  std::string name = {};
  // Create it if it does not exist, as O_CREAT. Only the owner can.
  bool create = false;
  // With create: fail with XRCD_EXISTS if it exists, as O_EXCL.
  bool exclusive = false;
  // When created: permission bits as of a file, e.g. 0660; 0 means 0600.
  uint32_t mode = 0;
  // When created: its group, one of the caller's; not given: the caller's gid.
  std::optional<uint32_t> gid = {};
  // When created: users who get the group's rights without being in it; at most 1024.
  std::vector<uint32_t> member_uids = {};
  // When created: how long it lives.
  XrcdLife life = XrcdLife::kLeases;
  // Idempotency key, 1 to 64 characters of [A-Za-z0-9._:-]; empty: the library makes a random one.
  // A call that failed half-way may be repeated with the same key.
  std::string request_id = {};
};

struct CreateQpOptions {
  // Unique in the domain: up to 128 characters of [A-Za-z0-9._:/-]. Empty: a QP without a key.
  std::string key = {};
  // With a key: fail with QP_EXISTS if a QP with it exists. Otherwise that QP is opened.
  bool exclusive = false;
  // How long it lives.
  QpLife life = QpLife::kHolders;
  // The port that Qp::endpoint describes, from 1.
  uint32_t port = 1;
  // As OpenXrcdOptions::request_id.
  std::string request_id = {};
};

struct OpenQpOptions {
  // As OpenXrcdOptions::request_id.
  std::string request_id = {};
};

struct ConnectQpOptions {
  // The remote end.
  RemoteEndpoint remote = {};
  // Local port, from 1.
  uint32_t port = 1;
  // P_Key by value, 16 bits.
  uint32_t pkey = 0xffff;
  // What the remote side may do; not given: remote write, read and atomic.
  std::optional<AccessFlags> access = {};
  // Path MTU in bytes: 256, 512, 1024, 2048 or 4096; 0 means the port's active MTU.
  uint32_t path_mtu = 0;
  // This side's first PSN, 24 bits; not given: QpEndpoint::psn.
  std::optional<uint32_t> psn = {};
  // RDMA reads and atomics that the remote side may have in flight; not given: 1.
  std::optional<uint32_t> max_dest_rd_atomic = {};
  // Codes as in QpAttributes; not given: 12 (0.64 ms) and 14 (67 ms).
  std::optional<uint32_t> min_rnr_timer = {};
  std::optional<uint32_t> timeout = {};
};

struct ConnectedQp {
  // The QP was connected to this endpoint already; nothing was done.
  bool already_connected = false;
  // How the remote side reaches this one.
  QpEndpoint endpoint = {};
};

struct QpStatus {
  QpInfo info = {};              // The books' view.
  QpAttributes attributes = {};  // The device's view; P_Key and GIDs by value.
};

struct DestroyedQp {
  // Leases that still hold it; 0: the broker has let go of it.
  uint32_t remaining_leases = 0;
  // The broker has let go of it, but some process keeps a handle of its own.
  bool lingering = false;
};

struct DestroyedXrcd {
  // There was such a domain.
  bool existed = false;
  // Who still holds it or a QP in it, at most 100. Empty: it is gone.
  std::vector<LeaseInfo> holders = {};
};

// An open domain: a lease on it, and the file that is the domain.
class Xrcd {
 public:
  // For the library only: domains come from a Client.
  explicit Xrcd(std::unique_ptr<client::GrantedXrcd> granted);

  Xrcd(Xrcd&&) noexcept;
  Xrcd& operator=(Xrcd&&) noexcept;
  Xrcd(const Xrcd&) = delete;
  Xrcd& operator=(const Xrcd&) = delete;
  // Closes both descriptors.
  ~Xrcd();

  // Resource name, as the calls on domains take it.
  const std::string& name() const { return info().name; }
  // The domain when it was opened.
  const XrcdInfo& info() const;
  // This open created it.
  bool created() const;
  // The domain's file, read-only and close-on-exec, for ibv_open_xrcd with oflags 0; -1 once
  // closed. Whoever gets a copy can join the domain for ever.
  int domain_fd() const;
  // Hears of every QP in the domain, too.
  Lease& lease();

  // As Lease::Close; closes the domain's file as well.
  Result<uint32_t> Close(const CallOptions& call = {});

 private:
  std::unique_ptr<client::GrantedXrcd> granted_;
};

// An open target QP: a lease on it, and how to reach it.
class Qp {
 public:
  // For the library only: QPs come from a Client.
  Qp(std::optional<Lease> lease, QpInfo info, std::optional<QpEndpoint> endpoint, bool created);

  // Resource name, as the calls on QPs take it.
  const std::string& name() const { return info_.name; }
  // 24 bits, for ibv_open_qp.
  uint32_t number() const { return info_.qp_num; }
  // The QP when it was opened.
  const QpInfo& info() const { return info_; }
  // How a remote side reaches it; from CreateQp only.
  const std::optional<QpEndpoint>& endpoint() const { return endpoint_; }
  // This call created it.
  bool created() const { return created_; }
  // Null for a QP that lives as long as its domain.
  Lease* lease() { return lease_ ? &*lease_ : nullptr; }

  // As Lease::Close; LEASE_NOT_FOUND where there is no lease.
  Result<uint32_t> Close(const CallOptions& call = {});

 private:
  std::optional<Lease> lease_;
  QpInfo info_;
  std::optional<QpEndpoint> endpoint_;
  bool created_;
};

class Client {
 public:
  // Connects to the daemon's sockets in `options.runtime_dir` and attaches a session.
  // Errors: DAEMON_UNREACHABLE (metadata "path" and "errno"), PROTOCOL_VIOLATION (also a daemon of
  // another protocol version), FD_NOT_DELIVERED (this process is out of descriptors),
  // DEADLINE_EXCEEDED, QUOTA_EXCEEDED, NOT_ATTACHED in the child of a process that had connected.
  static Result<Client> Connect(const ConnectOptions& options = {});

  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  // Ends the connection. What was opened stays open.
  ~Client();

  // Says who the kernel thinks the caller is.
  Result<Identity> WhoAmI(const CallOptions& call = {});

  // Lists the devices with their ports, sorted by name.
  Result<std::vector<Device>> ListDevices(const CallOptions& call = {});

  // Opens, or creates and opens, a domain.
  // Errors: DEVICE_NOT_FOUND, XRC_NOT_SUPPORTED, DEVICE_GONE, XRCD_NOT_FOUND, XRCD_EXISTS,
  // REQUEST_ID_REUSED, REQUEST_IN_PROGRESS, DEVICE_LIMIT, DEVICE_ERROR.
  Result<Xrcd> OpenXrcd(const OpenXrcdOptions& options, const CallOptions& call = {});

  // Creates a QP in the domain `xrcd` (Xrcd::name), or opens the one with the same key. Needs w.
  // Errors: QP_EXISTS, XRCD_NOT_FOUND, STALE_GENERATION, DEVICE_GONE, REQUEST_ID_REUSED,
  // REQUEST_IN_PROGRESS, DEVICE_LIMIT, DEVICE_ERROR.
  Result<Qp> CreateQp(std::string_view xrcd, const CreateQpOptions& options = {},
                      const CallOptions& call = {});

  // Opens a QP of the domain `xrcd` by its number (24 bits) or by its key. Needs r.
  // Errors: QP_NOT_FOUND, XRCD_NOT_FOUND, STALE_GENERATION, DEVICE_GONE, REQUEST_ID_REUSED,
  // REQUEST_IN_PROGRESS.
  Result<Qp> OpenQp(std::string_view xrcd, uint32_t qp_num, const OpenQpOptions& options = {},
                    const CallOptions& call = {});
  Result<Qp> OpenQp(std::string_view xrcd, std::string_view key, const OpenQpOptions& options = {},
                    const CallOptions& call = {});

  // Changes state or attributes of the QP `qp` (Qp::name), after a check against the InfiniBand
  // state table, and returns the state after the change. Needs w.
  // Errors: INVALID_TRANSITION, QP_NOT_FOUND, STALE_GENERATION, DEVICE_GONE, DEVICE_ERROR.
  Result<QpState> ModifyQp(std::string_view qp, const QpAttributes& attributes,
                           const CallOptions& call = {});

  // Takes a QP from RESET or INIT to RTS towards one remote endpoint. Doing it twice with the same
  // endpoint is fine. Needs w.
  // Errors: ALREADY_CONNECTED (metadata names the present endpoint), and those of ModifyQp.
  Result<ConnectedQp> ConnectQp(std::string_view qp, const ConnectQpOptions& options,
                                const CallOptions& call = {});

  // Asks the device for a QP's state and attributes. Needs r.
  // Errors: QP_NOT_FOUND, STALE_GENERATION, DEVICE_GONE, DEVICE_ERROR.
  Result<QpStatus> QueryQp(std::string_view qp, const CallOptions& call = {});

  // Takes a QP out of its domain, like unlink(2): no new opens; gone with the last lease. Needs w.
  // Errors: QP_NOT_FOUND, STALE_GENERATION, DEVICE_GONE, DEVICE_ERROR.
  Result<DestroyedQp> DestroyQp(std::string_view qp, const CallOptions& call = {});

  // Takes a domain's name away: no new opens; gone with its last lease. Idempotent; the owner only.
  // Errors: STALE_GENERATION, DEVICE_ERROR.
  Result<DestroyedXrcd> DestroyXrcd(std::string_view xrcd, const CallOptions& call = {});

  // Lists the QPs of a domain whose key begins with `key_prefix` (empty: all), by number. Needs r.
  // Errors: XRCD_NOT_FOUND, STALE_GENERATION.
  Result<std::vector<QpInfo>> ListDomainQps(std::string_view xrcd, std::string_view key_prefix = {},
                                            const CallOptions& call = {});

  // For an event loop, optional: readable when the daemon sent something that no call is waiting
  // for (descriptors of a call that timed out) or ended the session. Owned by the Client; only to
  // be polled, level-triggered.
  int session_fd() const;

  // Closes such descriptors; never blocks. SESSION_GONE once the daemon has ended the session, and
  // then at every later call: connect anew.
  Result<void> ProcessSession();

 private:
  explicit Client(std::shared_ptr<client::Connection> connection);

  std::shared_ptr<client::Connection> connection_;
};

}  // namespace qpbroker

#endif  // QPBROKER_CLIENT_H_
