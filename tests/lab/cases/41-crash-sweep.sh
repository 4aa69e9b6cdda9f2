#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
# A client under its own uid is killed before and behind each system call of its job. After each death
# neither the books nor the kernel have anything left.
# shellcheck source=tests/lab/cases/broker.sh
. "$LAB_CASES/broker.sh"
require_vhca
start_daemon
wait_for 20 has_device

point=0
while true; do
  status=0
  as_user alice "$bin/crash_client" "$run" vhca0 $point || status=$?
  wait_for 10 books_are_empty
  wait_for 10 test -z "$(rdma resource show qp | grep XRC || true)"
  [ $status -eq 0 ] && break
  [ $status -eq 137 ] || fail "the client ended with status $status at point $point"
  point=$((point + 1))
  [ $point -lt 500 ] || fail 'the job is never done'
done
[ $point -gt 20 ] || fail "only $point points"
echo "killed at $point points"
stop_daemon
