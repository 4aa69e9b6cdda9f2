#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The demo itself. Runs as root where the daemon can run: in the lab, on its virtual HCA, or anywhere with
# a fake device (then without messages). Each step says what it proves, and checks it.
#
# usage: show.sh ibverbs|fake BIN_DIR
# shellcheck disable=SC2317 # Functions are also called by name.
set -u
backend=$1
bin=$2
work=$(mktemp -d)
chmod 0755 "$work"
run=$work/run
job_group=2000
alice=1001 bob=1002 carol=1003 dave=1004 mallory=1666
device=fake0

failures=0
daemon_pid=
trap 'kill $(jobs -p) 2>/dev/null; wait 2>/dev/null; rm -rf "$work"' EXIT

title() { printf '\n\033[1m(%s) %s\033[0m\n' "$1" "$2"; }
say() { printf '    %s\n' "$*"; }
check() {
  local what=$1
  shift
  if "$@"; then
    printf '    ok: %s\n' "$what"
  else
    printf '    WRONG: %s\n' "$what"
    failures=$((failures + 1))
  fi
}
# Polls a condition for up to 20 s.
settles() {
  local _
  for _ in $(seq 200); do
    "$@" && return 0
    sleep 0.1
  done
  return 1
}
says() { grep -qF -- "$2" "$work/$1.out"; }

# Executes a program as another user: exec, never only a fork, as separate programs of a job are.
as() {
  local uid=$1 groups=$2
  shift 2
  exec setpriv --reuid "$uid" --regid "$uid" --groups "$groups" "$@"
}
# Starts a client of the demo in the background: name, uid, groups, arguments. Its input stays open on
# the descriptor ${inputs[name]}, its pid is ${pids[name]}.
declare -A inputs pids
start() {
  local name=$1 uid=$2 groups=$3 fd
  shift 3
  mkfifo "$work/$name.in"
  (as "$uid" "$groups" "$bin/xrc_demo" --runtime-dir "$run" --device "$device" "$@" \
    <"$work/$name.in" >"$work/$name.out" 2>"$work/$name.err") &
  pids[$name]=$!
  exec {fd}>"$work/$name.in"
  inputs[$name]=$fd
}
finish() {
  local fd=${inputs[$1]}
  exec {fd}>&-
  wait "${pids[$1]}"
}
kill_hard() {
  kill -KILL "${pids[$1]}"
  wait "${pids[$1]}" 2>/dev/null
  local fd=${inputs[$1]}
  exec {fd}>&-
}
srq_of() { sed -n 's/^SRQ //p' "$work/$1.out"; }

kernel_qps_are() { [ "$(kernel_qps)" = "$1" ]; }
kernel_qps() { rdma resource show qp 2>/dev/null | grep -c 'XRC_TGT'; }
books() { "$bin/inspect" "$run/admin.sock"; }
qp_leases() { books | sed -n 's/^qp .* leases \([0-9]*\).*/\1/p'; }
leases_are() { [ "$(qp_leases)" = "$1" ]; }
nothing_left() { books >"$work/books" && [ ! -s "$work/books" ] && [ -z "$(ls "$run/private")" ]; }

holder=receive
if [ "$backend" = fake ]; then
  holder=hold
else
  device=$(rdma link show | sed -n 's/^link \([^/ ]*\).*/\1/p' | head -n 1)
fi

title a 'A root daemon owns an XRC domain and a target QP on the device'
"$bin/qpbrokerd" --backend "$backend" --runtime-dir "$run" 2>"$work/daemon.log" &
daemon_pid=$!
check 'the daemon serves' settles test -S "$run/admin.sock"
check 'it found the device' settles grep -q "device.added: $device" "$work/daemon.log"
start alice $alice $job_group --create --group $job_group $holder
check "alice (uid $alice) asked for domain and QP and holds a lease" settles says alice HOLDS
say "$(sed -n 's/^HOLDS //p' "$work/alice.out")"
if [ "$backend" != fake ]; then
  say 'the kernel lists the QP, created by the daemon:'
  rdma resource show qp | grep XRC_TGT | sed 's/^/        /'
  check 'exactly one target QP' kernel_qps_are 1
fi

title b 'Programs of other users of the job open the same QP'
start bob $bob $job_group --owner $alice $holder
start carol $carol $job_group --owner $alice $holder
check "bob (uid $bob) holds it" settles says bob HOLDS
check "carol (uid $carol) holds it" settles says carol HOLDS
check 'the books count three leases on one QP' leases_are 3

title c 'A user outside the group is refused, and not told whether it exists'
(as $mallory $mallory "$bin/xrc_demo" --runtime-dir "$run" --device "$device" \
  --owner $alice --domain job-7 hold </dev/null) >"$work/there" 2>&1
(as $mallory $mallory "$bin/xrc_demo" --runtime-dir "$run" --device "$device" \
  --owner $alice --domain no-such hold </dev/null) >"$work/not-there" 2>&1
sed 's/^/    /' "$work/there"
check 'refused' grep -q PERMISSION_DENIED "$work/there"
check 'the answer for a domain that does not exist is the same to the letter' \
  cmp -s "$work/there" "$work/not-there"

if [ "$backend" != fake ]; then
  title d 'One sender reaches each receiver through the one target QP'
  start dave $dave $job_group --owner $alice send
  check "dave (uid $dave) connected his initiator QP" settles says dave CONNECTED
  say "$(sed -n 's/^CONNECTED //p' "$work/dave.out")"
  for name in alice bob carol; do
    echo "$(srq_of $name) hello $name" >&"${inputs[dave]}"
    check "$name (uid ${!name}) received its own message" settles says $name "RECEIVED hello $name"
  done
  expected=4
else
  expected=3
fi

title e 'Anybody can look, as far as they may'
if command -v grpcurl >/dev/null; then
  say 'grpcurl on the admin socket:'
  grpcurl -plaintext -unix -authority localhost "$run/admin.sock" \
    qpbroker.v1.InspectionService/ListQps >"$work/qps" 2>&1
  sed 's/^/        /' "$work/qps"
  check "it lists the QP with $expected leases" grep -q "\"lease_count\": $expected" "$work/qps"
  say 'grpcurl as bob on the api socket says who he is:'
  (as $bob $job_group grpcurl -plaintext -unix -authority localhost "$run/api.sock" \
    qpbroker.v1.BrokerService/WhoAmI) >"$work/whoami" 2>&1
  sed 's/^/        /' "$work/whoami"
  check 'bob is who the kernel says' grep -q "\"uid\": $bob" "$work/whoami"
else
  say 'grpcurl is not here; the same by a small program:'
  (as $bob $job_group "$bin/xrc_demo" --runtime-dir "$run" whoami) >"$work/whoami"
  check 'bob is who the kernel says' grep -q "uid $bob," "$work/whoami"
fi
books | sed 's/^/        /'
check "the books count $expected leases" leases_are $expected
(as $mallory $mallory "$bin/inspect" "$run/api.sock") >"$work/mallory.view"
check 'mallory sees nothing of it' test ! -s "$work/mallory.view"

title f 'SIGKILL of the client that asked for the QP'
kill_hard alice
check "the count falls by one, to $((expected - 1))" settles leases_are $((expected - 1))
if [ "$backend" != fake ]; then
  for name in bob carol; do
    echo "$(srq_of $name) still there, $name" >&"${inputs[dave]}"
    check "$name goes on receiving" settles says $name "RECEIVED still there, $name"
  done
fi

title g 'SIGKILL of another holder'
kill_hard bob
check "the count falls by one, to $((expected - 2))" settles leases_are $((expected - 2))
if [ "$backend" != fake ]; then
  echo "$(srq_of carol) the last one" >&"${inputs[dave]}"
  check 'carol goes on receiving' settles says carol 'RECEIVED the last one'
fi

title h 'The last one closes'
[ "$backend" = fake ] || finish dave
finish carol
check 'the books hold nothing' settles nothing_left
if [ "$backend" != fake ]; then
  check "the kernel's own list has no target QP" settles kernel_qps_are 0
fi
kill -TERM $daemon_pid
wait $daemon_pid
check 'the daemon stops and says that it gave everything back' \
  grep -q 'daemon.stopped' "$work/daemon.log"

if [ $failures -ne 0 ]; then
  printf '\nThe demo found %d thing(s) wrong. The daemon said:\n' $failures
  cat "$work/daemon.log" "$work"/*.err
  exit 1
fi
printf '\nAll steps were as promised.\n'
