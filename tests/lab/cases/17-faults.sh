#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Firmware commands that fail or are slow, by count and by class, and what user space sees of it.
# shellcheck source=tests/lab/cases/lib.sh
. "$LAB_CASES/lib.sh"
require_vhca
faults=/sys/kernel/debug/vhca/vhca0

says() { # says EXPECTED COMMAND...
  local expected=$1 got
  shift
  got=$("$@")
  [ "$got" = "$expected" ] || fail "$*: says $got, not $expected"
}

# The third creation of each kind fails, with the error that was chosen; the one after it works.
for pair in pd:alloc_pd mr:reg_mr xrcd:alloc_xrcd cq:create_cq srq:create_srq qp:create_qp; do
  nth=3
  case $pair in pd:* | cq:*) nth=4 ;; esac # The program makes one for itself.
  echo "${pair#*:} $nth 28" >$faults/cmd_fail
  says '2 28' objects vhca0 "${pair%:*}" 5
  says '5 0' objects vhca0 "${pair%:*}" 5
done

# A refused destruction leaves the object, and the kernel takes it with the process.
for pair in mr:dereg_mr srq:destroy_srq qp:destroy_qp; do
  echo "${pair#*:} 2 16" >$faults/cmd_fail
  says $'3 0\ndestroyed 1 16' objects vhca0 "${pair%:*}" 3 close
done

echo 'any 1 5' >$faults/cmd_fail
expect_fail objects vhca0 pd 1
echo 'qp 1 5' >$faults/cmd_fail 2>/dev/null && fail 'an unknown class is accepted'
echo 'destroy_qp 1' >$faults/cmd_fail 2>/dev/null && fail 'a failure without an error is accepted'
echo 'destroy_qp 30001' >$faults/cmd_delay 2>/dev/null && fail 'there is no bound of delays'

# A slow destruction: a process that was killed holds its context until it is through, no longer.
echo 'destroy_qp 2000' >$faults/cmd_delay
begin=${EPOCHREALTIME/./}
timeout -s KILL 1 objects vhca0 qp 1 >/dev/null 2>&1 || true
wait_for 10 have_count ctx 0
[ $(((${EPOCHREALTIME/./} - begin) / 1000)) -ge 2000 ] || fail 'the destruction was not slow'
echo 'destroy_qp 0' >$faults/cmd_delay
