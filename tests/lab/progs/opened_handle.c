// SPDX-License-Identifier: Apache-2.0
// What a provider does with a handle from ibv_open_qp.
//
//   opened_handle destroy|reset|close DEV
//
// Makes an XRC target QP in one context, opens it in another, and then does to the opened handle
// what is named: ibv_destroy_qp, a move to RESET, or the closing of its whole context. Prints
// "done" if it lives to see the end. It proves a fault of providers, so it is meant to be run as a
// child.
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void require(int ok, const char *what) {
  if (ok) return;
  fprintf(stderr, "opened_handle: %s: %s\n", what, strerror(errno));
  exit(1);
}

static struct ibv_context *open_device(const char *name) {
  struct ibv_device **list = ibv_get_device_list(NULL);
  struct ibv_context *context = NULL;
  require(list != NULL, "device list");
  for (int i = 0; list[i] && !context; i++)
    if (!strcmp(ibv_get_device_name(list[i]), name)) context = ibv_open_device(list[i]);
  ibv_free_device_list(list);
  require(context != NULL, name);
  return context;
}

static struct ibv_xrcd *open_domain(struct ibv_context *context, int fd) {
  struct ibv_xrcd_init_attr attr = {
      .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = fd, .oflags = O_CREAT};
  struct ibv_xrcd *xrcd = ibv_open_xrcd(context, &attr);
  require(xrcd != NULL, "open XRC domain");
  return xrcd;
}

static struct ibv_qp *create_qp(struct ibv_context *context, struct ibv_xrcd *xrcd) {
  struct ibv_qp_init_attr_ex attr = {
      .qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = xrcd};
  struct ibv_qp *qp = ibv_create_qp_ex(context, &attr);
  require(qp != NULL, "create target QP");
  return qp;
}

static struct ibv_qp *open_qp(struct ibv_context *context, struct ibv_xrcd *xrcd, unsigned number) {
  struct ibv_qp_open_attr attr = {
      .comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
      .qp_num = number,
      .xrcd = xrcd,
      .qp_type = IBV_QPT_XRC_RECV};
  struct ibv_qp *qp = ibv_open_qp(context, &attr);
  require(qp != NULL, "open target QP");
  return qp;
}

static void require_zero(int error, const char *what) {
  if (error) errno = error;
  require(!error, what);
}

int main(int argc, char *argv[]) {
  if (argc != 3) {
    fputs("usage: opened_handle destroy|reset|close DEV\n", stderr);
    return 2;
  }
  const char *what = argv[1];
  FILE *file = tmpfile();
  require(file != NULL, "temporary file");
  struct ibv_context *creator = open_device(argv[2]), *opener = open_device(argv[2]);
  struct ibv_qp *created = create_qp(creator, open_domain(creator, fileno(file)));
  struct ibv_qp *opened = open_qp(opener, open_domain(opener, fileno(file)), created->qp_num);

  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
  struct ibv_qp_init_attr init;
  require_zero(ibv_query_qp(opened, &attr, IBV_QP_STATE, &init), "query through the handle");
  if (!strcmp(what, "destroy")) require_zero(ibv_destroy_qp(opened), "destroy");
  if (!strcmp(what, "reset")) require_zero(ibv_modify_qp(opened, &attr, IBV_QP_STATE), "reset");
  if (!strcmp(what, "close")) require_zero(ibv_close_device(opener), "close");

  // Whatever happened to the handle, its creator's QP is the same.
  require_zero(ibv_query_qp(created, &attr, IBV_QP_STATE, &init), "query of the creator's");
  require_zero(ibv_destroy_qp(created), "destroy of the creator's");
  puts("done");
  return 0;
}
