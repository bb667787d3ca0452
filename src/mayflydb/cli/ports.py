"""Finds the process that listens on a port of this machine."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

_LISTENING = "0A"
_PROC = Path("/proc")


def owner_of(port: int, proc: Path = _PROC) -> str | None:
    """Return `process 1234 (node)`; None if there is none, if it belongs to another user, or on systems without /proc.

    The table of sockets (proc_pid_net(5)) gives the inode of the socket, and the process has a descriptor of that inode.
    """
    wanted = {f"socket:[{inode}]" for inode in _inodes(port, proc)}
    if not wanted:
        return None
    for process in _processes(proc):
        # A process may end meanwhile, and those of other users cannot be read.
        with contextlib.suppress(OSError):
            if any(_target(descriptor) in wanted for descriptor in (process / "fd").iterdir()):
                return f"process {process.name} ({(process / 'comm').read_text(encoding='utf-8').strip()})"
    return None


def _inodes(port: int, proc: Path) -> Iterator[str]:
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            # Fields: slot, local address (hexadecimal, ADDRESS:PORT), remote address, state, ..., the inode is the tenth.
            for line in (proc / "net" / table).read_text(encoding="ascii").splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                    yield fields[9]


def _processes(proc: Path) -> Iterator[Path]:
    return (entry for entry in proc.iterdir() if entry.name.isdigit())


def _target(descriptor: Path) -> str:
    try:
        return os.readlink(descriptor)  # noqa: PTH115 - the target is a word, not a path
    except OSError:
        return ""
