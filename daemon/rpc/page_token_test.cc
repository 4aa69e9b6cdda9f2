// SPDX-License-Identifier: Apache-2.0
#include "daemon/rpc/page_token.h"

#include <gtest/gtest.h>

#include <string>

#include "common/error_reason.h"

namespace qpbroker::rpc {
namespace {

TEST(PageTokenTest, TokenLeadsToTheNextPageOfItsList) {
  const std::string token = ToPageToken("qps", 4711);
  absl::StatusOr<core::PageRequest> page = ToPage("qps", 10, token);
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_EQ(page->after, 4711u);
  EXPECT_EQ(page->size, 10u);
  EXPECT_EQ(ToPageToken("qps", 0), "");
}

TEST(PageTokenTest, EverythingElseIsRefused) {
  const std::string good = ToPageToken("qps", 4711);
  EXPECT_EQ(ReasonOf(ToPage("leases", 10, good).status()), v1::REASON_BAD_PAGE_TOKEN);
  for (const std::string& token : {std::string("x"), good + "A", good.substr(1), std::string("%"),
                                   std::string(10000, 'A'), std::string("\0", 1)}) {
    EXPECT_EQ(ReasonOf(ToPage("qps", 10, token).status()), v1::REASON_BAD_PAGE_TOKEN) << token;
  }
}

TEST(PageTokenTest, SizeHasADefaultAndALimit) {
  EXPECT_EQ(ToPage("qps", 0, "")->size, 100u);
  EXPECT_EQ(ToPage("qps", 1000, "")->size, 1000u);
  EXPECT_EQ(ReasonOf(ToPage("qps", 1001, "").status()), v1::REASON_INVALID_FIELD);
  EXPECT_EQ(ReasonOf(ToPage("qps", 0xffffffff, "").status()), v1::REASON_INVALID_FIELD);
}

}  // namespace
}  // namespace qpbroker::rpc
