// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_DAEMON_CORE_KEPT_RECORD_H_
#define QPBROKER_DAEMON_CORE_KEPT_RECORD_H_

// The books' records as the keeper has them (record.proto), there and back. What cannot be written
// down, kernel handles and charges, is left empty on the way back. The writer is this program, of
// this or of another version: a record is checked as far as a wrong one could break the books.

#include <memory>

#include "daemon/core/registry.h"
#include "qpbroker/keeper/v1/record.pb.h"

namespace qpbroker::core {

keeper::v1::Record RecordOf(const XrcdRecord& xrcd, const DomainFile& file);
// `request`: the entry of qp.request, null where that is empty.
keeper::v1::Record RecordOf(const QpRecord& qp, const RequestEntry* request);
// `qp`: what the lease is on, null for the domain.
keeper::v1::Record RecordOf(const LeaseRecord& lease, const QpRecord* qp, uint64_t fingerprint);

// Null: a record that makes no sense.
std::unique_ptr<XrcdRecord> XrcdOf(const keeper::v1::Xrcd& record);
std::unique_ptr<QpRecord> QpOf(const keeper::v1::Qp& record);
std::unique_ptr<LeaseRecord> LeaseOf(const keeper::v1::Lease& record);

}  // namespace qpbroker::core

#endif  // QPBROKER_DAEMON_CORE_KEPT_RECORD_H_
