#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# One user's XRC target QP, opened by another user's process, which alone receives through
# it once its creator was killed.
# shellcheck source=tests/lab/cases/lib.sh
. "$LAB_CASES/lib.sh"
require_vhca
command -v two_uid_xrc >/dev/null || skip 'tests/lab/progs has no two_uid_xrc.c'

two_uid_xrc
have_count qp 0 || fail 'a QP is left'
