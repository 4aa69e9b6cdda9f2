# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages of deploy/packages.txt that are missing.
: "${root:?set by deploy/quickstart}"

missing_packages() {
  grep -vE '^(#|$)' "$root/deploy/packages.txt" | while read -r package; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' ||
      printf '%s\n' "$package"
  done
}

setup() {
  local missing as_root=()
  mapfile -t missing < <(missing_packages)
  [ "${#missing[@]}" -eq 0 ] && return 0
  command -v apt-get >/dev/null || die "this needs Debian 12 or 13 (no apt-get); missing: ${missing[*]}"
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || die "run 'apt-get install ${missing[*]}' as root first"
    as_root=(sudo)
  fi
  heading "installing ${#missing[@]} Debian packages"
  "${as_root[@]}" apt-get update -qq || die "apt-get update failed"
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null ||
    die "apt-get install failed"
}
