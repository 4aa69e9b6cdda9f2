// SPDX-License-Identifier: Apache-2.0
#include "daemon/rpc/page_token.h"

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "daemon/rpc/field_error.h"

namespace qpbroker::rpc {

absl::StatusOr<core::PageRequest> ToPage(absl::string_view list, uint32_t page_size,
                                         const std::string& page_token) {
  constexpr uint32_t kDefaultSize = 100;
  constexpr uint32_t kMaxSize = 1000;
  constexpr size_t kMaxToken = 128;
  if (page_size > kMaxSize) {
    return InvalidField("page_size", absl::StrCat(page_size, " is above ", kMaxSize));
  }
  core::PageRequest page;
  page.size = page_size == 0 ? kDefaultSize : page_size;
  if (page_token.empty()) return page;
  std::string text;
  absl::string_view rest;
  if (page_token.size() > kMaxToken || !absl::WebSafeBase64Unescape(page_token, &text) ||
      !absl::ConsumePrefix(&(rest = text), absl::StrCat(list, ":")) ||
      !absl::SimpleAtoi(rest, &page.after) || page.after == 0 ||
      ToPageToken(list, page.after) != page_token) {
    return MakeError(v1::REASON_BAD_PAGE_TOKEN, "", {{"field", "page_token"}});
  }
  return page;
}

std::string ToPageToken(absl::string_view list, uint64_t next_after) {
  if (next_after == 0) return {};
  return absl::WebSafeBase64Escape(absl::StrCat(list, ":", next_after));
}

}  // namespace qpbroker::rpc
