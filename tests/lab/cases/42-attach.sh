#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The nonce of a session works once, for the user whose session it is, while the session lasts.
# shellcheck source=tests/lab/cases/broker.sh
. "$LAB_CASES/broker.sh"
start_daemon

greet() {
  in_background "$1" "$2" "$bin/session_probe" "$run" greet
  wait_for 10 test -s "$1.out"
}
attach() {
  local user=$1
  shift
  as_user "$user" "$bin/session_probe" "$run" attach "$@" | paste -sd ' '
}
expect() {
  echo "$1: $3"
  [ "$2" = "$3" ] || fail "$1: expected $2, got $3"
}

greet first alice
nonce=$(cat first.out)
expect 'another user' BAD_NONCE "$(attach mallory "$nonce")"
expect 'root' BAD_NONCE "$("$bin/session_probe" "$run" attach "$nonce")"
expect 'a wrong one' BAD_NONCE "$(attach alice 00112233445566778899aabbccddeeff)"
expect 'the right one, and then another session on the same connection' 'OK ALREADY_ATTACHED' \
  "$(attach alice "$nonce" "$nonce")"
expect 'one used before' BAD_NONCE "$(attach alice "$nonce")"

greet second alice
nonce=$(cat second.out)
kill -KILL "${client[second]}"
wait "${client[second]}" || true
# The daemon sees the end of the session before it sees the next connection.
expect 'a session whose process is gone' BAD_NONCE "$(attach alice "$nonce")"
expect 'descriptors without a session' NOT_ATTACHED \
  "$(as_user alice "$bin/session_probe" "$run" open vhca0)"
stop_daemon
