// SPDX-License-Identifier: Apache-2.0
// What is true of IbvVerbs on any machine; the rest is the contract test's, on a real device.
#include "daemon/verbs/ibv_verbs.h"

#include <gtest/gtest.h>

#include "common/error_reason.h"

namespace qpbroker::verbs {
namespace {

TEST(IbvVerbsTest, ListingWorksWithAndWithoutRdma) {
  auto names = IbvVerbs().ListDevices();
  EXPECT_TRUE(names.ok()) << names.status();
}

TEST(IbvVerbsTest, ADeviceThatIsNotThereIsNotFound) {
  absl::Status status = IbvVerbs().OpenDevice("no_such_device").status();
  EXPECT_EQ(ReasonOf(status), v1::REASON_DEVICE_NOT_FOUND);
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ErrnoNameOf(status), "ENODEV");
}

}  // namespace
}  // namespace qpbroker::verbs
