#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 90
# The driver can be unloaded and loaded again, also under a process that has the device
# open: a hot unplug.
# shellcheck source=tests/lab/cases/lib.sh
. "$LAB_CASES/lib.sh"
require_vhca

no_device() { [ ! -e /sys/class/infiniband/vhca0 ]; }
device_works() { ibv_devinfo -d vhca0; }

for _ in 1 2 3 4 5; do
  rmmod vhca
  no_device || fail 'the device outlives its module'
  insmod /lib/vhca.ko
  wait_for 5 device_works
done

ibv_asyncwatch -d vhca0 >watch 2>&1 &
watcher=$!
wait_for 10 have_count ctx 1
rmmod vhca
no_device || fail 'the device outlives its module'
insmod /lib/vhca.ko
wait_for 5 device_works
pingpong alice bob ibv_rc_pingpong -d vhca0 -n 50

# The holder is told, and its old context harms nobody when it goes.
grep -qi 'fatal' watch || fail "no device-fatal event: $(cat watch)"
kill "$watcher" 2>/dev/null || true
wait_for 10 have_count ctx 0
device_works >/dev/null
