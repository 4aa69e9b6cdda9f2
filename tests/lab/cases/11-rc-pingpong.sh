#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Stock ibv_rc_pingpong, as two users, contents checked: by polling and by completion events.
# shellcheck source=tests/lab/cases/lib.sh
. "$LAB_CASES/lib.sh"
require_vhca

for mode in '' -e; do
  pingpong alice bob ibv_rc_pingpong -d vhca0 -c -n 200 $mode
done
have_count qp 0 || fail 'a QP is left'
