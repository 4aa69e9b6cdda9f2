# SPDX-License-Identifier: Apache-2.0
"""Puts the guest together: what run and shell have in common."""

import contextlib
import os
import pathlib
import tempfile

from lib import cache, initramfs, kernel, module, payload, tools
from lib.report import LabError, step

DIRECTORY = pathlib.Path(__file__).resolve().parent.parent
CASES = DIRECTORY / "cases"
_MODULES = ("vhca", "vhca5")
_CHECKOUT = DIRECTORY.parent.parent


@contextlib.contextmanager
def prepared(build=True):
    """Fetches and builds what is missing; yields the kernel and a packed initramfs.

    The initramfs and all else of this one run go away at the end.
    """
    tools.check()
    with tempfile.TemporaryDirectory(prefix="qpbroker-lab-") as work:
        image = pathlib.Path(work) / "initramfs"
        with cache.locked():
            stock = kernel.ensure()
            extra = _extra(stock, build)
            with step("packing the guest"):
                initramfs.write(image, stock, DIRECTORY, extra)
        yield stock, image


def _extra(stock, build):
    """Pairs of guest path and host file: all that does not come from the system."""
    modules = [module.build_module(DIRECTORY / name, stock, build) for name in _MODULES]
    extra = [(f"/usr/lib/{built.name}", built) for built in modules if built]
    programs = module.build_programs(DIRECTORY / "progs", build)
    extra += [(f"/usr/local/bin/{program.name}", program) for program in programs]
    listed = payload.read_list(DIRECTORY / "payload.txt")
    extra += payload.build(_CHECKOUT, listed, build)
    if grpcurl := os.environ.get("QPBROKER_GRPCURL"):
        if not os.path.isfile(grpcurl):
            raise LabError(f"QPBROKER_GRPCURL names no file: {grpcurl}")
        extra.append(("/usr/bin/grpcurl", grpcurl))
    return extra
