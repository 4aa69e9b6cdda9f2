// SPDX-License-Identifier: Apache-2.0
// Makes objects of one kind until it cannot, or as many as asked for, and says how far it came.
//
//   objects DEV pd|xrcd|mr|cq|srq|qp COUNT [close]
//
// Prints "N ERRNO": how many there are, and why there are no more (0 if COUNT was reached). With
// "close" it then destroys them one by one and prints "destroyed N ERRNO"; an error ends that.
#include "require.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kMax = 65536 };

struct ground {
  struct ibv_context *context;
  struct ibv_pd *pd;
  struct ibv_cq *cq;
  char buffer[64];
};

static struct ground ground;

static void *make_pd(void) { return ibv_alloc_pd(ground.context); }

static void *make_xrcd(void) {
  struct ibv_xrcd_init_attr attr = {
      .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT};
  return ibv_open_xrcd(ground.context, &attr);
}

static void *make_mr(void) {
  return ibv_reg_mr(ground.pd, ground.buffer, sizeof(ground.buffer), IBV_ACCESS_LOCAL_WRITE);
}

static void *make_cq(void) { return ibv_create_cq(ground.context, 1, NULL, NULL, 0); }

static void *make_srq(void) {
  struct ibv_srq_init_attr attr = {.attr = {.max_wr = 1, .max_sge = 1}};
  return ibv_create_srq(ground.pd, &attr);
}

static void *make_qp(void) {
  struct ibv_qp_init_attr attr = {.send_cq = ground.cq, .recv_cq = ground.cq, .qp_type = IBV_QPT_RC};
  attr.cap = (struct ibv_qp_cap){1, 1, 1, 1, 0};
  return ibv_create_qp(ground.pd, &attr);
}

static int end_pd(void *object) { return ibv_dealloc_pd(object); }
static int end_xrcd(void *object) { return ibv_close_xrcd(object); }
static int end_mr(void *object) { return ibv_dereg_mr(object); }
static int end_cq(void *object) { return ibv_destroy_cq(object); }
static int end_srq(void *object) { return ibv_destroy_srq(object); }
static int end_qp(void *object) { return ibv_destroy_qp(object); }

static const struct kind {
  const char *name;
  void *(*make)(void);
  int (*end)(void *);
} kinds[] = {{"pd", make_pd, end_pd}, {"xrcd", make_xrcd, end_xrcd}, {"mr", make_mr, end_mr},
             {"cq", make_cq, end_cq}, {"srq", make_srq, end_srq},    {"qp", make_qp, end_qp}};

static void open_ground(const char *device) {
  ground.context = open_device(device);
  ground.pd = ibv_alloc_pd(ground.context);
  ground.cq = ibv_create_cq(ground.context, 1, NULL, NULL, 0);
  require(ground.pd && ground.cq, "PD and CQ");
}

int main(int argc, char *argv[]) {
  static void *made[kMax];
  const struct kind *kind = NULL;
  for (size_t i = 0; argc >= 4 && i < sizeof(kinds) / sizeof(*kinds); i++)
    if (!strcmp(kinds[i].name, argv[2])) kind = &kinds[i];
  if (!kind) {
    fputs("usage: objects DEV pd|xrcd|mr|cq|srq|qp COUNT [close]\n", stderr);
    return 2;
  }
  open_ground(argv[1]);
  const int wanted = atoi(argv[3]) < kMax ? atoi(argv[3]) : kMax;
  int count = 0, error = 0;
  while (count < wanted && (made[count] = kind->make())) count++;
  if (count < wanted) error = errno;
  printf("%d %d\n", count, error);
  if (argc < 5) return 0;

  const int all = count;
  error = 0;
  while (count && !(error = kind->end(made[count - 1]))) count--;
  printf("destroyed %d %d\n", all - count, error);
  return 0;
}
