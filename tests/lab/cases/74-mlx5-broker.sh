#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 120
# The broker on libmlx5: one user's QP held by another's, kills, and a member who opens the QP in the
# kernel by the client library, keeps it without a lease and lets go of it.
# shellcheck source=tests/lab/cases/broker.sh
. "$LAB_CASES/broker.sh"
# shellcheck source=tests/lab/cases/mlx5.sh
. "$LAB_CASES/mlx5.sh"
start_daemon
wait_for 20 has_device

demo_client alice alice --create --group 2000 watch
wait_for 20 says alice HOLDS
demo_client bob bob --owner 1001 watch
wait_for 20 says bob HOLDS
demo_client carol carol --owner 1001 keep
wait_for 20 says carol KEEPS
demo_client mallory mallory --owner 1001 watch
wait_for 20 grep -q '^refused' mallory.err
count_is 2 || fail 'alice and bob should hold it'

kill -KILL "${client[alice]}"
wait_for 10 count_is 1
close_input bob
lingers() { books | grep -q ' lingering$'; }
wait_for 10 lingers
# It ends well only if it can let go of the kernel's handle.
close_input carol
wait "${client[carol]}" || fail "carol ended with status $?: $(cat carol.err)"
wait_for 20 books_are_empty
wait_for 10 no_target_qp
stop_daemon
