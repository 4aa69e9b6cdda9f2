#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Stock ibv_srq_pingpong: several QPs that receive from one shared queue.
# shellcheck source=tests/lab/cases/lib.sh
. "$LAB_CASES/lib.sh"
require_vhca

for mode in '' -e; do
  pingpong alice bob ibv_srq_pingpong -d vhca0 -q 4 -n 200 $mode
done
have_count srq 0 || fail 'an SRQ is left'
