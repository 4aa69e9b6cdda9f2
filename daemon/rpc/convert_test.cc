// SPDX-License-Identifier: Apache-2.0
#include "daemon/rpc/convert.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>

#include "common/error_reason.h"

namespace qpbroker::rpc {
namespace {

constexpr char kXrcd[] = "devices/fake0/xrcds/1001/job";

template <class Message>
Message Parse(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

// "REASON field", or "OK".
template <class T>
std::string Verdict(const absl::StatusOr<T>& result) {
  if (result.ok()) return "OK";
  auto info = ErrorInfoOf(result.status());
  return info->reason() + " " + info->metadata().at("field");
}

std::string Connect(const std::string& text) {
  auto request =
      Parse<v1::ConnectQpRequest>("qp: '" + std::string(kXrcd) + "/qps/0x800001' " + text);
  return Verdict(ToCall(request));
}
std::string Modify(const std::string& text) {
  auto request = Parse<v1::ModifyQpRequest>("qp: '" + std::string(kXrcd) +
                                            "/qps/0x800001' attributes { " + text + " }");
  return Verdict(ToCall(request));
}

core::Caller Alice() { return {{1001, 1001, {}, 1}, core::Scope::kOwn, {}}; }

TEST(ConvertTest, OpenXrcdHasUnixDefaults) {
  auto call = ToCall(
      Parse<v1::OpenXrcdRequest>("device: 'devices/fake0' name: 'job' request_id: 'r'"), Alice());
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_EQ(call->key.device, "fake0");
  EXPECT_EQ(call->key.owner, 1001u);
  EXPECT_EQ(call->mode, 0600u);
  EXPECT_FALSE(call->create);
}

TEST(ConvertTest, SameIdAndFieldsHaveTheSameFingerprintAndOthersHaveNot) {
  auto fingerprint = [](const std::string& text) {
    return ToCall(Parse<v1::OpenXrcdRequest>(text), Alice())->request.fingerprint;
  };
  const std::string text = "device: 'fake0' name: 'job' request_id: 'r'";
  EXPECT_EQ(fingerprint(text), fingerprint(text));
  EXPECT_NE(fingerprint(text), fingerprint(text + " create: true"));
}

TEST(ConvertTest, EnumFromTheFutureIsNamed) {
  v1::OpenXrcdRequest open =
      Parse<v1::OpenXrcdRequest>("device: 'fake0' name: 'job' request_id: 'r'");
  open.set_life(static_cast<v1::XrcdLife>(99));
  EXPECT_EQ(Verdict(ToCall(open, Alice())), "UNKNOWN_ENUM life");
  v1::ModifyQpRequest modify;
  modify.set_qp(std::string(kXrcd) + "/qps/0x800001");
  modify.mutable_attributes()->set_state(static_cast<v1::QpState>(99));
  EXPECT_EQ(Verdict(ToCall(modify)), "UNKNOWN_ENUM attributes.state");
}

TEST(ConvertTest, ConnectChecksEachFieldAgainstItsLimits) {
  const std::string remote = "remote { qp_num: 1 path { dlid: 1 } } ";
  EXPECT_EQ(Connect(remote), "OK");
  EXPECT_EQ(Connect(""), "MISSING_FIELD remote");
  EXPECT_EQ(Connect("remote { qp_num: 0 }"), "INVALID_FIELD remote.qp_num");
  EXPECT_EQ(Connect("remote { qp_num: 16777216 }"), "INVALID_FIELD remote.qp_num");
  EXPECT_EQ(Connect("remote { qp_num: 1 psn: 16777216 }"), "INVALID_FIELD remote.psn");
  EXPECT_EQ(Connect("remote { qp_num: 1 path { dlid: 49152 } }"), "INVALID_FIELD path.dlid");
  EXPECT_EQ(Connect("remote { qp_num: 1 path { service_level: 16 } }"),
            "INVALID_FIELD path.service_level");
  EXPECT_EQ(Connect("remote { qp_num: 1 path { rate_mbps: 1 } }"), "INVALID_FIELD path.rate_mbps");
  EXPECT_EQ(Connect("remote { qp_num: 1 path { global_route { dgid: 'short' } } }"),
            "INVALID_FIELD path.global_route.dgid");
  EXPECT_EQ(Connect("remote { qp_num: 1 path { global_route { dgid: '0123456789abcdef' "
                    "sgid { index: 256 } } } }"),
            "INVALID_FIELD path.global_route.sgid.index");
  EXPECT_EQ(Connect("remote { qp_num: 1 path { global_route { dgid: '0123456789abcdef' "
                    "flow_label: 1048576 } } }"),
            "INVALID_FIELD path.global_route.flow_label");
  EXPECT_EQ(Connect(remote + "path_mtu: 1500"), "INVALID_FIELD path_mtu");
  EXPECT_EQ(Connect(remote + "pkey: 0"), "INVALID_FIELD pkey");
  EXPECT_EQ(Connect(remote + "pkey: 65536"), "INVALID_FIELD pkey");
  EXPECT_EQ(Connect(remote + "port: 256"), "INVALID_FIELD port");
  EXPECT_EQ(Connect(remote + "psn: 16777216"), "INVALID_FIELD psn");
  EXPECT_EQ(Connect(remote + "timeout: 32"), "INVALID_FIELD timeout");
  EXPECT_EQ(Connect(remote + "min_rnr_timer: 32"), "INVALID_FIELD min_rnr_timer");
  EXPECT_EQ(Connect(remote + "max_dest_rd_atomic: 256"), "INVALID_FIELD max_dest_rd_atomic");
}

TEST(ConvertTest, ModifyTakesExactlyWhatIsSet) {
  EXPECT_EQ(Modify(""), "MISSING_FIELD attributes");
  EXPECT_EQ(Modify("timeout: 32"), "INVALID_FIELD attributes.timeout");
  EXPECT_EQ(Modify("path_mtu: 100"), "INVALID_FIELD attributes.path_mtu");
  v1::ModifyQpRequest request =
      Parse<v1::ModifyQpRequest>("qp: '" + std::string(kXrcd) +
                                 "/qps/0x800001' attributes { state: QP_STATE_INIT port: 1 pkey: "
                                 "65535 access { } rq_psn: 0 }");
  auto call = ToCall(request);
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_EQ(call->change.mask, verbs::kQpAttrState | verbs::kQpAttrPort | verbs::kQpAttrPkeyIndex |
                                   verbs::kQpAttrAccessFlags | verbs::kQpAttrRqPsn);
}

TEST(ConvertTest, OpenQpNeedsANumberOrAKey) {
  const std::string begin = "xrcd: '" + std::string(kXrcd) + "' request_id: 'r' ";
  auto verdict = [&](const std::string& text) {
    return Verdict(ToCall(Parse<v1::OpenQpRequest>(begin + text)));
  };
  EXPECT_EQ(verdict("qp_num: 8388609"), "OK");
  EXPECT_EQ(verdict("key: 'a0'"), "OK");
  EXPECT_EQ(verdict(""), "MISSING_FIELD qp_num or key");
  EXPECT_EQ(verdict("key: ''"), "MISSING_FIELD key");
  EXPECT_EQ(verdict("qp_num: 0"), "INVALID_FIELD qp_num");
  EXPECT_EQ(verdict("qp_num: 4294967295"), "INVALID_FIELD qp_num");
}

}  // namespace
}  // namespace qpbroker::rpc
