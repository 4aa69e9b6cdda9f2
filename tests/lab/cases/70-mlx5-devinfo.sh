#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Stock libmlx5 opens its virtual device, for root and for an ordinary user; a program that wants to
# move data is refused at once.
# shellcheck source=tests/lab/cases/lib.sh
. "$LAB_CASES/lib.sh"
# shellcheck source=tests/lab/cases/mlx5.sh
. "$LAB_CASES/mlx5.sh"

for user in root mallory; do
  as_user "$user" ibv_devinfo -v -d "$device" >devinfo
  for wanted in "hca_id:[[:space:]]$device" 'PORT_ACTIVE' '^[[:space:]]*XRC$'; do
    grep -qE "$wanted" devinfo || fail "$user sees no line $wanted: $(cat devinfo)"
  done
done
expect_fail ibv_rc_pingpong -d "$device" 2>pingpong.err
grep -q "Couldn't register MR" pingpong.err || fail "$(cat pingpong.err)"
