# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# The test command: unit and integration tests plain and under the sanitizers, form, and the lab.
: "${root:?set by deploy/quickstart}"

# Runs `bazel test` and counts the cases of its targets.
bazel_test() {
  local name=$1 output counts status good bad skipped
  shift
  output=$(mktemp)
  bazel_run test --test_summary=short "$@" 2>&1 | tee "$output" |
    grep --line-buffered -vE '^(INFO|Loading|Analyzing|DEBUG)|^//.* PASSED in '
  status=${PIPESTATUS[0]}
  counts=$("$root/deploy/lib/count_cases.py" "$output" "$(bazel_info bazel-testlogs)")
  rm -f "$output"
  sed '$d' <<<"$counts"
  read -r good bad skipped < <(tail -n 1 <<<"$counts")
  # Bazel can also fail without naming a test, and pass without having run one.
  if { [ "$status" -ne 0 ] && [ "${bad:-0}" -eq 0 ]; } || [ "${good:-0}" -eq 0 ]; then
    printf 'FAIL %s (bazel ended with %d)\n' "$name" "$status"
    bad=$((${bad:-0} + 1))
  fi
  printf '%s: %d cases passed, %d failed, %d skipped\n' "$name" "${good:-0}" "$bad" "${skipped:-0}"
  passed=$((passed + ${good:-0}))
  failed=$((failed + bad))
}

# Runs a program that closes with "N passed, N failed".
counted_program() {
  local name=$1 output
  shift
  output=$(mktemp)
  "$@" 2>&1 | tee "$output"
  count_closing_line "$name" "$output"
  rm -f "$output"
}

test_stages=(unit asan tsan lint lab)

run_test_stage() {
  case $1 in
    unit) run_stage 'unit and integration tests' bazel_test unit //... ;;
    # Under sanitizers only what tests need: nobody starts the rest.
    asan)
      run_stage 'address and undefined-behaviour sanitizers' \
        bazel_test asan --config=asan --build_tests_only //...
      ;;
    tsan)
      run_stage 'thread sanitizer' \
        bazel_test tsan --config=tsan --build_tests_only //...
      ;;
    lint) run_stage 'form' counted_program lint "$root/tests/lint/run" ;;
    lab) run_stage 'lab' counted_program lab "$root/tests/lab/run" ;;
  esac
}

# Options: --STAGE for only that one (and others so named), --no-STAGE for all but that one.
choose_test_stages() {
  local stage only=() without=' '
  for option; do
    stage=${option#--}
    stage=${stage#no-}
    [[ $option == --* && " ${test_stages[*]} " == *" $stage "* ]] || {
      usage >&2
      exit 2
    }
    case $option in
      --no-*) without+="$stage " ;;
      *) only+=("$stage") ;;
    esac
  done
  chosen_stages=()
  for stage in "${test_stages[@]}"; do
    [[ ${#only[@]} -eq 0 || " ${only[*]} " == *" $stage "* ]] || continue
    [[ $without == *" $stage "* ]] || chosen_stages+=("$stage")
  done
}

run_tests() {
  local stage
  choose_test_stages "$@"
  for stage in "${chosen_stages[@]}"; do run_test_stage "$stage"; done
  print_stage_times
  printf '%d passed, %d failed\n' "$passed" "$failed"
  [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
}
