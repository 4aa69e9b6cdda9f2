#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 180
# kill -9 of the daemon beside its keeper: QPs, holders and counts are the same afterwards, nobody who held
# something noticed, messages went on, and what was let go while there was no daemon is gone.
# shellcheck source=tests/lab/cases/broker.sh
. "$LAB_CASES/broker.sh"
require_vhca
start_keeper
start_daemon
wait_for 20 has_device

kernel_has() { [ "$(rdma resource show qp | grep -c XRC_TGT)" -eq "$1" ]; }
srq_of() { sed -n 's/^SRQ //p' "$1.out"; }
tell() { echo "$(srq_of "$1") $2" >&"${input[dave]}"; }

demo_client alice alice --create --group 2000 receive
wait_for 20 says alice SRQ
demo_client bob bob --owner 1001 receive
demo_client carol carol --owner 1001 watch
demo_client dave dave --owner 1001 send
wait_for 20 says bob SRQ
wait_for 20 says carol HOLDS
wait_for 20 says dave CONNECTED
wait_for 10 count_is 4
qp=$(sed -n 's/^HOLDS //p' alice.out)

kill_daemon
kernel_has 1 || fail 'the QP went with the daemon'
tell alice 'nobody serves'
wait_for 10 says alice 'RECEIVED nobody serves'
# Bob dies while nobody looks.
kill -KILL "${client[bob]}"

start_daemon
wait_for 20 grep -q 'recovery.took_over: 1 domains, 1 QPs, 6 leases; 2 leases had ended, 0 were revoked, 0 differences' daemon.log
wait_for 10 count_is 3
kernel_has 1
tell alice 'served again'
wait_for 10 says alice 'RECEIVED served again'
says carol GONE && fail 'a holder noticed'

# Of the same generation: an old name is good, and the same key is the same QP.
demo_client erin alice --owner 1001 watch
wait_for 20 says erin "HOLDS $qp"
wait_for 10 count_is 4
# A second time, and this time all let go meanwhile: what nobody holds is given back.
kill_daemon
for name in alice carol dave erin; do close_input "$name"; done
wait "${client[alice]}" "${client[carol]}" "${client[dave]}" "${client[erin]}"
kernel_has 1 || fail 'the keeper did not hold the QP'
start_daemon
wait_for 10 books_are_empty
wait_for 10 kernel_has 0
no_files() { [ -z "$(ls "$run/private")" ]; }
wait_for 10 no_files
stop_daemon

# An orderly stop leaves the keeper nothing: the next daemon is of a new generation.
start_daemon
demo_client frank alice --create --group 2000 watch
wait_for 20 says frank HOLDS
[ "$(sed -n 's/^HOLDS //p' frank.out)" != "$qp" ] || fail 'the generation outlived an orderly stop'
close_input frank
stop_daemon
