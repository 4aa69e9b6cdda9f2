// SPDX-License-Identifier: Apache-2.0
#include "common/error_reason.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <set>
#include <string>

namespace qpbroker {
namespace {

TEST(ErrorReasonTest, TableHasEveryReasonWithItsNameCodeAndWords) {
  std::set<absl::string_view> names;
  for (int number = 1; number < v1::Reason_ARRAYSIZE; ++number) {
    const auto reason = static_cast<v1::Reason>(number);
    const ReasonEntry& entry = ReasonEntryOf(reason);
    EXPECT_EQ(entry.reason, reason);
    EXPECT_EQ("REASON_" + std::string(entry.name), v1::Reason_Name(reason));
    EXPECT_NE(entry.code, absl::StatusCode::kOk);
    EXPECT_GT(entry.errno_value, 0);
    EXPECT_FALSE(entry.text.empty());
    EXPECT_FALSE(entry.hint.empty());
    names.insert(entry.name);
  }
  EXPECT_EQ(names.size(), ReasonTable().size());
}

TEST(ErrorReasonTest, StatusCarriesReasonAndMetadata) {
  absl::Status status =
      MakeError(v1::REASON_QP_NOT_FOUND, "no QP 0x800012", {{"qp_num", "0x800012"}});
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(status.message(), "no QP 0x800012");
  EXPECT_EQ(ReasonOf(status), v1::REASON_QP_NOT_FOUND);
  auto info = ErrorInfoOf(status);
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->domain(), "qpbroker");
  EXPECT_EQ(info->reason(), "QP_NOT_FOUND");
  EXPECT_EQ(info->metadata().at("qp_num"), "0x800012");
  EXPECT_EQ(info->metadata().at("hint"), ReasonEntryOf(v1::REASON_QP_NOT_FOUND).hint);
}

TEST(ErrorReasonTest, ErrnoIsNamedInMetadataAndMessage) {
  absl::Status status = ErrnoError(v1::REASON_XRCD_BUSY, EBUSY, "ibv_close_xrcd");
  EXPECT_EQ(ErrnoNameOf(status), "EBUSY");
  EXPECT_EQ(ErrorInfoOf(status)->metadata().at("call"), "ibv_close_xrcd");
  EXPECT_NE(status.message().find("Device or resource busy"), absl::string_view::npos);
}

TEST(ErrorReasonTest, ForeignAndDamagedErrorsHaveNoReason) {
  EXPECT_EQ(ReasonOf(absl::OkStatus()), v1::REASON_UNSPECIFIED);
  EXPECT_EQ(ReasonOf(absl::NotFoundError("x")), v1::REASON_UNSPECIFIED);
  absl::Status status = MakeError(v1::REASON_QP_NOT_FOUND);
  google::rpc::ErrorInfo info = *ErrorInfoOf(status);
  info.set_domain("example.com");
  SetErrorInfo(info, status);
  EXPECT_EQ(ReasonOf(status), v1::REASON_UNSPECIFIED);
  EXPECT_EQ(ReasonEntryOf(static_cast<v1::Reason>(4711)).reason, v1::REASON_INTERNAL);
}

}  // namespace
}  // namespace qpbroker
