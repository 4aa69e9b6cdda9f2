#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Faults made through debugfs reach the stock programs: a failed QP flushes its work, and
# a port that goes down and up is told to whoever watches the device.
# shellcheck source=tests/lab/cases/lib.sh
. "$LAB_CASES/lib.sh"
require_vhca
faults=/sys/kernel/debug/vhca/vhca0

# Many more messages than there is time for.
exec_as alice ibv_rc_pingpong -d vhca0 -n 1000000 >server.out 2>&1 &
server=$!
wait_for 10 listening 18515
exec_as bob ibv_rc_pingpong -d vhca0 -n 1000000 localhost >client.out 2>&1 &
client=$!
in_rts() { [ "$(rdma resource show qp | grep -c 'state RTS')" -eq 2 ]; }
wait_for 10 in_rts
number=$(rdma resource show qp | grep "pid $server " | grep -oE 'lqpn [0-9]+' | cut -d' ' -f2)
echo "$number" >$faults/qp_fatal
# Only the failed side is sure to notice: its peer may have nothing under way that could fail.
expect_fail wait "$server"
grep -q 'Failed status' server.out || fail "the server did not see it: $(cat server.out)"
kill -KILL "$client"
wait_for 10 have_count qp 0

exec_as carol ibv_asyncwatch -d vhca0 >watch 2>&1 &
wait_for 10 have_count ctx 1
echo down >$faults/port_state
wait_for 10 grep -q IBV_EVENT_PORT_ERR watch
ibv_devinfo -d vhca0 | grep -q PORT_DOWN || fail 'the port should be down'
echo up >$faults/port_state
wait_for 10 grep -q IBV_EVENT_PORT_ACTIVE watch
ibv_devinfo -d vhca0 | grep -q PORT_ACTIVE || fail 'the port should be up'

expect_fail sh -c "echo 1 >$faults/qp_fatal"
