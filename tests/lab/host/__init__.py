# SPDX-License-Identifier: Apache-2.0
"""The lab's host side: builds a guest, boots it, reads the verdicts."""
