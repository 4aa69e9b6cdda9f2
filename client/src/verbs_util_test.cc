// SPDX-License-Identifier: Apache-2.0
// verbs_util.h against a libibverbs of the test's own that counts what is open. Whether real
// providers behave as assumed, the lab shows.
#include "qpbroker/verbs_util.h"

#include <array>
#include <memory>
#include <string>
#include <utility>

#include "client/src/granted_xrcd.h"
#include "client/src/lease_state.h"
#include "client/src/testing/grant_fds.h"
#include "gtest/gtest.h"

namespace {

// What the fake libibverbs has open, and what it is told to do.
struct FakeVerbs {
  int contexts = 0;
  int xrcds = 0;
  int qps = 0;
  int destroyed_qps = 0;
  int open_xrcd_errno = -1;  // -1: succeeds.
  int open_qp_errno = -1;
  int last_fd = -1;
  int last_oflags = -1;
};
FakeVerbs fake;

ibv_device device{};

ibv_xrcd* FakeOpenXrcd(ibv_context* context, ibv_xrcd_init_attr* attributes) {
  fake.last_fd = attributes->fd;
  fake.last_oflags = attributes->oflags;
  if (fake.open_xrcd_errno >= 0) {
    if (fake.open_xrcd_errno > 0) errno = fake.open_xrcd_errno;
    return nullptr;
  }
  ++fake.xrcds;
  // Kept here: what is closed by its context is never closed by itself.
  static std::deque<ibv_xrcd> xrcds;
  return &xrcds.emplace_back(ibv_xrcd{context});
}

int FakeCloseXrcd(ibv_xrcd*) {
  if (fake.qps > 0) return EBUSY;
  --fake.xrcds;
  return 0;
}

ibv_qp* FakeOpenQp(ibv_context* context, ibv_qp_open_attr* attributes) {
  if (fake.open_qp_errno >= 0) {
    if (fake.open_qp_errno > 0) errno = fake.open_qp_errno;
    return nullptr;
  }
  ++fake.qps;
  auto* qp = new ibv_qp{};
  qp->context = context;
  qp->qp_num = attributes->qp_num;
  return qp;
}

int FakePollCq(ibv_cq*, int, ibv_wc*) { return 0; }

}  // namespace

// These take the place of libibverbs' own in this program.
extern "C" {

ibv_device** ibv_get_device_list(int*) {
  return new ibv_device* [2] { &device, nullptr };
}
void ibv_free_device_list(ibv_device** list) { delete[] list; }
const char* ibv_get_device_name(ibv_device* of) { return of->name; }

ibv_context* ibv_open_device(ibv_device* of) {
  ++fake.contexts;
  auto* verbs = new verbs_context{};
  verbs->sz = sizeof(verbs_context);
  verbs->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
  verbs->context.device = of;
  verbs->context.ops.poll_cq = FakePollCq;
  verbs->open_xrcd = FakeOpenXrcd;
  verbs->close_xrcd = FakeCloseXrcd;
  verbs->open_qp = FakeOpenQp;
  return &verbs->context;
}

int ibv_close_device(ibv_context* context) {
  --fake.contexts;
  delete verbs_get_ctx(context);
  return 0;
}

int ibv_destroy_qp(ibv_qp* qp) {
  ++fake.destroyed_qps;
  --fake.qps;
  delete qp;
  return 0;
}

}  // extern "C"

namespace qpbroker {
namespace {

class VerbsUtilTest : public ::testing::Test {
 protected:
  VerbsUtilTest() : dir_(client::testing::MakeTempDir()), domain_(MakeDomain()) {
    fake = FakeVerbs();
    std::string("vhca0").copy(device.name, sizeof(device.name));
    std::string("uverbs-none").copy(device.dev_name, sizeof(device.dev_name));
  }
  ~VerbsUtilTest() override { rmdir(dir_.c_str()); }

  Xrcd MakeDomain() {
    client::testing::GrantFds fds = client::testing::MakeGrantFds(dir_, "x");
    Lease lease(std::make_shared<client::LeaseState>(std::weak_ptr<client::Connection>(),
                                                     client::LeaseTarget::kXrcd, "leases/1@0",
                                                     std::move(fds.lease)));
    return Xrcd(std::make_unique<client::GrantedXrcd>(
        client::GrantedXrcd{std::move(lease), std::move(fds.file), XrcdInfo(), false}));
  }

  std::string dir_;
  Xrcd domain_;
};

TEST_F(VerbsUtilTest, DeviceIsFoundByNameWithAndWithoutPrefix) {
  EXPECT_TRUE(OpenDeviceContext("vhca0").ok());
  EXPECT_TRUE(OpenDeviceContext("devices/vhca0").ok());
  EXPECT_EQ(OpenDeviceContext("mlx5_9").error().reason, "DEVICE_NOT_FOUND");
  EXPECT_EQ(fake.contexts, 0);
}

TEST_F(VerbsUtilTest, DomainIsOpenedByItsFileWithoutCreating) {
  ContextHandle context = *OpenDeviceContext("vhca0");
  {
    Result<XrcdHandle> xrcd = OpenXrcdHandle(context.get(), domain_);
    ASSERT_TRUE(xrcd.ok());
    EXPECT_EQ(fake.last_fd, domain_.domain_fd());
    EXPECT_EQ(fake.last_oflags, 0);
    EXPECT_EQ(fake.xrcds, 1);
    XrcdHandle moved = *std::move(xrcd);
    EXPECT_EQ(moved.Close(), 0);
    EXPECT_EQ(moved.Close(), 0);
  }
  EXPECT_EQ(fake.xrcds, 0);
}

TEST_F(VerbsUtilTest, BusyDomainStaysOpen) {
  ContextHandle context = *OpenDeviceContext("vhca0");
  Result<XrcdHandle> xrcd = OpenXrcdHandle(context.get(), domain_);
  ASSERT_TRUE(xrcd.ok());
  fake.qps = 1;
  EXPECT_EQ(xrcd->Close(), EBUSY);
  EXPECT_NE(xrcd->get(), nullptr);
  fake.qps = 0;
}

TEST_F(VerbsUtilTest, ClosedDomainIsRefusedRatherThanMadePrivate) {
  ContextHandle context = *OpenDeviceContext("vhca0");
  EXPECT_FALSE(domain_.Close().ok());  // There is no daemon; it is closed all the same.
  EXPECT_EQ(OpenXrcdHandle(context.get(), domain_).error().reason, "XRCD_NOT_FOUND");
  EXPECT_EQ(fake.last_fd, -1);
}

TEST_F(VerbsUtilTest, UnknownProviderGetsAContextOfItsOwnAndNoDestroy) {
  ContextHandle context = *OpenDeviceContext("vhca0");
  {
    Result<QpHandle> qp = OpenQpHandle(context.get(), domain_, 0x800012);
    ASSERT_TRUE(qp.ok()) << qp.error().ToString();
    EXPECT_TRUE(qp->has_own_context());
    EXPECT_NE(qp->get()->context, context.get());
    EXPECT_EQ(qp->get()->qp_num, 0x800012u);
    EXPECT_EQ(fake.contexts, 2);
    delete qp->get();  // What a provider would leave behind.
  }
  EXPECT_EQ(fake.contexts, 1);
  EXPECT_EQ(fake.destroyed_qps, 0);
}

TEST_F(VerbsUtilTest, KnownProviderClosesHandleAndDomainOnTheCallersContext) {
  ContextHandle context = *OpenDeviceContext("vhca0");
  ibv_xrcd* xrcd = *internal::OpenXrcd(context.get(), domain_);
  ibv_qp* opened = *internal::OpenQp(xrcd, 1);
  {
    QpHandle qp(nullptr, xrcd, opened);
    QpHandle moved = std::move(qp);
    EXPECT_FALSE(moved.has_own_context());
  }
  EXPECT_EQ(fake.destroyed_qps, 1);
  EXPECT_EQ(fake.xrcds, 0);
}

TEST_F(VerbsUtilTest, ProviderIsToldByTheLibraryThatItsCodeIsIn) {
  EXPECT_TRUE(internal::OpenedQpsCanBeDestroyed("libmlx4.so.1.0.44.0"));
  EXPECT_TRUE(internal::OpenedQpsCanBeDestroyed("libmlx4-rdmav34.so"));
  EXPECT_FALSE(internal::OpenedQpsCanBeDestroyed("libmlx5.so.1"));
  EXPECT_FALSE(internal::OpenedQpsCanBeDestroyed("libhns-rdmav34.so"));
  EXPECT_FALSE(internal::OpenedQpsCanBeDestroyed(""));
  EXPECT_EQ(internal::LibraryOf(nullptr), "");
  EXPECT_EQ(internal::LibraryOf(reinterpret_cast<const void*>(&FakePollCq)), "verbs_util_test");
}

TEST_F(VerbsUtilTest, FailuresAreTypedAndLeaveNothing) {
  ContextHandle context = *OpenDeviceContext("vhca0");
  const std::array<std::pair<int, const char*>, 6> open_xrcd = {{{EAGAIN, "XRCD_NOT_FOUND"},
                                                                 {EOPNOTSUPP, "XRC_NOT_SUPPORTED"},
                                                                 {EACCES, "PERMISSION_DENIED"},
                                                                 {ENOMEM, "DEVICE_LIMIT"},
                                                                 {EIO, "DEVICE_GONE"},
                                                                 {0, "DEVICE_ERROR"}}};
  for (const auto& [error, reason] : open_xrcd) {
    fake.open_xrcd_errno = error;
    EXPECT_EQ(OpenXrcdHandle(context.get(), domain_).error().reason, reason);
    EXPECT_EQ(OpenQpHandle(context.get(), domain_, 1).error().reason, reason);
  }
  fake.open_xrcd_errno = -1;
  const std::array<std::pair<int, const char*>, 3> open_qp = {
      {{EINVAL, "QP_NOT_FOUND"}, {EOPNOTSUPP, "XRC_NOT_SUPPORTED"}, {0, "DEVICE_ERROR"}}};
  for (const auto& [error, reason] : open_qp) {
    fake.open_qp_errno = error;
    EXPECT_EQ(OpenQpHandle(context.get(), domain_, 1).error().reason, reason);
  }
  EXPECT_EQ(fake.xrcds, 0);
  EXPECT_EQ(fake.contexts, 1);
}

}  // namespace
}  // namespace qpbroker
