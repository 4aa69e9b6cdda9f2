// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/policy.h"

#include <algorithm>

namespace qpbroker::core {

bool InGroup(const PeerCredentials& who, gid_t gid) {
  return who.gid == gid || std::binary_search(who.groups.begin(), who.groups.end(), gid);
}

bool Allows(const DomainAcl& acl, const PeerCredentials& who, Access access) {
  int shift = 0;
  if (who.uid == acl.owner) {
    shift = 6;
  } else if (InGroup(who, acl.group) ||
             std::binary_search(acl.members.begin(), acl.members.end(), who.uid)) {
    shift = 3;
  }
  return ((acl.mode >> shift) & static_cast<uint32_t>(access)) != 0;
}

}  // namespace qpbroker::core
