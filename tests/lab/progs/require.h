// SPDX-License-Identifier: Apache-2.0
// What the programs share: whatever fails ends the program with its name, what it did, and why.
#ifndef QPBROKER_TESTS_LAB_PROGS_REQUIRE_H_
#define QPBROKER_TESTS_LAB_PROGS_REQUIRE_H_

#define _GNU_SOURCE  // So it comes before any other header.

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline void require(int ok, const char *what) {
  if (ok) return;
  fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, strerror(errno));
  exit(1);
}

// For verbs that return an error number rather than set errno.
static inline void require_zero(int error, const char *what) {
  if (error) errno = error;
  require(!error, what);
}

static inline struct ibv_context *open_device(const char *name) {
  struct ibv_device **list = ibv_get_device_list(NULL);
  struct ibv_context *context = NULL;
  require(list != NULL, "device list");
  for (int i = 0; list[i] && !context; i++)
    if (!strcmp(ibv_get_device_name(list[i]), name)) context = ibv_open_device(list[i]);
  ibv_free_device_list(list);
  require(context != NULL, name);
  return context;
}

static inline struct ibv_xrcd *open_xrcd(struct ibv_context *context, int fd, int oflags) {
  struct ibv_xrcd_init_attr attr = {
      .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = fd, .oflags = oflags};
  struct ibv_xrcd *xrcd = ibv_open_xrcd(context, &attr);
  require(xrcd != NULL, "open XRC domain");
  return xrcd;
}

#endif  // QPBROKER_TESTS_LAB_PROGS_REQUIRE_H_
