#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Stock libibverbs finds the virtual HCA, for root and for an ordinary user: an active
# InfiniBand port and XRC.
# shellcheck source=tests/lab/cases/lib.sh
. "$LAB_CASES/lib.sh"
require_vhca

for user in root mallory; do
  as_user "$user" ibv_devinfo -v -d vhca0 >"$LAB_WORK/devinfo"
  for wanted in 'hca_id:[[:space:]]vhca0' 'PORT_ACTIVE' 'link_layer:[[:space:]]*InfiniBand' \
    '^[[:space:]]*XRC$'; do
    grep -qE "$wanted" "$LAB_WORK/devinfo" || {
      cat "$LAB_WORK/devinfo"
      fail "$user sees no line $wanted"
    }
  done
done
[ "$(stat -c %a /dev/infiniband/uverbs0)" = 666 ] || fail 'uverbs0 is not for everybody'
