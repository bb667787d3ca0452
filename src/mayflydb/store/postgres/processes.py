"""The process of a node, named so that another node of the same host can tell that it has ended."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACE: Final = Path("/proc/self/ns/pid")


def own_process() -> str | None:
    """Name this process: `boot id:namespace of process ids:process id:start in ticks`. None where the system does not say."""
    with suppress(OSError):
        pid = os.getpid()
        started = _start(pid)
        return None if started is None else f"{_place()}:{pid}:{started}"
    return None


def has_ended(process: str) -> bool:
    """True if the named process has certainly ended. False for one of another host or container."""
    place, _, rest = process.rpartition(":")[0].rpartition(":")
    started = process.rpartition(":")[2]
    with suppress(OSError, ValueError):
        return place == _place() and _start(int(rest)) != started
    return False


def _place() -> str:
    # Process ids mean something within one boot of one host, and within one namespace.
    return f"{_BOOT.read_text(encoding='ascii').strip()}:{_NAMESPACE.stat().st_ino}"


def _start(pid: int) -> str | None:
    """When the process started; None if there is no such process, or only what its parent has not yet collected."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except FileNotFoundError:
        return None
    # https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html: after the name in parentheses, state is field 3, start field 22.
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else fields[19]
