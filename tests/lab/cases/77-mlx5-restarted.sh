#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 120
# A daemon that was killed on libmlx5: what its successor opened by number it also lets go of, though
# libmlx5 cannot destroy such a handle.
# shellcheck source=tests/lab/cases/broker.sh
. "$LAB_CASES/broker.sh"
# shellcheck source=tests/lab/cases/mlx5.sh
. "$LAB_CASES/mlx5.sh"
start_keeper
start_daemon
wait_for 20 has_device
demo_client alice alice --create --group 2000 watch
wait_for 20 says alice HOLDS
demo_client bob bob --owner 1001 watch
wait_for 20 says bob HOLDS

kill_daemon
start_daemon
wait_for 10 count_is 2
close_input bob
wait_for 10 count_is 1
says alice GONE && fail 'alice noticed'
close_input alice
wait_for 20 books_are_empty
wait_for 10 no_target_qp
stop_daemon
