// SPDX-License-Identifier: Apache-2.0
//
// The books checked against themselves: each statement is counted in two ways.
#include <array>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "daemon/core/broker.h"
#include "daemon/core/broker_internal.h"

namespace qpbroker::core {

std::vector<std::string> Broker::CheckInvariants() const {
  std::vector<std::string> broken;
  auto expect = [&broken](bool holds, auto... parts) {
    if (!holds) broken.push_back(absl::StrCat(parts...));
  };
  absl::MutexLock lock(&mutex_);
  absl::flat_hash_map<XrcdId, size_t> domain_leases;
  absl::flat_hash_map<QpId, size_t> qp_leases;
  absl::flat_hash_map<uid_t, std::array<uint32_t, kQuotaCount>> expected;
  auto charge = [&expected](uid_t uid, Quota quota) {
    ++expected[uid][static_cast<size_t>(quota)];
  };

  size_t requests = 0;
  for (const auto& [id, lease] : registry_.leases()) {
    charge(lease->uid, Quota::kLeases);
    ++requests;
    ++(lease->qp ? qp_leases[*lease->qp] : domain_leases[lease->xrcd]);
    expect(registry_.xrcds().contains(lease->xrcd), "lease ", id.value(), " in no domain");
    expect(!lease->qp || registry_.qps().contains(*lease->qp), "lease ", id.value(), " on no QP");
  }
  size_t qps = 0;
  size_t named = 0;
  for (const auto& [id, xrcd] : registry_.xrcds()) {
    charge(xrcd->acl.owner, Quota::kXrcds);
    qps += xrcd->qps.size();
    named += xrcd->destroyed ? 0 : 1;
    requests += xrcd->kernel == nullptr ? 1 : 0;  // The call that creates it.
    expect(xrcd->leases.size() == domain_leases[id], "domain ", xrcd->key.name, " counts ",
           xrcd->leases.size(), " leases, there are ", domain_leases[id]);
    const bool used = xrcd->KeepsQps() || !xrcd->qps.empty() || xrcd->kernel == nullptr;
    expect(used || xrcd->destroyed, "domain ", xrcd->key.name, " is kept by nothing");
  }
  expect(named == registry_.names().size(), "names: ", registry_.names().size(), " for ", named);
  expect(qps == registry_.qps().size(), "domains count ", qps, " QPs, there are ",
         registry_.qps().size());
  for (const auto& [id, qp] : registry_.qps()) {
    auto domain = registry_.xrcds().find(qp->xrcd);
    if (domain == registry_.xrcds().end()) {
      broken.push_back(absl::StrCat("QP ", FormatQpNumber(qp->number), " in no domain"));
      continue;
    }
    charge(domain->second->acl.owner, Quota::kQps);
    requests += qp->phase == QpPhase::kCreating || !qp->request.second.empty() ? 1 : 0;
    expect(qp->leases.size() == qp_leases[id], "QP ", FormatQpNumber(qp->number), " counts ",
           qp->leases.size(), " leases, there are ", qp_leases[id]);
    expect(qp->phase == QpPhase::kLive || qp->leases.empty(), "QP ", FormatQpNumber(qp->number),
           " is not live and held");
    expect(qp->phase != QpPhase::kLive || qp->life == QpLife::kDomain || !qp->leases.empty(), "QP ",
           FormatQpNumber(qp->number), " is kept by nothing");
  }
  expect(requests == registry_.requests(), "requests: ", registry_.requests(), " for ", requests);
  for (const auto& [id, session] : sessions_.sessions()) {
    charge(session.identity.uid, Quota::kSessions);
  }
  for (const auto& [uid, counts] : expected) {
    for (Quota quota : {Quota::kSessions, Quota::kLeases, Quota::kXrcds, Quota::kQps}) {
      const uint32_t count = counts[static_cast<size_t>(quota)];
      expect(ledger_.Balance(uid, quota) == count, "uid ", uid, " is charged for ",
             ledger_.Balance(uid, quota), " ", QuotaName(quota), " and has ", count);
    }
  }
  return broken;
}

}  // namespace qpbroker::core
