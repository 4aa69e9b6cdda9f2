#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
# A client under its own uid is killed before and behind each system call of its job. After each death
# neither the books nor the kernel have anything left.
# shellcheck source=tests/lab/cases/broker.sh
. "$LAB_CASES/broker.sh"
require_vhca
start_daemon
wait_for 20 has_device

crash_sweep 20
stop_daemon
