// SPDX-License-Identifier: Apache-2.0
// The contract against a real kernel, as root:
//
//   contract_ibv [--mlx4_numbers] [--private_contexts] [gtest flags] [device]
//
// The device is the first that there is if none is named. --mlx4_numbers expects the QP numbers of
// mlx4;
// --private_contexts lets go of opened handles in the way that providers other than mlx4 need.

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/seqpacket_channel.h"
#include "common/unique_fd.h"
#include "daemon/verbs/ibv_verbs.h"
#include "tests/contract/contract.h"

namespace qpbroker::verbs {
namespace {

struct Arguments {
  std::string device;
  bool mlx4_numbers = false;
  OpenedHandles opened_handles = OpenedHandles::kByProvider;
};

Arguments& TheArguments() {
  static Arguments arguments;
  return arguments;
}

bool Parse(int argc, char** argv, Arguments& arguments) {
  for (int i = 1; i < argc; ++i) {
    std::string_view argument = argv[i];
    if (argument == "--mlx4_numbers") {
      arguments.mlx4_numbers = true;
    } else if (argument == "--private_contexts") {
      arguments.opened_handles = OpenedHandles::kPrivateContext;
    } else if (!argument.starts_with("-") && arguments.device.empty()) {
      arguments.device = argument;
    } else {
      fprintf(stderr, "contract_ibv: %s: not understood\n", argv[i]);
      return false;
    }
  }
  if (!arguments.device.empty()) return true;
  auto names = IbvVerbs().ListDevices();
  if (!names.ok() || names->empty()) {
    fprintf(stderr, "contract_ibv: no RDMA device: %s\n", names.status().ToString().c_str());
    return false;
  }
  arguments.device = names->front();
  return true;
}

// The process that is killed: reports its QP and its context, then waits for that.
[[noreturn]] void RunCreator(int domain_fd, int socket) {
  auto device = IbvVerbs().OpenDevice(TheArguments().device);
  if (!device.ok()) _exit(1);
  auto xrcd = (*device)->OpenXrcd(domain_fd, OpenXrcdMode::kCreateExclusive);
  if (!xrcd.ok()) _exit(1);
  auto qp = (*xrcd)->CreateTargetQp();
  if (!qp.ok()) _exit(1);
  const int context_fd = (*device)->context_fd();
  if (SendPacket(socket, absl::StrCat((*qp)->number()), {&context_fd, 1}) != 0) _exit(1);
  while (true) pause();
}

DeadCreator CreateAndDie(int domain_fd) {
  DeadCreator creator;
  int ends[2] = {-1, -1};
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  UniqueFd ours(ends[0]), theirs(ends[1]);
  const pid_t pid = fork();
  if (pid == 0) RunCreator(domain_fd, theirs.get());
  theirs.reset();
  ReceivedPacket packet;
  const int error = ReceivePacket(ours.get(), packet);
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  if (error != 0 || packet.fds.size() != 1 || !absl::SimpleAtoi(packet.bytes, &creator.qp_num)) {
    ADD_FAILURE() << "the creator failed: error " << error;
    return creator;
  }
  creator.context_fd = std::move(packet.fds[0]);
  return creator;
}

}  // namespace

Backend MakeBackend() {
  const Arguments& arguments = TheArguments();
  Backend backend;
  backend.verbs = std::make_unique<IbvVerbs>(arguments.opened_handles);
  backend.device = arguments.device;
  backend.numbers_have_xrc_bit = arguments.mlx4_numbers;
  backend.create_and_die = CreateAndDie;
  return backend;
}

}  // namespace qpbroker::verbs

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (!qpbroker::verbs::Parse(argc, argv, qpbroker::verbs::TheArguments())) return 2;
  return RUN_ALL_TESTS();
}
