#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
# What `deploy/quickstart demo` shows: real messages between several uids through one shared QP, kills,
# and books that agree with the kernel's.
exec /usr/lib/qpbroker/show ibverbs /usr/lib/qpbroker
