# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Finds grpcurl, or builds a version of it that works over Unix sockets (1.9.2 and 1.9.3 do not).
#
#   . deploy/lib/grpcurl.sh
#   grpcurl=$(find_grpcurl) || echo "without grpcurl then"
#   "$grpcurl" -plaintext -unix -authority localhost /run/qpbroker/api.sock list

readonly grpcurl_version=v1.9.1
# Of Go, minor version: what grpcurl's go.mod asks for. Debian 12's own is older.
readonly grpcurl_least_go=21

# The Go on the path, or where its own archive installs it.
find_go() {
  command -v go || command -v /usr/local/go/bin/go
}

is_go_new_enough() {
  local version
  version=$("$1" env GOVERSION 2>/dev/null) || return 1
  [[ $version =~ ^go1\.([0-9]+) ]] && [ "${BASH_REMATCH[1]}" -ge "$grpcurl_least_go" ]
}

# Prints the path of a grpcurl. Where none can be had, the reason on standard error, and 1.
find_grpcurl() {
  local bin=${XDG_CACHE_HOME:-$HOME/.cache}/qpbroker/grpcurl-$grpcurl_version go
  if [ ! -x "$bin/grpcurl" ]; then
    go=$(find_go) || {
      printf 'grpcurl: there is no Go to build it with\n' >&2
      return 1
    }
    is_go_new_enough "$go" || {
      printf 'grpcurl: building it needs Go 1.%d or newer\n' "$grpcurl_least_go" >&2
      return 1
    }
    printf 'grpcurl: building %s ...\n' "$grpcurl_version" >&2
    CGO_ENABLED=0 GOBIN=$bin GOFLAGS=-mod=mod "$go" install \
      "github.com/fullstorydev/grpcurl/cmd/grpcurl@$grpcurl_version" >&2 || {
      printf 'grpcurl: it could not be built\n' >&2
      return 1
    }
  fi
  printf '%s\n' "$bin/grpcurl"
}
