// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_CLIENT_SRC_TESTING_GRANT_FDS_H_
#define QPBROKER_CLIENT_SRC_TESTING_GRANT_FDS_H_

#include <string>

#include "common/unique_fd.h"

namespace qpbroker::client::testing {

// The descriptors of a grant, as a daemon makes them.
struct GrantFds {
  UniqueFd lease;      // Read end of the pipe: for the client.
  UniqueFd lease_end;  // Write end: the daemon's.
  UniqueFd file;       // Read-only, unlinked; contains the text.
};

// Makes them in the folder `dir`, the file with `text` in it.
GrantFds MakeGrantFds(const std::string& dir, const std::string& text);

// Whether some copy of the read end is open, in flight included.
bool LeaseIsHeld(const UniqueFd& lease_end);

// What is in the file behind `fd`, from its beginning.
std::string ContentOf(int fd);

// Makes a folder of its own, below /tmp.
std::string MakeTempDir();

}  // namespace qpbroker::client::testing

#endif  // QPBROKER_CLIENT_SRC_TESTING_GRANT_FDS_H_
