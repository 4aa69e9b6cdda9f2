# SPDX-License-Identifier: Apache-2.0
"""Errors that end the program with a message instead of a traceback."""


class LabError(Exception):
    """The lab could not be built or started; exit status 1."""


class MissingTools(LabError):
    """The host lacks programs; exit status 2."""
