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
    vhca = module.build_module(DIRECTORY / "vhca", stock, build)
    extra = [("/usr/lib/vhca.ko", vhca)] if vhca else []
    programs = module.build_programs(DIRECTORY / "progs", build)
    extra += [(f"/usr/local/bin/{program.name}", program) for program in programs]
    listed = payload.read_list(DIRECTORY / "payload.txt")
    extra += payload.build(_CHECKOUT, listed, build)
    if grpcurl := os.environ.get("QPBROKER_GRPCURL"):
        if not os.path.isfile(grpcurl):
            raise LabError(f"QPBROKER_GRPCURL names no file: {grpcurl}")
        extra.append(("/usr/bin/grpcurl", grpcurl))
    return extra
