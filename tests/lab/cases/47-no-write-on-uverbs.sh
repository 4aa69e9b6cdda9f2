#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
# A client uses the device with stock libibverbs under its own uid. The kernel refuses write(2) on a
# uverbs descriptor to whoever did not open it; nothing here may need one.
# shellcheck source=tests/lab/cases/broker.sh
. "$LAB_CASES/broker.sh"
require_vhca
start_daemon
wait_for 20 has_device
mkfifo in
# strace runs as her too.
touch trace
chown alice trace
exec_as alice strace -f -y -qq -e trace=write,ioctl -o "$LAB_WORK/trace" \
  "$bin/xrc_demo" --runtime-dir "$run" --device vhca0 --create --group 2000 receive \
  <in >receive.out 2>receive.err &
exec {input_fd}>in
wait_for 240 grep -q '^SRQ ' receive.out
exec {input_fd}>&-
wait_for 60 books_are_empty
grep -q 'ioctl.*uverbs' trace || fail 'no verbs call was seen'
! grep 'write(.*uverbs' trace || fail 'a write on a uverbs descriptor'
! grep 'EACCES' trace || fail 'a verbs call was refused'
stop_daemon
