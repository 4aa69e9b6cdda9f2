#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The device's limits are module parameters: beyond them ENOMEM, and what was given back counts
# no more. Several devices, each with limits, ports and LIDs of its own, on one fabric.
# shellcheck source=tests/lab/cases/lib.sh
. "$LAB_CASES/lib.sh"
require_vhca
reload_vhca devices=3 max_pd=4 max_xrcd=2 max_mr=7 max_cq=6 max_srq=3 max_qp=5

# Of PDs and CQs the program has one already.
for pair in pd:3 xrcd:2 mr:7 cq:5 srq:3 qp:5; do
  for device in vhca0 vhca2 vhca0; do
    got=$(objects $device "${pair%:*}" 100)
    [ "$got" = "${pair#*:} 12" ] || fail "$device ${pair%:*}: $got, not ${pair#*:} 12"
  done
done
ibv_devinfo -v -d vhca1 | grep -qE 'max_qp:[[:space:]]+5$' || fail 'max_qp is not told'
ibv_devinfo -v -d vhca1 | grep -qE 'phys_port_cnt:[[:space:]]+2$' || fail 'not two ports'

# From one device's second port to another's first.
exec_as alice ibv_rc_pingpong -d vhca0 -i 2 -n 50 -c >server.out 2>&1 &
server=$!
wait_for 10 listening 18515
as_user bob ibv_rc_pingpong -d vhca2 -n 50 -c localhost || fail "$(cat server.out)"
wait "$server"

# One port down: it says so, and the other goes on.
echo 'down 2' >/sys/kernel/debug/vhca/vhca1/port_state
[ "$(ibv_devinfo -d vhca1 | grep -c PORT_ACTIVE)" -eq 1 ] || fail 'one port should be up'
ibv_devinfo -d vhca1 -i 2 | grep -q PORT_DOWN || fail 'port 2 should be down'
