# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# What deploy/quickstart's parts share: headings with the time, counting of results, Bazel.

cache=${XDG_CACHE_HOME:-$HOME/.cache}

# Says what comes next, and how long it has been.
heading() { printf '\n== [%4d s] %s\n' "$SECONDS" "$*"; }

die() {
  printf 'quickstart: %s\n' "$*" >&2
  exit 1
}

passed=0
failed=0

# Adds a closing line "N passed, N failed" to the count; a stage without one has failed.
count_closing_line() {
  local stage=$1 output=$2 line
  line=$(grep -E '^[0-9]+ passed, [0-9]+ failed' "$output" | tail -n 1)
  if [ -z "$line" ]; then
    printf 'FAIL %s (it ended without saying what it did)\n' "$stage"
    failed=$((failed + 1))
    return 1
  fi
  passed=$((passed + $(cut -d' ' -f1 <<<"$line")))
  failed=$((failed + $(cut -d' ' -f3 <<<"$line")))
}

# Runs a stage and notes its seconds.
stage_times=()
run_stage() {
  local name=$1 begin=$SECONDS
  shift
  heading "$name"
  "$@"
  local status=$?
  stage_times+=("$(printf '%5d s  %s' $((SECONDS - begin)) "$name")")
  return $status
}

print_stage_times() {
  printf '\nseconds of each stage:\n'
  printf '%s\n' "${stage_times[@]}"
}

# Bazel's own display on a terminal; elsewhere a line now and then, so that a long build is seen to live.
bazel_display() {
  [ -t 1 ] || printf '%s\n' --color=no --curses=no --show_progress_rate_limit=20
}

# Bazel with the options that a person may add by QPBROKER_BAZEL_STARTUP and QPBROKER_BAZEL_FLAGS.
# The disk cache makes a second clone, or a second configuration, quick; the lab and the benchmarks, which
# call Bazel themselves, get it by the same variable.
export QPBROKER_BAZEL_FLAGS="--disk_cache=$cache/qpbroker-bazel ${QPBROKER_BAZEL_FLAGS:-}"
bazel_run() {
  local command=$1
  shift
  # shellcheck disable=SC2046,SC2086 # Lists of words.
  bazel ${QPBROKER_BAZEL_STARTUP:-} "$command" $(bazel_display) $QPBROKER_BAZEL_FLAGS "$@"
}

bazel_info() {
  # shellcheck disable=SC2086 # A list of words.
  bazel ${QPBROKER_BAZEL_STARTUP:-} info "$@" 2>/dev/null
}
