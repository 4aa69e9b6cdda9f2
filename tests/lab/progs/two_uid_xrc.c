// SPDX-License-Identifier: Apache-2.0
// An XRC target QP that one user makes and another user receives through.
//
//   two_uid_xrc                      plays all parts, as alice, bob and carol (needs root)
//   two_uid_xrc own FILE DEV         makes the XRC domain on FILE and the target QP, prints
//                                    "QPN LID PSN", reads the sender's from standard input,
//                                    connects, prints "connected", waits
//   two_uid_xrc recv FILE DEV QPN TEXT
//                                    opens FILE's domain and the QP, prints its SRQ number,
//                                    waits for one message, which must be TEXT, prints it
//   two_uid_xrc send DEV TEXT        prints "QPN LID PSN", reads "QPN LID PSN SRQN" of the
//                                    receiver from standard input, sends, prints "sent"
//
// FILE must exist. The parts share nothing but what is printed here.
#include "require.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { kPort = 1, kMaxText = 256, kPatienceSeconds = 30 };

enum {
  kOpenFields = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
  kSrqFields =
      IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_PD,
};

struct peer {
  unsigned qpn, lid, psn;
};

static struct ibv_xrcd *open_domain(struct ibv_context *context, const char *file, int flags) {
  const int fd = open(file, O_RDONLY | O_CLOEXEC);
  require(fd >= 0, file);
  return open_xrcd(context, fd, flags);
}

// Prints what the other side needs to connect.
static struct peer announce(struct ibv_context *context, unsigned qpn) {
  struct ibv_port_attr port;
  require_zero(ibv_query_port(context, kPort, &port), "query port");
  struct peer self = {.qpn = qpn, .lid = port.lid, .psn = (unsigned)getpid() & 0xffffff};
  printf("%u %u %u\n", self.qpn, self.lid, self.psn);
  return self;
}

// RESET to RTS. The attributes that each type requires differ.
static void connect_qp(struct ibv_qp *qp, int target, struct peer self, struct peer remote) {
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = kPort};
  int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  require_zero(ibv_modify_qp(qp, &attr, mask), "to INIT");

  attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024};
  attr.dest_qp_num = remote.qpn;
  attr.rq_psn = remote.psn;
  attr.max_dest_rd_atomic = 1;
  attr.min_rnr_timer = 12;
  attr.ah_attr = (struct ibv_ah_attr){.dlid = remote.lid, .port_num = kPort};
  mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  if (target) mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  require_zero(ibv_modify_qp(qp, &attr, mask), "to RTR");

  attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
                              .timeout = 14,
                              .retry_cnt = 7,
                              .rnr_retry = 7,
                              .sq_psn = self.psn,
                              .max_rd_atomic = 1};
  mask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_SQ_PSN;
  if (!target) mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  require_zero(ibv_modify_qp(qp, &attr, mask), "to RTS");
}

// What either end of a message needs besides its queue.
struct end {
  struct ibv_pd *pd;
  struct ibv_cq *cq;
  struct ibv_mr *mr;
};

static struct end make_end(struct ibv_context *context, char *buffer, int access) {
  struct end end = {.pd = ibv_alloc_pd(context), .cq = ibv_create_cq(context, 4, NULL, NULL, 0)};
  require(end.pd != NULL && end.cq != NULL, "PD and CQ");
  end.mr = ibv_reg_mr(end.pd, buffer, kMaxText, access);
  require(end.mr != NULL, "MR");
  return end;
}

static void wait_for_completion(struct ibv_cq *cq, struct ibv_wc *wc) {
  const time_t end = time(NULL) + kPatienceSeconds;
  int found;
  while ((found = ibv_poll_cq(cq, 1, wc)) == 0) {
    errno = ETIMEDOUT;
    require(time(NULL) < end, "wait for a completion");
    usleep(1000);
  }
  errno = EIO;
  require(found == 1, "poll CQ");
  require(wc->status == IBV_WC_SUCCESS, ibv_wc_status_str(wc->status));
}

static int own(const char *file, const char *device) {
  struct ibv_context *context = open_device(device);
  struct ibv_qp_init_attr_ex attr = {.qp_type = IBV_QPT_XRC_RECV,
                                     .comp_mask = IBV_QP_INIT_ATTR_XRCD,
                                     .xrcd = open_domain(context, file, O_CREAT)};
  struct ibv_qp *qp = ibv_create_qp_ex(context, &attr);
  require(qp != NULL, "create target QP");
  const struct peer self = announce(context, qp->qp_num);

  struct peer remote;
  errno = EPROTO;
  require(scanf("%u %u %u", &remote.qpn, &remote.lid, &remote.psn) == 3, "sender's numbers");
  connect_qp(qp, 1, self, remote);
  puts("connected");
  while (getchar() != EOF) {
  }
  return 0;
}

static int receive(const char *file, const char *device, unsigned qpn, const char *text) {
  static char buffer[kMaxText];
  struct ibv_context *context = open_device(device);
  struct ibv_xrcd *xrcd = open_domain(context, file, 0);
  struct ibv_qp_open_attr open_attr = {
      .comp_mask = kOpenFields, .qp_num = qpn, .xrcd = xrcd, .qp_type = IBV_QPT_XRC_RECV};
  require(ibv_open_qp(context, &open_attr) != NULL, "open target QP");

  struct end end = make_end(context, buffer, IBV_ACCESS_LOCAL_WRITE);
  struct ibv_srq_init_attr_ex srq_attr = {.attr = {.max_wr = 4, .max_sge = 1},
                                          .srq_type = IBV_SRQT_XRC,
                                          .xrcd = xrcd,
                                          .cq = end.cq,
                                          .pd = end.pd,
                                          .comp_mask = kSrqFields};
  struct ibv_srq *srq = ibv_create_srq_ex(context, &srq_attr);
  require(srq != NULL, "XRC SRQ");
  uint32_t number;
  require_zero(ibv_get_srq_num(srq, &number), "SRQ number");

  struct ibv_sge sge = {.addr = (uintptr_t)buffer, .length = sizeof(buffer), .lkey = end.mr->lkey};
  struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
  require_zero(ibv_post_srq_recv(srq, &wr, &bad), "post receive");
  printf("%" PRIu32 "\n", number);

  struct ibv_wc wc;
  wait_for_completion(end.cq, &wc);
  errno = EBADMSG;
  require(wc.byte_len == strlen(text) && !memcmp(buffer, text, wc.byte_len), "contents");
  printf("received: %.*s\n", (int)wc.byte_len, buffer);
  return 0;
}

static int send_text(const char *device, const char *text) {
  static char buffer[kMaxText];
  errno = EMSGSIZE;
  require(strlen(text) < sizeof(buffer), "text");
  strcpy(buffer, text);
  struct ibv_context *context = open_device(device);
  struct end end = make_end(context, buffer, 0);
  struct ibv_qp_init_attr_ex attr = {.qp_type = IBV_QPT_XRC_SEND,
                                     .comp_mask = IBV_QP_INIT_ATTR_PD,
                                     .pd = end.pd,
                                     .send_cq = end.cq,
                                     .sq_sig_all = 1,
                                     .cap = {.max_send_wr = 1, .max_send_sge = 1}};
  struct ibv_qp *qp = ibv_create_qp_ex(context, &attr);
  require(qp != NULL, "create initiator QP");
  const struct peer self = announce(context, qp->qp_num);

  struct peer remote;
  unsigned srqn;
  errno = EPROTO;
  require(scanf("%u %u %u %u", &remote.qpn, &remote.lid, &remote.psn, &srqn) == 4,
          "receiver's numbers");
  connect_qp(qp, 0, self, remote);
  struct ibv_sge sge = {
      .addr = (uintptr_t)buffer, .length = (uint32_t)strlen(text), .lkey = end.mr->lkey};
  struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
  wr.qp_type.xrc.remote_srqn = srqn;
  require_zero(ibv_post_send(qp, &wr, &bad), "post send");
  struct ibv_wc wc;
  wait_for_completion(end.cq, &wc);
  puts("sent");
  return 0;
}

// A part, played by a process of its own under a user of its own.
struct part {
  pid_t pid;
  FILE *to, *from;
};

static struct part start(const char *user, char *const argv[]) {
  const struct passwd *who = getpwnam(user);
  require(who != NULL, user);
  int down[2], up[2];
  require(!pipe2(down, O_CLOEXEC) && !pipe2(up, O_CLOEXEC), "pipe");
  struct part part = {.pid = fork(), .to = fdopen(down[1], "w"), .from = fdopen(up[0], "r")};
  require(part.pid >= 0 && part.to && part.from, "fork");
  if (part.pid == 0) {
    require(!setgroups(0, NULL) && !setgid(who->pw_gid) && !setuid(who->pw_uid), "change user");
    require(dup2(down[0], 0) == 0 && dup2(up[1], 1) == 1, "dup2");
    execv("/proc/self/exe", argv);
    require(0, "exec");
  }
  setvbuf(part.to, NULL, _IOLBF, 0);
  close(down[0]);
  close(up[1]);
  return part;
}

// The next line that the part prints, also shown to whoever watches.
static void hear(struct part *part, const char *user, char *line, int size) {
  errno = EPROTO;
  require(fgets(line, size, part->from) != NULL, user);
  line[strcspn(line, "\n")] = '\0';
  printf("%s: %s\n", user, line);
}

static void finish(struct part *part, const char *user) {
  int status;
  require(waitpid(part->pid, &status, 0) == part->pid, "wait");
  errno = ECHILD;
  require(WIFEXITED(status) && WEXITSTATUS(status) == 0, user);
}

static int play_all(char *device) {
  static char text[] = "through a dead user's QP";
  char file[] = "/tmp/two_uid_xrc.XXXXXX", target[64], sender[64], srqn[64], line[kMaxText];
  const int fd = mkstemp(file);
  require(fd >= 0 && !fchmod(fd, 0644), file);
  signal(SIGPIPE, SIG_IGN);

  struct part alice = start("alice", (char *[]){"two_uid_xrc", "own", file, device, NULL});
  hear(&alice, "alice", target, sizeof(target));
  struct part carol = start("carol", (char *[]){"two_uid_xrc", "send", device, text, NULL});
  hear(&carol, "carol", sender, sizeof(sender));
  fprintf(alice.to, "%s\n", sender);
  hear(&alice, "alice", line, sizeof(line));

  char number[16];
  snprintf(number, sizeof(number), "%lu", strtoul(target, NULL, 10));
  struct part bob =
      start("bob", (char *[]){"two_uid_xrc", "recv", file, device, number, text, NULL});
  hear(&bob, "bob", srqn, sizeof(srqn));
  unlink(file);

  // From here on only bob's handle keeps the QP alive.
  require(!kill(alice.pid, SIGKILL) && waitpid(alice.pid, NULL, 0) == alice.pid, "kill alice");
  puts("alice: killed");
  fprintf(carol.to, "%s %s\n", target, srqn);
  hear(&carol, "carol", line, sizeof(line));
  hear(&bob, "bob", line, sizeof(line));
  finish(&carol, "carol");
  finish(&bob, "bob");
  return 0;
}

int main(int argc, char *argv[]) {
  setvbuf(stdout, NULL, _IOLBF, 0);  // A part is heard through a pipe.
  if (argc == 1) return play_all("vhca0");
  if (argc == 4 && !strcmp(argv[1], "own")) return own(argv[2], argv[3]);
  if (argc == 6 && !strcmp(argv[1], "recv"))
    return receive(argv[2], argv[3], (unsigned)strtoul(argv[4], NULL, 0), argv[5]);
  if (argc == 4 && !strcmp(argv[1], "send")) return send_text(argv[2], argv[3]);
  fputs("usage: two_uid_xrc [own FILE DEV | recv FILE DEV QPN TEXT | send DEV TEXT]\n", stderr);
  return 2;
}
