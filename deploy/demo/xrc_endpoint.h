// SPDX-License-Identifier: Apache-2.0
#ifndef QPBROKER_DEPLOY_DEMO_XRC_ENDPOINT_H_
#define QPBROKER_DEPLOY_DEMO_XRC_ENDPOINT_H_

// Plain verbs for the demo: a receiver with an XRC SRQ, and a sender with an XRC initiator QP. A
// failed call ends the program with its name: there is nothing to go on with.

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>
#include <vector>

namespace demo {

inline constexpr size_t kMessageBytes = 256;

// Receives messages of up to kMessageBytes through an SRQ of its own in a shared domain.
class XrcReceiver {
 public:
  XrcReceiver(ibv_context* context, ibv_xrcd* xrcd);
  ~XrcReceiver();
  XrcReceiver(const XrcReceiver&) = delete;
  XrcReceiver& operator=(const XrcReceiver&) = delete;

  uint32_t srq_number() const { return srq_number_; }
  // Becomes readable when something has arrived; then Take.
  int fd() const { return channel_->fd; }
  // What has arrived, oldest first.
  std::vector<std::string> Take();

 private:
  void Post(uint64_t slot);

  ibv_pd* pd_;
  ibv_comp_channel* channel_;
  ibv_cq* cq_;
  ibv_srq* srq_;
  std::vector<char> buffer_;
  ibv_mr* mr_;
  uint32_t srq_number_ = 0;
};

// The address of one end.
struct Address {
  uint32_t qp_num = 0;
  uint32_t lid = 0;
  uint32_t psn = 0;
  uint32_t mtu = 0;  // Bytes.
};

// Sends messages to any SRQ behind one XRC target QP.
class XrcSender {
 public:
  explicit XrcSender(ibv_context* context);
  ~XrcSender();
  XrcSender(const XrcSender&) = delete;
  XrcSender& operator=(const XrcSender&) = delete;

  // This end, for the target QP to be connected to.
  Address address() const;
  void Connect(const Address& target);
  // Returns when the other side has it; false: it was refused or lost, and the QP is in error.
  bool Send(uint32_t srq_number, const std::string& text);

 private:
  ibv_pd* pd_;
  ibv_cq* cq_;
  ibv_qp* qp_;
  std::vector<char> buffer_;
  ibv_mr* mr_;
};

}  // namespace demo

#endif  // QPBROKER_DEPLOY_DEMO_XRC_ENDPOINT_H_
