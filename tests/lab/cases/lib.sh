# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# What the cases share. A case begins with:
#
#   . "$LAB_CASES/lib.sh"
#
# It runs as root in an empty directory $LAB_WORK, and any command that fails ends it.
# Processes that it leaves are killed when it ends (guest/run-case).
set -Eeuo pipefail
trap 'echo "failed: line $LINENO: $BASH_COMMAND" >&2' ERR

# Ends the case as failed.
fail() {
  echo "FAILED: $*" >&2
  exit 1
}

# Ends the case as one that cannot run here.
skip() {
  echo "$*"
  exit 77
}

# as_user NAME COMMAND...: exec'ed with that user's ids and groups and no capability, as
# after a login; never a mere fork of root, which would keep what root had opened.
as_user() { (exec_as "$@"); }

# exec_as NAME COMMAND...: the same in place of the calling shell, for the background:
# after `exec_as alice cat &`, $! is cat itself; after `as_user alice cat &` it is a shell
# that waits for cat, and killing it leaves cat alive.
exec_as() {
  local name=$1 home
  shift
  home=$(home_of "$name")
  exec env -i PATH="$PATH" HOME="$home" USER="$name" LAB_CASES="$LAB_CASES" LAB_WORK="$LAB_WORK" \
    setpriv --reuid="$name" --regid="$(id -g "$name")" --init-groups \
    --inh-caps=-all --bounding-set=-all --no-new-privs -- "$@"
}

home_of() { awk -F: -v name="$1" '$1 == name { print $6 }' /etc/passwd; }

# wait_for SECONDS COMMAND...: until the command succeeds; fails after the seconds.
wait_for() {
  local end=$((SECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    if [ "$SECONDS" -gt "$end" ]; then
      echo "did not come true in time: $*" >&2
      return 1
    fi
    sleep 0.05
  done
}

# expect_fail COMMAND...: succeeds if the command exits with a status of its own making
# other than 0; one that is killed by a signal has not refused anything.
expect_fail() {
  local status=0
  "$@" || status=$?
  [ $status -ne 0 ] || fail "should have failed: $*"
  [ $status -lt 126 ] || fail "died or could not be run ($status): $*"
}

# rdma_count qp|cq|mr|pd|srq|ctx: how many the kernel itself has, on all devices.
rdma_count() {
  rdma resource show | awk -v kind="$1" '
    { for (i = 1; i < NF; i++) if ($i == kind) sum += $(i + 1) }
    END { print sum + 0 }'
}

have_count() { [ "$(rdma_count "$1")" -eq "$2" ]; }

# A server listens on a TCP port of the loopback interface.
listening() { grep -qE "^ *[0-9]+: [0-9A-F]+:$(printf %04X "$1") [0-9A-F]+:0000 0A" /proc/net/tcp /proc/net/tcp6; }

require_vhca() { [ -d /sys/class/infiniband/vhca0 ] || fail 'there is no device vhca0'; }

# pingpong USER1 USER2 PROGRAM ARGUMENT...: one of rdma-core's pingpongs, the server as the
# first user and its client as the second.
pingpong() {
  local first=$1 second=$2
  shift 2
  exec_as "$first" "$@" >server.out 2>&1 &
  local server=$!
  if wait_for 10 listening 18515 && as_user "$second" "$@" localhost >client.out 2>&1 &&
    wait "$server"; then
    tail -n 1 client.out
    return
  fi
  cat server.out client.out
  fail "$* failed"
}

# reload_vhca PARAMETER...: another virtual HCA for this case; the next one has the usual again.
reload_vhca() {
  touch /run/vhca-reloaded
  rmmod vhca
  insmod /lib/vhca.ko "$@"
  wait_for 5 ibv_devinfo -d vhca0
}
