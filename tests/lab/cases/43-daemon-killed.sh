#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 120
# kill -9 of a daemon that has no keeper: holders see a hang-up, the kernel's objects go, and a new daemon starts in the
# same place with a new generation.
# shellcheck source=tests/lab/cases/broker.sh
. "$LAB_CASES/broker.sh"
require_vhca
start_daemon
wait_for 20 has_device
demo_client alice alice --create --group 2000 watch
wait_for 20 says alice HOLDS
old=$(sed -n 's/^HOLDS .*@\([0-9a-f]*\).*/\1/p' alice.out)

kill_daemon
wait_for 10 says alice GONE
wait_for 10 no_target_qp

start_daemon
wait_for 20 books_are_empty
[ -z "$(ls "$run/private")" ] || fail 'old domain files are left'
demo_client bob alice --create --group 2000 watch
wait_for 20 says bob HOLDS
new=$(sed -n 's/^HOLDS .*@\([0-9a-f]*\).*/\1/p' bob.out)
[ "$old" != "$new" ] || fail 'the generation is the old one'
# A second daemon in the same place is refused, by name of the first.
expect_fail "$bin/qpbrokerd" --runtime-dir "$run" 2>second.log
grep -q "another qpbrokerd (pid $daemon)" second.log || fail "$(cat second.log)"
close_input bob
wait_for 10 books_are_empty
stop_daemon
