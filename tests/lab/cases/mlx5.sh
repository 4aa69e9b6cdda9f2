# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# For cases on the device that libmlx5 serves; to be sourced after lib.sh or broker.sh. It is loaded
# by these cases alone, and run-case unloads it.
# shellcheck disable=SC2034 # For the cases.
device=vhca5_0
insmod /lib/vhca5.ko
