#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 240
# The contract of daemon/verbs: the same table of cases that the fake device passes, on a real kernel.
# Then once more with a context of its own for each opened handle, as providers need that are not known
# to be safe.
# shellcheck source=tests/lab/cases/lib.sh
. "$LAB_CASES/lib.sh"
require_vhca

/usr/lib/qpbroker/contract_ibv --mlx4_numbers vhca0
/usr/lib/qpbroker/contract_ibv --mlx4_numbers --private_contexts vhca0
have_count qp 0 || fail 'a QP is left'
