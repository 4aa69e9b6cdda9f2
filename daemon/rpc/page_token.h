// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_DAEMON_RPC_PAGE_TOKEN_H_
#define QPBROKER_DAEMON_RPC_PAGE_TOKEN_H_

// Paging of lists: opaque tokens that say which list they continue, and behind which entry.

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "daemon/core/calls.h"

namespace qpbroker::rpc {

// The page that a request asks of `list`. INVALID_FIELD for a page_size above 1000, BAD_PAGE_TOKEN.
absl::StatusOr<core::PageRequest> ToPage(absl::string_view list, uint32_t page_size,
                                         const std::string& page_token);

// The token of the page behind `next_after`; empty for 0: there is none.
std::string ToPageToken(absl::string_view list, uint64_t next_after);

}  // namespace qpbroker::rpc

#endif  // QPBROKER_DAEMON_RPC_PAGE_TOKEN_H_
