// SPDX-License-Identifier: Apache-2.0
// ibv_import_device: a context, handed to another user's process as a descriptor, works there.
//
//   import_device DEV
//
// The child, who is nobody, makes an XRC target QP in its parent's context and dies. The QP is the
// context's and lives on; the parent finds it by its number.
#include "require.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kNobody = 65534 };

static void child(int context_fd, int domain_fd, int answer) {
  require(!setgroups(0, NULL) && !setgid(kNobody) && !setuid(kNobody), "change user");
  struct ibv_context *context = ibv_import_device(context_fd);
  require(context != NULL, "ibv_import_device");
  struct ibv_qp_init_attr_ex attr = {.qp_type = IBV_QPT_XRC_RECV,
                                     .comp_mask = IBV_QP_INIT_ATTR_XRCD,
                                     .xrcd = open_xrcd(context, domain_fd, O_CREAT)};
  struct ibv_qp *qp = ibv_create_qp_ex(context, &attr);
  require(qp != NULL, "create target QP");
  require(write(answer, &qp->qp_num, sizeof(qp->qp_num)) == sizeof(qp->qp_num), "answer");
  _exit(0);
}

int main(int argc, char *argv[]) {
  if (argc != 2) {
    fputs("usage: import_device DEV\n", stderr);
    return 2;
  }
  FILE *file = tmpfile();
  int ends[2];
  require(file != NULL && !pipe2(ends, O_CLOEXEC), "file and pipe");
  struct ibv_context *context = open_device(argv[1]);
  const pid_t pid = fork();
  require(pid >= 0, "fork");
  if (pid == 0) child(context->cmd_fd, fileno(file), ends[1]);

  int status;
  require(waitpid(pid, &status, 0) == pid, "wait");
  errno = ECHILD;
  require(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child");
  struct ibv_qp_open_attr attr = {
      .comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
      .xrcd = open_xrcd(context, fileno(file), 0),
      .qp_type = IBV_QPT_XRC_RECV};
  require(read(ends[0], &attr.qp_num, sizeof(attr.qp_num)) == sizeof(attr.qp_num), "QP number");
  struct ibv_qp *qp = ibv_open_qp(context, &attr);
  require(qp != NULL, "open target QP");
  printf("0x%06x made by an imported context\n", qp->qp_num);
  return 0;
}
