# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# The test command: unit and integration tests plain, under the sanitizers, and the lab.
: "${root:?set by deploy/quickstart}"

# Counts Bazel's verdicts, one for each target.
bazel_test() {
  local name=$1 output
  shift
  output=$(mktemp)
  bazel_run test --test_summary=short "$@" 2>&1 | tee "$output" | grep -vE '^(INFO|Loading|Analyzing)'
  local status=${PIPESTATUS[0]}
  local good bad
  good=$(grep -cE '^//.* PASSED in' "$output")
  bad=$(grep -cE '^//.* (FAILED|TIMEOUT|NO STATUS|FAILED TO BUILD|FLAKY)' "$output")
  # Bazel can also fail without naming a test: a build error.
  [ "$status" -ne 0 ] && [ "$bad" -eq 0 ] && bad=1
  printf '%s: %d targets passed, %d failed\n' "$name" "$good" "$bad"
  passed=$((passed + good))
  failed=$((failed + bad))
  rm -f "$output"
}

lab_test() {
  local output
  output=$(mktemp)
  "$root/tests/lab/run" 2>&1 | tee "$output"
  count_closing_line lab "$output"
  rm -f "$output"
}

lint_test() {
  local output
  output=$(mktemp)
  "$root/tests/lint/run" 2>&1 | tee "$output"
  count_closing_line lint "$output"
  rm -f "$output"
}

run_tests() {
  run_stage 'build' bazel_run build //...
  run_stage 'unit and integration tests' bazel_test plain //...
  run_stage 'address and undefined-behaviour sanitizers' bazel_test asan --config=asan //...
  run_stage 'thread sanitizer' bazel_test tsan --config=tsan --test_tag_filters=threads //...
  run_stage 'checks of form' lint_test
  run_stage 'lab' lab_test
  print_stage_times
  printf '%d passed, %d failed\n' "$passed" "$failed"
  [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
}
