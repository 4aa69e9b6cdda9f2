#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
# The crash sweep on libmlx5.
# shellcheck source=tests/lab/cases/broker.sh
. "$LAB_CASES/broker.sh"
# shellcheck source=tests/lab/cases/mlx5.sh
. "$LAB_CASES/mlx5.sh"
start_daemon
wait_for 20 has_device
crash_sweep 20
stop_daemon
