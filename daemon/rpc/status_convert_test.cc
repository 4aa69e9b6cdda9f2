// SPDX-License-Identifier: Apache-2.0
#include "daemon/rpc/status_convert.h"

#include <gtest/gtest.h>

#include "common/error_reason.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace qpbroker::rpc {
namespace {

google::rpc::ErrorInfo OnlyInfo(const grpc::Status& status) {
  google::rpc::Status rich;
  EXPECT_TRUE(rich.ParseFromString(status.error_details()));
  EXPECT_EQ(rich.code(), status.error_code());
  EXPECT_EQ(rich.message(), status.error_message());
  google::rpc::ErrorInfo info;
  EXPECT_EQ(rich.details_size(), 1);
  EXPECT_TRUE(rich.details_size() == 1 && rich.details(0).UnpackTo(&info));
  return info;
}

TEST(StatusConvertTest, OkHasNoDetails) {
  const grpc::Status status = ToGrpcStatus(absl::OkStatus());
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(status.error_details(), "");
}

TEST(StatusConvertTest, EveryReasonTravelsWithItsCodeAndOneErrorInfo) {
  for (const ReasonEntry& entry : ReasonTable()) {
    const grpc::Status status = ToGrpcStatus(MakeError(entry.reason, "text", {{"qp_num", "0x1"}}));
    EXPECT_EQ(static_cast<int>(status.error_code()), static_cast<int>(entry.code));
    EXPECT_EQ(status.error_message(), "text");
    const google::rpc::ErrorInfo info = OnlyInfo(status);
    EXPECT_EQ(info.domain(), "qpbroker");
    EXPECT_EQ(info.reason(), entry.name);
    EXPECT_EQ(info.metadata().at("qp_num"), "0x1");
  }
}

TEST(StatusConvertTest, ErrorWithoutReasonIsADefect) {
  const grpc::Status status = ToGrpcStatus(absl::NotFoundError("somebody else's"));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_EQ(OnlyInfo(status).reason(), "INTERNAL");
}

}  // namespace
}  // namespace qpbroker::rpc
