#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ibv_import_device: whoever has a copy of a context's descriptor has the context, under any uid. So the
# daemon never gives its own away. libmlx4 cannot import.
# shellcheck source=tests/lab/cases/lib.sh
. "$LAB_CASES/lib.sh"
# shellcheck source=tests/lab/cases/mlx5.sh
. "$LAB_CASES/mlx5.sh"
require_vhca

import_device "$device"
expect_fail import_device vhca0 2>import.err
grep -q 'ibv_import_device: Operation not supported' import.err || fail "$(cat import.err)"
have_count qp 0 || fail 'a QP is left'
