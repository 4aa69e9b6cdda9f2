# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# What the cases of the broker share, on top of lib.sh.
# shellcheck source=tests/lab/cases/lib.sh
. "$LAB_CASES/lib.sh"

bin=/usr/lib/qpbroker
device=vhca0
run=$LAB_WORK/run

# Runs, in a subshell, what must not hold the clients' inputs open.
declare -A input
alone() {
  local fd
  for fd in "${input[@]}"; do exec {fd}>&-; done
  "$@"
}

# Starts the daemon and waits until it serves; its log is daemon.log.
start_daemon() {
  alone exec "$bin/qpbrokerd" --runtime-dir "$run" 2>>daemon.log &
  daemon=$!
  wait_for 20 test -S "$run/admin.sock"
}
has_device() { grep -q "device.added: $device" daemon.log; }

# Dead at once, without a word to anybody.
kill_daemon() {
  kill -KILL "$daemon"
  wait "$daemon" || true
}
# Starts the keeper that the daemon looks for, before it; its log is keeper.log.
start_keeper() {
  mkdir -p "$run"
  alone exec "$bin/qpbroker-keeper" "$run/keeper.sock" 2>>keeper.log &
  # shellcheck disable=SC2034 # For the cases.
  keeper=$!
  wait_for 20 test -S "$run/keeper.sock"
}

# What InspectionService shows to the administrator.
books() { "$bin/inspect" "$run/admin.sock"; }
books_are_empty() { books >books.out && [ ! -s books.out ]; }
count_is() { books | grep -q "^qp .* leases $1\$"; }

# in_background NAME USER PROGRAM ARGUMENT...: its output goes to NAME.out and NAME.err, its pid is
# ${client[NAME]}. Its input stays open until close_input NAME: nobody else inherits the other end.
# shellcheck disable=SC2034 # For the cases.
declare -A client
in_background() {
  local name=$1 user=$2 fd
  shift 2
  mkfifo "$name.in"
  alone exec_as "$user" "$@" <"$name.in" >"$name.out" 2>"$name.err" &
  # shellcheck disable=SC2034
  client[$name]=$!
  exec {fd}>"$name.in"
  input[$name]=$fd
}

# The kernel has no XRC target QP any more, on any device.
no_target_qp() { [ -z "$(rdma resource show qp | grep XRC || true)" ]; }

# crash_sweep MINIMUM: a client of alice's is killed before and behind each system call of its job, which
# must be MINIMUM at least. After each death neither the books nor the kernel have anything left.
crash_sweep() {
  local minimum=$1 point=0 status
  while true; do
    status=0
    as_user alice "$bin/crash_client" "$run" "$device" $point || status=$?
    wait_for 10 books_are_empty
    wait_for 10 no_target_qp
    [ $status -eq 0 ] && break
    [ $status -eq 137 ] || fail "the client ended with status $status at point $point"
    point=$((point + 1))
    [ $point -lt 500 ] || fail 'the job is never done'
  done
  [ $point -gt "$minimum" ] || fail "only $point points"
  echo "killed at $point points"
}

# demo_client NAME USER ARGUMENT...: a client of the demo.
demo_client() {
  local name=$1 user=$2
  shift 2
  in_background "$name" "$user" "$bin/xrc_demo" --runtime-dir "$run" --device "$device" "$@"
}
close_input() {
  local fd=${input[$1]}
  exec {fd}>&-
  unset "input[$1]"
}
says() { grep -qF -- "$2" "$1.out"; }

stop_daemon() {
  kill -TERM "$daemon"
  wait "$daemon" || fail "the daemon ended with status $?: $(cat daemon.log)"
  grep -q 'daemon.stopped' daemon.log || fail "the daemon did not give everything back"
}
