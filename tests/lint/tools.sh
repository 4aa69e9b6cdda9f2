# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Tools that Debian does not have: npm packages that carry the binary, in a cache folder.

# Exit status of a check that could not be made.
# shellcheck disable=SC2034 # Used by tests/lint/run.
SKIPPED=77

buf_package='@bufbuild/buf@1.75.0'
buildifier_package='@bazel/buildifier@8.2.1'

# Prints the path of `buf` or `buildifier`, which it installs if need be. On failure the reason.
npm_tool() {
  local name=$1 package=${1}_package folder tool
  package=${!package}
  # Named by the version, so that a new pin is installed anew.
  folder="${XDG_CACHE_HOME:-$HOME/.cache}/qpbroker/npm/$(tr '/' '_' <<<"$package")"
  tool="$folder/node_modules/.bin/$name"
  if [ ! -x "$tool" ]; then
    if ! command -v npm >/dev/null; then
      printf '%s: there is no npm to install it with\n' "$name" >&2
      return 1
    fi
    npm install --prefix "$folder" --no-save --no-audit --no-fund --ignore-scripts --silent \
      "$package" >&2
  fi
  if ! "$tool" --version >/dev/null 2>&1; then
    printf '%s: npm could not install %s, or it does not run here\n' "$name" "$package" >&2
    return 1
  fi
  printf '%s\n' "$tool"
}
