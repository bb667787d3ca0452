"""Programs on a terminal of their own, as people see them."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from io import StringIO
from pathlib import Path

import pytest

STYLE = re.compile(r"\x1b\[[0-9;]*m")


def on_terminal(
    command: Sequence[str],
    environment: Mapping[str, str],
    directory: Path,
    typed: str = "",
    columns: int = 80,
    patience: float = 120.0,
) -> tuple[int, str]:
    """(exit code, all that was shown, without bold and colours). `typed` stands in the keyboard's buffer from the start."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    told = {"TERM": "xterm", "NO_COLOR": "1"}
    hidden = {name: value for name, value in environment.items() if name not in ("COLUMNS", "LINES")}
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=directory, env=hidden | told, start_new_session=True
    )
    os.close(theirs)
    shown: list[bytes] = []
    reader = threading.Thread(target=_drain, args=(ours, shown))
    reader.start()
    try:
        os.write(ours, typed.encode())
        code = process.wait(patience)
    finally:
        process.kill()
        process.wait()
        reader.join()
        os.close(ours)
    return code, STYLE.sub("", b"".join(shown).decode()).replace("\r\n", "\n")


def _drain(terminal: int, into: list[bytes]) -> None:
    # Linux tells the end of a terminal by an error.
    with suppress(OSError):
        while part := os.read(terminal, 65536):
            into.append(part)


class Screen(StringIO):
    """A stream that is a terminal. `seen` is set when a text with `awaited` was written."""

    def __init__(self, awaited: str, *, is_terminal: bool = True) -> None:
        super().__init__()
        self.is_terminal, self.awaited, self.seen = is_terminal, awaited, threading.Event()

    def isatty(self) -> bool:
        return self.is_terminal

    def write(self, text: str) -> int:
        count = super().write(text)
        if self.awaited in text:
            self.seen.set()
        return count


def on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make commands that run in process take their stderr for a terminal, and stdout for a pipe."""
    monkeypatch.setattr(
        "click.testing._NamedTextIOWrapper.isatty", lambda stream: stream.name == "<stderr>", raising=False
    )
