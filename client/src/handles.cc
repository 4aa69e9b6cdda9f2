// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "client/src/error_convert.h"
#include "client/src/granted_xrcd.h"
#include "common/error_reason.h"
#include "qpbroker/client.h"

namespace qpbroker {

Xrcd::Xrcd(std::unique_ptr<client::GrantedXrcd> granted) : granted_(std::move(granted)) {}
Xrcd::Xrcd(Xrcd&&) noexcept = default;
Xrcd& Xrcd::operator=(Xrcd&&) noexcept = default;
Xrcd::~Xrcd() = default;

const XrcdInfo& Xrcd::info() const { return granted_->info; }
bool Xrcd::created() const { return granted_->created; }
int Xrcd::domain_fd() const { return granted_->file.get(); }
Lease& Xrcd::lease() { return granted_->lease; }

Result<uint32_t> Xrcd::Close(const CallOptions& call) {
  granted_->file.reset();
  return granted_->lease.Close(call);
}

Qp::Qp(std::optional<Lease> lease, QpInfo info, std::optional<QpEndpoint> endpoint, bool created)
    : lease_(std::move(lease)),
      info_(std::move(info)),
      endpoint_(std::move(endpoint)),
      created_(created) {}

Result<uint32_t> Qp::Close(const CallOptions& call) {
  if (lease_) return lease_->Close(call);
  return client::ToError(MakeError(v1::REASON_LEASE_NOT_FOUND,
                                   "this QP lives as long as its domain: there is no lease on it",
                                   {{"qp", info_.name}}));
}

}  // namespace qpbroker
