#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 180
# The keeper is renewed, killed and replaced, stopped; other users cannot speak to it; the daemon serves on,
# and what the last keeper has is enough for the next daemon.
# shellcheck source=tests/lab/cases/broker.sh
. "$LAB_CASES/broker.sh"
require_vhca
start_keeper
start_daemon
wait_for 20 has_device
demo_client alice alice --create --group 2000 watch
wait_for 20 says alice HOLDS

# Not even a member of the job may connect.
expect_fail as_user alice "$bin/qpbroker-keeper" "$run/keeper.sock" 2>alice.keeper
grep -q 'Permission denied' alice.keeper || fail "$(cat alice.keeper)"
# Renewed: the same process, with everything.
kill -HUP "$keeper"
wait_for 10 grep -q 'holds [1-9][0-9]* entries' keeper.log

# Killed: the daemon says so and goes on.
kill -KILL "$keeper"
wait "$keeper" || true
wait_for 10 grep -q 'keeper.lost' daemon.log
demo_client bob bob --owner 1001 watch
wait_for 20 says bob HOLDS
wait_for 10 count_is 2
rm -f "$run/keeper.sock"
start_keeper
wait_for 10 grep -q 'keeper.back' daemon.log

# Stopped: nobody waits for it.
kill -STOP "$keeper"
demo_client carol carol --owner 1001 watch
wait_for 20 says carol HOLDS
wait_for 10 count_is 3
kill -CONT "$keeper"

kill_daemon
start_daemon
wait_for 20 grep -q 'recovery.took_over: 1 domains, 1 QPs, 6 leases; 0 leases had ended, 0 were revoked, 0 differences' daemon.log
wait_for 10 count_is 3
# Handed over in order: the same.
kill -USR2 "$daemon"
wait "$daemon" || fail 'it did not end well'
start_daemon
wait_for 10 count_is 3
for name in alice bob carol; do
  says "$name" GONE && fail "$name noticed"
  close_input "$name"
done
wait_for 10 books_are_empty
stop_daemon
kill -USR1 "$keeper"
wait_for 10 grep -q 'holds 0 entries with 0 descriptors' keeper.log
