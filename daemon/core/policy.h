// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_DAEMON_CORE_POLICY_H_
#define QPBROKER_DAEMON_CORE_POLICY_H_

// Who may do what with a domain: Unix permission bits, decided from the credentials that the kernel
// recorded.

#include <sys/types.h>

#include <vector>

#include "common/peer_credentials.h"

namespace qpbroker::core {

enum class Access : uint8_t {
  kRead = 4,   // Open and query.
  kWrite = 2,  // Create, modify and destroy.
};

struct DomainAcl {
  uid_t owner = 0;
  gid_t group = 0;
  uint32_t mode = 0;           // 9 bits, without x.
  std::vector<uid_t> members;  // Sorted. They have the group's bits.
};

// As the kernel does for files: the owner's bits for the owner, else the group's for the group and
// the members, else the others'. uid 0 is nobody special.
bool Allows(const DomainAcl& acl, const PeerCredentials& who, Access access);

// Whether `gid` is the primary or a supplementary group of `who`.
bool InGroup(const PeerCredentials& who, gid_t gid);

}  // namespace qpbroker::core

#endif  // QPBROKER_DAEMON_CORE_POLICY_H_
