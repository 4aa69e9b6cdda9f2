#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 120
# The daemon starts before any device exists, finds one that comes, tells holders when it goes, and lets
# the driver unload.
# shellcheck source=tests/lab/cases/broker.sh
. "$LAB_CASES/broker.sh"
rmmod vhca
start_daemon
books_are_empty || fail 'there is something without a device'
insmod /lib/vhca.ko
wait_for 20 has_device

demo_client alice alice --create --group 2000 watch
wait_for 20 says alice HOLDS
rmmod vhca
wait_for 10 says alice DEVICE_GONE
wait_for 10 says alice GONE
wait_for 10 books_are_empty
wait_for 10 grep -q 'device.removed: vhca0' daemon.log

insmod /lib/vhca.ko
opens() {
  as_user alice "$bin/xrc_demo" --runtime-dir "$run" --device vhca0 --create --group 2000 hold \
    </dev/null
}
wait_for 30 opens
wait_for 10 books_are_empty
stop_daemon
