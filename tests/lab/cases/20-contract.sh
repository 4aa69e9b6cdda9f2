#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 120
# The contract of daemon/verbs: the same table of cases that the fake device passes, on a real kernel.
# shellcheck source=tests/lab/cases/lib.sh
. "$LAB_CASES/lib.sh"
require_vhca

/usr/lib/qpbroker/contract_ibv vhca0
have_count qp 0 || fail 'a QP is left'
