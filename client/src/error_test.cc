// SPDX-License-Identifier: Apache-2.0
#include "qpbroker/error.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "client/src/error_convert.h"
#include "client/src/request_id.h"
#include "gtest/gtest.h"

namespace qpbroker {
namespace {

TEST(ErrorTest, ReadsAsOneLineForPeople) {
  Error error{.code = ErrorCode::kNotFound,
              .reason = "QP_NOT_FOUND",
              .message = "no QP 0x800012 in job-7",
              .hint = "ListDomainQps names those there are",
              .metadata = {{"qp_num", "0x800012"}}};
  EXPECT_EQ(error.ToString(),
            "no QP 0x800012 in job-7 [NOT_FOUND QP_NOT_FOUND, qp_num=0x800012]; "
            "ListDomainQps names those there are");
}

TEST(ErrorTest, ReadsWellWhenAlmostEmpty) { EXPECT_EQ(Error().ToString(), "failed [UNKNOWN]"); }

TEST(ErrorTest, EveryCanonicalCodeHasItsNameAndAbseilsNumber) {
  for (int code = 1; code <= 16; ++code) {
    EXPECT_EQ(ErrorCodeName(static_cast<ErrorCode>(code)),
              absl::StatusCodeToString(static_cast<absl::StatusCode>(code)));
  }
  EXPECT_EQ(ErrorCodeName(static_cast<ErrorCode>(99)), "UNKNOWN");
}

TEST(ErrorTest, ForeignErrorKeepsCodeAndMessage) {
  Error error = client::ToError(absl::UnimplementedError("no such method"));
  EXPECT_EQ(error.code, ErrorCode::kUnimplemented);
  EXPECT_EQ(error.reason, "");
  EXPECT_EQ(error.message, "no such method");
}

TEST(ResultTest, HoldsMoveOnlyValues) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(7);
  ASSERT_TRUE(result.ok());
  std::unique_ptr<int> value = *std::move(result);
  EXPECT_EQ(*value, 7);
}

TEST(ResultTest, HoldsAnError) {
  Result<int> result = Error{.reason = "QP_NOT_FOUND"};
  EXPECT_FALSE(result);
  EXPECT_EQ(result.error().reason, "QP_NOT_FOUND");
  Result<void> nothing = result.error();
  EXPECT_FALSE(nothing.ok());
  EXPECT_TRUE(Result<void>().ok());
}

TEST(ResultDeathTest, AskingForTheOtherOneAborts) {
  Result<int> error = Error{.reason = "QP_NOT_FOUND"};
  EXPECT_DEATH(static_cast<void>(error.value()), "QP_NOT_FOUND");
  Result<int> value = 1;
  EXPECT_DEATH(static_cast<void>(value.error()), "successful");
  EXPECT_DEATH(static_cast<void>(Result<void>().error()), "successful");
}

TEST(RequestIdTest, IsAFreshUuidEachTime) {
  std::string id = client::NewRequestId();
  ASSERT_EQ(id.size(), 36u);
  EXPECT_EQ(id.find_first_not_of("0123456789abcdef-"), std::string::npos);
  EXPECT_EQ(id[14], '4');
  EXPECT_NE(client::NewRequestId(), id);
}

}  // namespace
}  // namespace qpbroker
