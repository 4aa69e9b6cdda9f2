// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_DAEMON_VERBS_VERBS_CALLS_H_
#define QPBROKER_DAEMON_VERBS_VERBS_CALLS_H_

// What every implementation of Verbs does the same way: the arguments that it refuses without a
// call, and the reason that an errno means after one. A call's errno is read here and nowhere else.

#include <sys/stat.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/error_reason.h"
#include "daemon/verbs/qp_attributes.h"
#include "daemon/verbs/verbs.h"

namespace qpbroker::verbs {

enum class Call : uint8_t {
  kListDevices,
  kOpenDevice,
  kQueryDevice,
  kQueryPort,
  kOpenXrcd,
  kCloseXrcd,
  kCreateQp,
  kOpenQp,
  kModifyQp,
  kQueryQp,
  kDestroyQp,
  kGetEvent,
};

// "ibv_open_xrcd".
absl::string_view CallName(Call call);

// "0x800012", as QP numbers are written everywhere.
std::string QpNumberText(uint32_t qp_num);

// The status of a `call` that failed with `errno_value`. kOpenXrcd has OpenXrcdError.
absl::Status CallError(Call call, int errno_value, ErrorMetadata metadata = {});
absl::Status OpenXrcdError(OpenXrcdMode mode, int errno_value, ErrorMetadata metadata = {});

// The file behind `fd` if it can name a domain: a regular file. All anonymous inodes (eventfd,
// timerfd,
// ...) are one inode to the kernel, so two strangers' descriptors would name the same domain.
absl::StatusOr<struct stat> StatDomainFile(int fd);

// Refuses what libibverbs has no way to say: foreign bits in `mask`, and an MTU or a rate without a
// name.
absl::Status CheckModifyArguments(const QpAttributes& attributes, uint32_t mask);

}  // namespace qpbroker::verbs

#endif  // QPBROKER_DAEMON_VERBS_VERBS_CALLS_H_
