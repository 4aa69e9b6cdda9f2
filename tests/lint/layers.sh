# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# The layers: proto -> common -> verbs, core -> session, rpc, telemetry -> runtime -> main, and the
# client on proto and common only. Knowledge flows one way.

system_lib() { printf '@system_libs//:%s' "$1"; }
grpc=$(system_lib grpcxx)
ibverbs=$(system_lib ibverbs)

# What must not depend on what: "targets | what | why". Tests may look further than what they test.
forbidden_dependencies() {
  cat <<END_OF_RULES
//daemon/core/... | $grpc + $ibverbs + $(system_lib spdlog) + $(system_lib libudev) | the core is pure
//daemon/core:broker | //daemon/session/... + //daemon/rpc/... + //daemon/runtime/... + //daemon/telemetry/... | the core knows nobody above it
//daemon/core:broker | //daemon/verbs:ibv_verbs + //daemon/verbs:fake_verbs | the core knows the interface only
//daemon/verbs:ibv_verbs + //daemon/verbs:fake_verbs | //daemon/core/... | verbs are below the core
kind(cc_library, //common/...) | //daemon/... + //client/... | common is below all
kind(cc_library, //daemon/session/...) | //daemon/rpc/... + //daemon/runtime/... + $ibverbs | neighbours do not know each other
kind(cc_library, //daemon/session/...) | $grpc | gRPC is daemon/rpc's business
kind(cc_library, //daemon/rpc/...) | //daemon/session/... + //daemon/runtime/... + $ibverbs | neighbours do not know each other
kind(cc_library, //daemon/telemetry/...) | //daemon/session/... + //daemon/rpc/... + //daemon/runtime/... + $grpc | telemetry knows nobody
//daemon/keeper:qpbroker-keeper | //common/... + //proto/... + //daemon/core/... | the keeper stands on libc alone
kind(cc_library, //daemon/... except //daemon/keeper/...) | //daemon/keeper:store | the daemon knows the keeper's protocol only
//client | //daemon/... + $ibverbs | the client knows proto and common
//client:verbs_util | //daemon/... | the client knows proto and common
//daemon:qpbrokerd | //client/... | the daemon does not contain its client
END_OF_RULES
}

bazel_query() {
  # shellcheck disable=SC2086 # A list of words.
  bazel ${QPBROKER_BAZEL_STARTUP:-} query --noshow_progress --color=no "$1" 2>"${query_errors:-/dev/null}"
}

check_dependencies() {
  local result=0 rules=0 query_errors targets what why found
  query_errors=$(mktemp)
  while IFS='|' read -r targets what why; do
    if ! found=$(bazel_query "deps($targets) intersect ($what)"); then
      cat "$query_errors"
      result=1
    elif [ -n "$found" ]; then
      printf '%s must not depend on %s (%s)\n' "$targets" "$found" "$why"
      result=1
    fi
    rules=$((rules + 1))
  done < <(forbidden_dependencies)
  printf '%d rules\n' "$rules"
  rm -f "$query_errors"
  return $result
}

# Only these may include a header of libibverbs: besides the daemon's own file those that use a grant.
includes_verbs='^(daemon/verbs/ibv_[a-z_]+\.(cc|h)|client/include/qpbroker/verbs_util\.h|client/src/verbs_util_test\.cc|(tests/(contract|lab|bench|support)|deploy/demo)/.*)$'

check_includes() {
  local result=0 found
  found=$(git grep --untracked -lE '^ *# *include *<infiniband/' -- '*.cc' '*.h' | grep -vE "$includes_verbs")
  if [ -n "$found" ]; then
    printf 'libibverbs is included outside of daemon/verbs/ibv_*: %s\n' "$found"
    result=1
  fi
  found=$(git grep --untracked -nE '^ *# *include.*(grpc|google/protobuf|absl/|\.pb\.h)' -- client/include)
  if [ -n "$found" ]; then
    printf "the client's public headers name the transport: %s\n" "$found"
    result=1
  fi
  return $result
}
