"""A worker that may write nowhere but in its own directories and has no network, where the kernel offers it.

Landlock limits what is written, a system-call filter takes sockets away; both need no rights, hold for all that the
worker starts, and cannot be lifted again. What may be read is not limited.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from mindgap.errors import UsageError

LEAST_ABI: Final = 3
"""Of Landlock (Linux 6.2): the first that also limits cutting files off."""

DEVICES: Final = (
    "null", "zero", "full", "random", "urandom", "tty",
    "nvidia*", "dri", "kfd", "accel*", "davinci*", "devmm_svm", "hisi_hdc", "hl*",
)  # fmt: skip
"""Below /dev: what everybody may write to, and accelerators."""

_WRITE_FILE: Final = 1 << 1
_TRUNCATE: Final = 1 << 14
_WRITES: Final = (
    _WRITE_FILE
    | sum(1 << bit for bit in range(4, 14))  # remove, make and move files and directories of every kind
    | _TRUNCATE
)
_SCOPES: Final = 0b11
"""Signals and abstract sockets stay among isolated processes; since version 6."""

_CREATE_RULESET: Final = 444
_ADD_RULE: Final = 445
_RESTRICT_SELF: Final = 446
_NO_NEW_PRIVILEGES: Final = 38
_SET_SECCOMP: Final = 22

_SYSTEM_CALLS: Final = {
    "x86_64": (0xC000003E, (41, 425, 101, 310, 311)),
    "aarch64": (0xC00000B7, (198, 425, 117, 270, 271)),
}
"""By machine: its number for filters; socket, io_uring_setup, ptrace, process_vm_readv and process_vm_writev."""


def why_not() -> str:
    """Why this system cannot isolate a worker; empty when it can."""
    if sys.platform != "linux":
        return "it needs Linux"
    if platform.machine() not in _SYSTEM_CALLS:
        return f"no system-call filter is known for {platform.machine()}"
    found = _abi()
    if found < LEAST_ABI:
        return f"the kernel has version {found} of Landlock, and {LEAST_ABI} is needed" if found else "no Landlock"
    return ""


def require() -> None:
    """Raise when workers cannot be isolated here."""
    reason = why_not()
    if reason:
        raise UsageError(
            "this system cannot isolate workers", cause=reason, hint="leave --isolate out, or use a container"
        )


def isolate(writable: Sequence[str]) -> None:
    """From now on this process writes only below these directories and opens no socket."""
    require()
    if _library().prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "cannot give up new privileges")
    _limit_writes(writable)
    _take_sockets()


def _limit_writes(writable: Sequence[str]) -> None:
    scopes = _SCOPES if _abi() >= 6 else 0
    ruleset = _system_call(_CREATE_RULESET, struct.pack("=QQQ", _WRITES, 0, scopes), 24 if scopes else 8, 0)
    devices = [path for pattern in DEVICES for path in Path("/dev").glob(pattern)]
    for path in (*map(Path, writable), *devices):
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        allowed = _WRITES if path.is_dir() else _WRITE_FILE | _TRUNCATE
        _system_call(_ADD_RULE, ruleset, 1, struct.pack("=Qi", allowed, descriptor), 0)
        os.close(descriptor)
    _system_call(_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def _take_sockets() -> None:
    """Refuse calls that open sockets or reach into other processes, and any foreign calling convention."""
    machine, refused = _SYSTEM_CALLS[platform.machine()]
    load, equal, at_least, give = 0x20, 0x15, 0x35, 0x06
    refuse, allow = 0x00050000 | 13, 0x7FFF0000  # EACCES
    count = len(refused)
    steps = [
        (load, 0, 0, 4),
        (equal, 0, count + 3, machine),
        (load, 0, 0, 0),
        (at_least, count + 1, 0, 0x40000000),  # the other calling convention of x86-64
        *((equal, count - place, 0, number) for place, number in enumerate(refused)),
        (give, 0, 0, allow),
        (give, 0, 0, refuse),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
    program = struct.pack("@HP", len(steps), ctypes.addressof(code))
    if _library().prctl(_SET_SECCOMP, 2, program, 0, 0):
        raise OSError(ctypes.get_errno(), "cannot set the system-call filter")


def _abi() -> int:
    """The version of Landlock; 0 when there is none."""
    return max(0, int(_library().syscall(_CREATE_RULESET, None, 0, 1)))


def _library() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _system_call(number: int, *arguments: object) -> int:
    found = int(_library().syscall(number, *arguments))
    if found < 0:
        raise OSError(ctypes.get_errno(), f"system call {number}: {os.strerror(ctypes.get_errno())}")
    return found
