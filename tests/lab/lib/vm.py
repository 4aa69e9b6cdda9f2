# SPDX-License-Identifier: Apache-2.0
"""The virtual machine: qemu by software emulation, and the talk with its agent.

Two serial ports: the kernel's messages go to the first and into a file, requests
and the output of cases through the second. So no case can disturb the kernel's log
and no kernel message lands in a case's output.
"""

import base64
import os
import secrets
import select
import subprocess
import time

from lib import tools
from lib.report import LabError

# A machine that shares two cores with others boots in ten seconds on a bad day.
_BOOT_SECONDS = 120
# The guest ends a case at its limit; a guest that cannot do even that has hung.
_GRACE_SECONDS = 30

_KERNEL_ARGUMENTS = (
    "console=ttyS0 panic=-1 mitigations=off random.trust_cpu=on "
    # A busy host may keep the guest from running for a while; that is no lockup.
    "watchdog_thresh=60 rcupdate.rcu_cpu_stall_timeout=120"
)


class Stopped(Exception):
    """The virtual machine is gone or does not answer."""


def _command(kernel, initramfs, arguments):
    return [
        tools.find("qemu-system-x86_64"),
        *("-M", "pc", "-cpu", "max", "-accel", "tcg,thread=multi", "-smp", "2"),
        *("-m", os.environ.get("QPBROKER_LAB_MEMORY", "1536M")),
        *("-display", "none", "-nodefaults", "-no-reboot"),
        *("-kernel", str(kernel.vmlinux), "-initrd", str(initramfs)),
        *("-append", f"{_KERNEL_ARGUMENTS} {arguments}"),
    ]


def interactive(kernel, initramfs):
    """Runs a machine with a shell on this terminal until it powers off."""
    command = _command(kernel, initramfs, "loglevel=4 LAB_MODE=shell TERM=linux")
    return subprocess.call([*command, "-serial", "mon:stdio"])


class Machine:
    """A running guest whose agent waits for requests. Use as a context manager."""

    def __init__(self, kernel, initramfs, log):
        """Boots; the kernel's messages go to the file log. Raises LabError if it fails."""
        self._nonce = secrets.token_hex(8)
        self._buffer = b""
        arguments = f"LAB_MODE=agent LAB_NONCE={self._nonce}"
        command = _command(kernel, initramfs, arguments)
        ports = ["-chardev", f"file,id=log,path={log}", "-serial", "chardev:log"]
        ports += ["-chardev", "stdio,id=agent,signal=off", "-serial", "chardev:agent"]
        self._qemu = subprocess.Popen(
            # However the runner ends, the machine does not outlive it.
            [tools.find("setpriv"), "--pdeathsig", "KILL", *command, *ports],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            # Ctrl-C reaches the runner alone, which then ends the machine.
            start_new_session=True,
        )
        said = []
        try:
            self._until_mark(_BOOT_SECONDS, said.append)
        except Stopped as error:
            self.kill()
            text = b"".join(said).decode(errors="replace").strip()
            raise LabError(f"the virtual machine did not boot: {error}\n{text}") from None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()

    def run_case(self, name, limit, on_output):
        """Runs a case; returns its exit status. Raises Stopped if the guest hangs."""
        return self._request(f"case {name} {limit}", limit, on_output)

    def run_shell(self, line, limit, on_output):
        """Runs a command line as run_case does a case."""
        encoded = base64.b64encode(line.encode()).decode()
        return self._request(f"shell {limit} {encoded}", limit, on_output)

    def kill(self):
        """Ends the machine at once: it has nothing to save."""
        if self._qemu.poll() is None:
            self._qemu.kill()
        self._qemu.wait()
        self._qemu.stdin.close()
        self._qemu.stdout.close()

    def _request(self, line, limit, on_output):
        try:
            self._qemu.stdin.write(f"{line}\n".encode())
            self._qemu.stdin.flush()
        except OSError as error:
            raise Stopped("it has ended") from error
        words = self._until_mark(limit + _GRACE_SECONDS, on_output)
        return int(words[1])

    def _until_mark(self, seconds, on_output):
        """Hands on all output up to the agent's next mark; returns the mark's words."""
        mark = f"\036{self._nonce} ".encode()
        deadline = time.monotonic() + seconds
        while True:
            output, found, rest = self._buffer.partition(mark)
            if found and b"\n" in rest:
                on_output(output)
                line, _, self._buffer = rest.partition(b"\n")
                return line.decode().split()
            if not found:
                # Its end may be the beginning of a mark.
                held = output.find(b"\036", max(0, len(output) - len(mark)))
                held = len(output) if held < 0 else held
                on_output(output[:held])
                self._buffer = output[held:]
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._qemu.stdout], [], [], left)[0]:
                raise Stopped(f"no answer for {seconds:.0f} s")
            data = os.read(self._qemu.stdout.fileno(), 65536)
            if not data:
                raise Stopped("it has ended")
            self._buffer += data
