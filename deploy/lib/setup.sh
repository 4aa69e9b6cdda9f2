# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages of a list (deploy/packages.txt, deploy/packages-lint.txt) that are missing.
: "${root:?set by deploy/quickstart}"

# The packages of the lists that are neither installed nor made unnecessary by a command.
missing_packages() {
  local package command installed
  installed=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' | sed -n 's/^installed //p')
  cat "$@" | while read -r package command; do
    case $package in '' | '#'*) continue ;; esac
    [ -n "$command" ] && command -v "$command" >/dev/null && continue
    grep -qxF "$package" <<<"$installed" || printf '%s\n' "$package"
  done
}

# apt-get's output is long and of no interest, unless it fails.
run_apt() {
  local log status
  log=$(mktemp)
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o Dpkg::Use-Pty=0 "$@" 2>&1 |
    tee "$log" |
    awk '/^(Unpacking|Setting up)/ && ++steps % 50 == 0 { print "  ... " $0; fflush() }'
  status=${PIPESTATUS[0]}
  [ "$status" -eq 0 ] || tail -n 30 "$log" >&2
  rm -f "$log"
  return "$status"
}

# Takes the lists as arguments. A no-op where nothing is missing.
setup() {
  local missing as_root=()
  command -v dpkg-query >/dev/null || die 'this needs Debian 12 or 13, or what is made of them'
  mapfile -t missing < <(missing_packages "$@")
  [ "${#missing[@]}" -eq 0 ] && return 0
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null ||
      die "as root, first: apt-get install --no-install-recommends ${missing[*]}"
    as_root=(sudo)
  fi
  heading "installing ${#missing[@]} Debian packages, and what they need: ${missing[*]}"
  run_apt update -q || die 'apt-get update failed'
  run_apt install -y -q --no-install-recommends "${missing[@]}" || die 'apt-get install failed'
}
