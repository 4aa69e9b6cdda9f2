# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# What the cases of the broker share, on top of lib.sh.
# shellcheck source=tests/lab/cases/lib.sh
. "$LAB_CASES/lib.sh"

bin=/usr/lib/qpbroker
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
has_device() { grep -q 'device.added: vhca0' daemon.log; }

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

# demo_client NAME USER ARGUMENT...: a client of the demo.
demo_client() {
  local name=$1 user=$2
  shift 2
  in_background "$name" "$user" "$bin/xrc_demo" --runtime-dir "$run" --device vhca0 "$@"
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
