#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 120
# Stock ibv_xsrq_pingpong, six times: its messages race with the receiver's posts, so a
# device without transport retry hangs in half of the runs.
# shellcheck source=tests/lab/cases/lib.sh
. "$LAB_CASES/lib.sh"
require_vhca

for run in 1 2 3 4 5 6; do
  echo "run $run"
  pingpong alice bob ibv_xsrq_pingpong -d vhca0 -n 40
done
have_count srq 0 || fail 'an SRQ is left'
