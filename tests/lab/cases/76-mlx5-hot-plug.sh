#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 120
# The device of libmlx5 goes under a holder of a lease and a holder of the kernel's handle; the daemon
# takes both as it takes them on libmlx4, and serves the device when it is back.
# shellcheck source=tests/lab/cases/broker.sh
. "$LAB_CASES/broker.sh"
# shellcheck source=tests/lab/cases/mlx5.sh
. "$LAB_CASES/mlx5.sh"
start_daemon
wait_for 20 has_device
demo_client alice alice --create --group 2000 watch
wait_for 20 says alice HOLDS
demo_client bob bob --owner 1001 keep
wait_for 20 says bob KEEPS

rmmod vhca5
wait_for 10 says alice DEVICE_GONE
wait_for 10 books_are_empty
close_input bob
wait "${client[bob]}" || fail "bob ended with status $?: $(cat bob.err)"

insmod /lib/vhca5.ko
opens() {
  as_user alice "$bin/xrc_demo" --runtime-dir "$run" --device "$device" --create --group 2000 hold \
    </dev/null
}
wait_for 30 opens
wait_for 10 books_are_empty
stop_daemon
