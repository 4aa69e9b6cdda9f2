#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 120
# A QP that goes fatal is told to its holders, by the lease.
# shellcheck source=tests/lab/cases/broker.sh
. "$LAB_CASES/broker.sh"
require_vhca
start_daemon
wait_for 20 has_device
demo_client alice alice --create --group 2000 watch
wait_for 20 says alice HOLDS
demo_client bob bob --owner 1001 watch
wait_for 20 says bob HOLDS

number=$(sed -n 's/^HOLDS .*qps\/\(0x[0-9a-f]*\)$/\1/p' alice.out)
echo "$((number))" >/sys/kernel/debug/vhca/vhca0/qp_fatal
wait_for 10 says alice "QP_ERROR $number"
wait_for 10 says bob "QP_ERROR $number"
close_input alice
close_input bob
wait_for 10 books_are_empty
stop_daemon
