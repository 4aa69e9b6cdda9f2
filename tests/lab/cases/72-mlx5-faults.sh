#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Why handles of ibv_open_qp are closed with a context of their own: stock libmlx5 dies in
# ibv_destroy_qp of such a handle, and in its move to RESET. Should this case ever fail because one of
# them succeeds, that provider is mended. libmlx4 does all three.
# shellcheck source=tests/lab/cases/lib.sh
. "$LAB_CASES/lib.sh"
# shellcheck source=tests/lab/cases/mlx5.sh
. "$LAB_CASES/mlx5.sh"
require_vhca

segfault=139
try() {
  local status=0
  opened_handle "$1" "$2" || status=$?
  [ $status -eq "$3" ] || fail "$1 on $2 ended with $status, not with $3"
  # The kernel cleans up after the dead as after the living.
  wait_for 10 have_count ctx 0
}
try close "$device" 0
try destroy "$device" $segfault
try reset "$device" $segfault
for how in close destroy reset; do try $how vhca0 0; done
