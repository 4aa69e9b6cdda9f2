// SPDX-License-Identifier: Apache-2.0
// What a provider does with a handle from ibv_open_qp.
//
//   opened_handle destroy|reset|close DEV
//
// Makes an XRC target QP in one context, opens it in another, and then does to the opened handle
// what is named: ibv_destroy_qp, a move to RESET, or the closing of its whole context. Prints
// "done" if it lives to see the end. It proves a fault of providers, so it is meant to be run as a
// child.
#include "require.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

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

int main(int argc, char *argv[]) {
  if (argc != 3) {
    fputs("usage: opened_handle destroy|reset|close DEV\n", stderr);
    return 2;
  }
  const char *what = argv[1];
  FILE *file = tmpfile();
  require(file != NULL, "temporary file");
  struct ibv_context *creator = open_device(argv[2]), *opener = open_device(argv[2]);
  struct ibv_qp *created = create_qp(creator, open_xrcd(creator, fileno(file), O_CREAT));
  struct ibv_qp *opened = open_qp(opener, open_xrcd(opener, fileno(file), O_CREAT), created->qp_num);

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
