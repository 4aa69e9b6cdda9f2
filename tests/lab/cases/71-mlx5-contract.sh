#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 120
# The contract of daemon/verbs on libmlx5, whose opened handles must never be destroyed or reset by it.
# shellcheck source=tests/lab/cases/lib.sh
. "$LAB_CASES/lib.sh"
# shellcheck source=tests/lab/cases/mlx5.sh
. "$LAB_CASES/mlx5.sh"

/usr/lib/qpbroker/contract_ibv "$device"
have_count ctx 0 || fail 'a context is left'
