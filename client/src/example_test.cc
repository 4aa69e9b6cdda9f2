// SPDX-License-Identifier: Apache-2.0
// The examples of the documentation do what they say.
#include <cstdio>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>

#include "client/src/testing/fake_daemon.h"
#include "gtest/gtest.h"
#include "qpbroker/client.h"

namespace qpbroker {
namespace {

using client::testing::FakeDaemon;

std::string open_qp;  // Path of the program.

// The banner of client.h, as it stands there. Compiled, not run: on a machine with a daemon it
// would open something real.
[[maybe_unused]] int HeaderExample() {
  auto Fail = [](const Error&) { return 1; };
#include "client/header_example.inc"
  return 0;
}

// What `command` prints; "?" appended if it fails.
std::string OutputOf(const std::string& command) {
  std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::ostringstream output;
  for (int c = std::fgetc(pipe.get()); c != EOF; c = std::fgetc(pipe.get())) {
    output << static_cast<char>(c);
  }
  if (pclose(pipe.release()) != 0) output << "?";
  return output.str();
}

TEST(ExampleTest, OpenQpPrintsTheEndpoint) {
  FakeDaemon daemon;
  EXPECT_EQ(OutputOf(open_qp + " vhca0 " + daemon.dir()),
            "domain   devices/vhca0/xrcds/0/example@5f0c2a9b11d4 (created)\n"
            "qp       devices/vhca0/xrcds/0/example@5f0c2a9b11d4/qps/8388626 (created)\n"
            "endpoint qp_num=0x800012 port=1 lid=0 mtu=0 psn=0x000000\n"
            "closed   0 lease(s) of others left\n");
}

TEST(ExampleTest, OpenQpSaysWhatIsWrong) {
  std::string output = OutputOf(open_qp + " vhca0 /nonexistent 2>&1");
  EXPECT_NE(output.find("/nonexistent/session.sock"), std::string::npos) << output;
  EXPECT_NE(output.find("is qpbrokerd running"), std::string::npos) << output;
  EXPECT_EQ(output.back(), '?');
}

}  // namespace
}  // namespace qpbroker

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (argc == 2) qpbroker::open_qp = argv[1];
  return RUN_ALL_TESTS();
}
