# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Which files of the repository have which form.

# Files of the repository by pathspec, new ones included and deleted ones not.
files() {
  git ls-files --cached --others --exclude-standard -- "$@" | while read -r file; do
    [ -f "$file" ] && printf '%s\n' "$file"
  done
}

# The kernel modules have the kernel's own style.
cxx_files() { files '*.cc' '*.h' ':!tests/lab/vhca' ':!tests/lab/vhca5'; }

build_files() { files '*.bazel' '*.bzl' WORKSPACE; }

shell_files() {
  files | while read -r file; do
    case $file in
      *.sh) printf '%s\n' "$file" ;;
      *) head -n 1 "$file" | tr -d '\0' | grep -qE '^#!.*\b(ba|da)?sh\b' && printf '%s\n' "$file" ;;
    esac
  done
}
