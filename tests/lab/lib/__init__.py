# SPDX-License-Identifier: Apache-2.0
"""The host side of the lab: one module for each job, standard library only."""
