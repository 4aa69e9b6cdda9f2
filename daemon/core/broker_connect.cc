// SPDX-License-Identifier: Apache-2.0
//
// Modifying, connecting and querying QPs. The device is asked for the state each time: whoever
// opened the QP can change it behind the broker's back.
#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "daemon/core/broker.h"
#include "daemon/core/broker_internal.h"
#include "daemon/core/qp_state_table.h"

namespace qpbroker::core {
namespace {

using verbs::QpAttributes;
using verbs::QpState;

absl::Status InvalidField(absl::string_view field, absl::string_view why) {
  return MakeError(v1::REASON_INVALID_FIELD, absl::StrCat(field, ": ", why),
                   {{"field", std::string(field)}});
}

absl::StatusOr<uint16_t> PkeyIndexOf(const verbs::PortInfo& port, uint16_t pkey) {
  auto found = std::find(port.pkeys.begin(), port.pkeys.end(), pkey);
  if (pkey == 0 || found == port.pkeys.end()) {
    return InvalidField("pkey", absl::StrCat("port ", port.number, " has no P_Key 0x",
                                             absl::Hex(pkey, absl::kZeroPad4)));
  }
  return static_cast<uint16_t>(found - port.pkeys.begin());
}

absl::StatusOr<verbs::AddressVector> ResolvePath(const verbs::PortInfo& port, const Path& path) {
  verbs::AddressVector av = path.av;
  av.port = port.number;
  if (!av.is_global) {
    if (port.link_layer == verbs::LinkLayer::kEthernet) {
      return InvalidField("path.global_route", "is required on Ethernet");
    }
    if (av.dlid == 0) return InvalidField("path.dlid", "or path.global_route is required");
    return av;
  }
  if (path.sgid) {
    auto found = std::find(port.gids.begin(), port.gids.end(), *path.sgid);
    if (found == port.gids.end()) {
      return InvalidField("path.global_route.sgid",
                          absl::StrCat("port ", port.number, " has no such GID"));
    }
    av.sgid_index = static_cast<uint8_t>(found - port.gids.begin());
  } else if (av.sgid_index >= port.gids.size()) {
    return InvalidField("path.global_route.sgid", "the index is outside the port's table");
  }
  return av;
}

// Where both lead, leaving aside what a device may report otherwise than it was told.
bool SameDestination(const verbs::AddressVector& a, const verbs::AddressVector& b) {
  return a.is_global == b.is_global && (a.is_global ? a.dgid == b.dgid : a.dlid == b.dlid);
}

absl::Status AlreadyConnected(const QpAttributes& present) {
  const verbs::AddressVector& av = present.av;
  ErrorMetadata metadata = {{"remote_qp_num", FormatQpNumber(present.dest_qp_num)}};
  std::string where = absl::StrCat("LID ", av.dlid);
  if (av.is_global) {
    std::string dgid = absl::BytesToHexString(
        absl::string_view(reinterpret_cast<const char*>(av.dgid.data()), av.dgid.size()));
    where = absl::StrCat("GID ", dgid);
    metadata.emplace_back("dgid", dgid);
  } else {
    metadata.emplace_back("dlid", absl::StrCat(av.dlid));
  }
  return MakeError(v1::REASON_ALREADY_CONNECTED,
                   absl::StrCat("the QP is connected to QP ", FormatQpNumber(present.dest_qp_num),
                                " at ", where),
                   metadata);
}

// One step of the state table, checked before the device sees it.
absl::Status CheckedModify(verbs::TargetQp& qp, QpState from, const QpAttributes& attributes,
                           uint32_t mask) {
  const QpState to = (mask & verbs::kQpAttrState) != 0 ? attributes.state : from;
  if (absl::Status status = CheckTransition(from, to, mask); !status.ok()) return status;
  return qp.Modify(attributes, mask);
}

absl::StatusOr<QpState> ModifyInKernel(KernelQp& qp, const QpChange& change) {
  absl::StatusOr<QpAttributes> present = qp.qp->Query();
  if (!present.ok()) return present.status();
  QpAttributes attributes = change.attributes;
  const bool sets_state = (change.mask & verbs::kQpAttrState) != 0;
  const QpState to = sets_state ? attributes.state : present->state;
  // Before P_Key and path are resolved: a wrong transition is the first thing to be told.
  absl::Status allowed = CheckTransition(present->state, to, change.mask);
  if (!allowed.ok()) return allowed;
  if ((change.mask & (verbs::kQpAttrPkeyIndex | verbs::kQpAttrAv | verbs::kQpAttrPort)) != 0) {
    const uint8_t number =
        (change.mask & verbs::kQpAttrPort) != 0 ? attributes.port : present->port;
    absl::StatusOr<verbs::PortInfo> port = QueryPort(*qp.xrcd->device, number);
    if (!port.ok()) return port.status();
    if ((change.mask & verbs::kQpAttrPkeyIndex) != 0) {
      absl::StatusOr<uint16_t> index = PkeyIndexOf(*port, change.pkey);
      if (!index.ok()) return index.status();
      attributes.pkey_index = *index;
    }
    if ((change.mask & verbs::kQpAttrAv) != 0) {
      absl::StatusOr<verbs::AddressVector> av = ResolvePath(*port, change.path);
      if (!av.ok()) return av.status();
      attributes.av = *av;
    }
  }
  absl::Status modified = qp.qp->Modify(attributes, change.mask);
  if (!modified.ok()) return modified;
  return to;
}

// Everything that a connection sets, resolved against the port.
absl::StatusOr<QpAttributes> ResolveConnection(const ConnectQpCall& call, uint32_t psn,
                                               const verbs::PortInfo& port,
                                               const verbs::DeviceInfo& device) {
  if (call.max_dest_rd_atomic > device.max_dest_rd_atomic) {
    return InvalidField("max_dest_rd_atomic",
                        absl::StrCat(device.name, " has a limit of ", device.max_dest_rd_atomic));
  }
  QpAttributes attributes;
  absl::StatusOr<uint16_t> pkey_index = PkeyIndexOf(port, call.pkey);
  if (!pkey_index.ok()) return pkey_index.status();
  absl::StatusOr<verbs::AddressVector> av = ResolvePath(port, call.path);
  if (!av.ok()) return av.status();
  attributes.pkey_index = *pkey_index;
  attributes.port = port.number;
  attributes.access = call.access;
  attributes.av = *av;
  attributes.path_mtu = call.path_mtu != 0 ? call.path_mtu : port.active_mtu;
  if (attributes.path_mtu > port.active_mtu) {
    return InvalidField("path_mtu",
                        absl::StrCat("is above the port's active MTU of ", port.active_mtu));
  }
  attributes.dest_qp_num = call.remote_qp_num;
  attributes.rq_psn = call.remote_psn;
  attributes.max_dest_rd_atomic = call.max_dest_rd_atomic;
  attributes.min_rnr_timer = call.min_rnr_timer;
  attributes.timeout = call.timeout;
  attributes.sq_psn = call.psn.value_or(psn);
  return attributes;
}

constexpr uint32_t kToInit =
    verbs::kQpAttrState | verbs::kQpAttrPkeyIndex | verbs::kQpAttrPort | verbs::kQpAttrAccessFlags;
constexpr uint32_t kToRtr = verbs::kQpAttrState | verbs::kQpAttrAv | verbs::kQpAttrPathMtu |
                            verbs::kQpAttrDestQpn | verbs::kQpAttrRqPsn |
                            verbs::kQpAttrMaxDestRdAtomic | verbs::kQpAttrMinRnrTimer;
constexpr uint32_t kToRts = verbs::kQpAttrState | verbs::kQpAttrTimeout | verbs::kQpAttrSqPsn;

// Goes on from wherever an earlier attempt stopped. True: there was nothing to do.
absl::StatusOr<bool> Connect(verbs::TargetQp& qp, QpAttributes wanted) {
  absl::StatusOr<QpAttributes> present = qp.Query();
  if (!present.ok()) return present.status();
  QpState state = present->state;
  if (state == QpState::kRtr || state == QpState::kRts) {
    if (present->dest_qp_num != wanted.dest_qp_num || !SameDestination(present->av, wanted.av)) {
      return AlreadyConnected(*present);
    }
    if (state == QpState::kRts) return true;
  }
  struct Step {
    QpState to;
    uint32_t mask;
  };
  constexpr Step kSteps[] = {
      {QpState::kInit, kToInit}, {QpState::kRtr, kToRtr}, {QpState::kRts, kToRts}};
  for (const Step& step : kSteps) {
    if (state == QpState::kRtr && step.to != QpState::kRts) continue;
    wanted.state = step.to;
    absl::Status status = CheckedModify(qp, state, wanted, step.mask);
    if (!status.ok()) return status;
    state = step.to;
  }
  return false;
}

}  // namespace

void Broker::WithQp(
    const Caller& caller, const QpName& name, Access access,
    absl::AnyInvocable<void(const absl::Status&)> refuse,
    absl::AnyInvocable<void(KernelQp& qp, const QpView& view, uint32_t psn) &&> task) {
  absl::Status refused;
  {
    Later later;
    absl::MutexLock lock(&mutex_);
    absl::StatusOr<QpRecord*> found = FindQp(caller, name, access);
    refused = found.status();
    if (found.ok()) {
      const QpRecord& qp = **found;
      later.Run([this, device = name.xrcd.key.device, id = qp.id, kernel = qp.kernel,
                 view = ViewOf(qp), psn = qp.psn, task = std::move(task)]() mutable {
        ports_.executor->Post(
            device, StrandOf(id),
            [kernel = std::move(kernel), view = std::move(view), psn,
             task = std::move(task)]() mutable { std::move(task)(*kernel, view, psn); });
      });
    }
  }
  if (!refused.ok()) refuse(refused);
}

void Broker::ModifyQp(const Caller& caller, const ModifyQpCall& call, Done<QpState> done) {
  auto shared = std::make_shared<Done<QpState>>(std::move(done));
  WithQp(
      caller, call.qp, Access::kWrite,
      [shared](const absl::Status& status) { std::move (*shared)(status); },
      [shared, change = call.change](KernelQp& qp, const QpView&, uint32_t) {
        std::move (*shared)(ModifyInKernel(qp, change));
      });
}

void Broker::ConnectQp(const Caller& caller, const ConnectQpCall& call,
                       Done<ConnectQpAnswer> done) {
  auto shared = std::make_shared<Done<ConnectQpAnswer>>(std::move(done));
  auto connect = [call](KernelQp& qp, uint32_t psn) -> absl::StatusOr<ConnectQpAnswer> {
    verbs::Device& device = *qp.xrcd->device;
    absl::StatusOr<verbs::PortInfo> port = QueryPort(device, call.port);
    if (!port.ok()) return port.status();
    absl::StatusOr<QpAttributes> wanted = ResolveConnection(call, psn, *port, device.info());
    if (!wanted.ok()) return wanted.status();
    absl::StatusOr<bool> already = Connect(*qp.qp, *wanted);
    if (!already.ok()) return already.status();
    return ConnectQpAnswer{*already, EndpointOf(qp.qp->number(), wanted->sq_psn, *port)};
  };
  WithQp(
      caller, call.qp, Access::kWrite,
      [shared](const absl::Status& status) { std::move (*shared)(status); },
      [shared, connect](KernelQp& qp, const QpView&, uint32_t psn) {
        std::move (*shared)(connect(qp, psn));
      });
}

void Broker::QueryQp(const Caller& caller, const QpName& name, Done<QueryQpAnswer> done) {
  auto shared = std::make_shared<Done<QueryQpAnswer>>(std::move(done));
  auto query = [](KernelQp& qp, const QpView& view) -> absl::StatusOr<QueryQpAnswer> {
    absl::StatusOr<QpAttributes> attributes = qp.qp->Query();
    if (!attributes.ok()) return attributes.status();
    QueryQpAnswer answer{view, *attributes, 0, std::nullopt};
    if (attributes->state == QpState::kReset) return answer;
    absl::StatusOr<verbs::PortInfo> port = QueryPort(*qp.xrcd->device, attributes->port);
    if (!port.ok()) return port.status();
    if (attributes->pkey_index < port->pkeys.size()) {
      answer.pkey = port->pkeys[attributes->pkey_index];
    }
    if (attributes->av.is_global && attributes->av.sgid_index < port->gids.size()) {
      answer.sgid = port->gids[attributes->av.sgid_index];
    }
    return answer;
  };
  WithQp(
      caller, name, Access::kRead,
      [shared](const absl::Status& status) { std::move (*shared)(status); },
      [shared, query](KernelQp& qp, const QpView& view, uint32_t) {
        std::move (*shared)(query(qp, view));
      });
}

}  // namespace qpbroker::core
