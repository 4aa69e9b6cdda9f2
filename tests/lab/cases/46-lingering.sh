#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 120
# The domain is the trust boundary: a member who keeps the kernel's own handle of a QP keeps the QP, also
# without a lease. The books say so, charge the owner, and drop it when the handle goes.
# shellcheck source=tests/lab/cases/broker.sh
. "$LAB_CASES/broker.sh"
require_vhca
start_daemon
wait_for 20 has_device
demo_client alice alice --create --group 2000 watch
wait_for 20 says alice HOLDS
demo_client bob bob --owner 1001 keep
wait_for 20 says bob KEEPS
count_is 1 || fail 'bob gave his lease back'

close_input alice
lingers() { books | grep -q ' lingering$'; }
wait_for 10 lingers
[ "$(rdma resource show qp | grep -c XRC)" -ge 1 ] || fail 'the kernel should have it too'
kill -KILL "${client[bob]}"
wait_for 20 books_are_empty
[ -z "$(rdma resource show qp | grep XRC || true)" ] || fail 'the kernel still has it'
stop_daemon
