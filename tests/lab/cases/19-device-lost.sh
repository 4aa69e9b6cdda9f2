#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 120
# A device that dies, and one that is pulled and put back under load: holders are told, nothing
# hangs, another device goes on, and the new one serves at once.
# shellcheck source=tests/lab/cases/lib.sh
. "$LAB_CASES/lib.sh"
require_vhca
reload_vhca devices=2
debug=/sys/kernel/debug/vhca

load() { # load DEVICE PORT: a pair that exchanges messages for as long as it lives
  exec_as alice ibv_rc_pingpong -d "$1" -p "$2" -n 10000000 >/dev/null 2>&1 &
  pids+=($!)
  wait_for 10 listening "$2"
  exec_as bob ibv_rc_pingpong -d "$1" -p "$2" -n 10000000 localhost >/dev/null 2>&1 &
  pids+=($!)
}
connected() { [ "$(rdma resource show qp link "$1" | grep -c 'state RTS')" -ge 2 ]; }

pids=()
exec_as carol ibv_asyncwatch -d vhca0 >watch 2>&1 &
watcher=$!
wait_for 10 have_count ctx 1
load vhca0 18600
wait_for 10 connected vhca0/1
echo 1 >$debug/vhca0/device_fatal
wait_for 10 grep -qi fatal watch
[ "$(objects vhca1 qp 1)" = '1 0' ] || fail 'the other device suffers'
expect_fail objects vhca0 qp 1
kill -KILL "$watcher" "${pids[@]}"
wait_for 10 have_count qp 0
wait_for 10 have_count ctx 0

for round in 1 2 3 4; do
  echo 0 >$debug/unplug
  [ ! -e /sys/class/infiniband/vhca0 ] || fail 'vhca0 is still there'
  echo 0 >$debug/plug
  pids=()
  wait_for 10 test -e /sys/class/infiniband/vhca0
  wait_for 10 objects vhca0 qp 1
  load vhca0 $((18600 + round))
  load vhca1 $((18700 + round))
  wait_for 10 connected vhca0/1
  wait_for 10 connected vhca1/1
  echo 0 >$debug/unplug
  connected vhca1/1 || fail 'the other device suffers'
  echo 0 >$debug/plug
  kill -KILL "${pids[@]}" 2>/dev/null || true
  wait_for 10 have_count qp 0
done
wait_for 10 objects vhca0 qp 1
pingpong alice bob ibv_rc_pingpong -d vhca0 -n 50
expect_fail sh -c "echo 0 >$debug/plug" 2>/dev/null
expect_fail sh -c "echo 7 >$debug/unplug" 2>/dev/null
