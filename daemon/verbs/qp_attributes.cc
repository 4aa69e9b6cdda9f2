// SPDX-License-Identifier: Apache-2.0
#include "daemon/verbs/qp_attributes.h"

#include <algorithm>
#include <iterator>

namespace qpbroker::verbs {
namespace {

// The names of InfiniBand's rates (IBV_RATE_14_GBPS is 14000), not their exact speeds (14062).
constexpr uint32_t kRates[] = {0,      2500,   5000,   10000,  14000,  20000,  25000,  28000,
                               30000,  40000,  50000,  56000,  60000,  80000,  100000, 112000,
                               120000, 168000, 200000, 300000, 400000, 600000, 800000, 1200000};

constexpr uint32_t kPathMtus[] = {256, 512, 1024, 2048, 4096};

}  // namespace

bool IsNamedRate(uint32_t rate_mbps) {
  return std::find(std::begin(kRates), std::end(kRates), rate_mbps) != std::end(kRates);
}

bool IsPathMtu(uint32_t bytes) {
  return std::find(std::begin(kPathMtus), std::end(kPathMtus), bytes) != std::end(kPathMtus);
}

}  // namespace qpbroker::verbs
