// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>

#include <memory>
#include <utility>

#include "daemon/verbs/fake_verbs.h"
#include "tests/contract/contract.h"

namespace qpbroker::verbs {
namespace {

DeadCreator CreateAndDie(FakeKernel& kernel, int fd) {
  FakeVerbs process(kernel);
  auto device = *process.OpenDevice("fake0");
  auto xrcd = *device->OpenXrcd(fd, OpenXrcdMode::kCreateExclusive);
  auto qp = *xrcd->CreateTargetQp();
  DeadCreator creator;
  creator.qp_num = qp->number();
  creator.context_fd.reset(fcntl(device->context_fd(), F_DUPFD_CLOEXEC, 0));
  process.Kill();
  return creator;
}

}  // namespace

Backend MakeBackend() {
  std::shared_ptr<FakeKernel> kernel = MakeLaptopKernel();
  Backend backend;
  backend.verbs = std::make_unique<FakeVerbs>(*kernel);
  backend.device = "fake0";
  backend.numbers_have_xrc_bit = true;
  backend.create_and_die = [kernel](int fd) { return CreateAndDie(*kernel, fd); };
  backend.keep_alive = kernel;
  return backend;
}

}  // namespace qpbroker::verbs
