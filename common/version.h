// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_COMMON_VERSION_H_
#define QPBROKER_COMMON_VERSION_H_

namespace qpbroker {

inline constexpr char kVersion[] = "0.1.0";

}  // namespace qpbroker

#endif  // QPBROKER_COMMON_VERSION_H_
