"""Writes the access log: a line for each request, to stderr or a file, on a thread of its own."""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from mayflydb.engine.access_log import AccessLine, AccessLog
from mayflydb.model.instant import MILLISECOND, to_rfc3339

log = logging.getLogger(__name__)

WRITE_SECONDS: Final = 0.1
"""The interval of writes. A thread that was woken by each request would take the interpreter from the event loop."""

BATCH: Final = 500
"""Lines that are written at once."""

Place = Literal["text", "json"] | Path
"""The form of lines on stderr, or a file of JSON Lines."""


class AccessFile:
    """A file that lines are appended to. A file that was renamed or removed is opened anew, so that programs may rotate it."""

    def __init__(self, path: Path) -> None:
        """Open or create the file for its owner alone: addresses of clients are personal data. Errors: OSError."""
        self._path = path
        self._descriptor = self._open()

    def _open(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def write(self, text: str) -> None:
        """Append lines. Errors: OSError; some of them may be there then."""
        if not self._is_in_place():
            descriptor = self._open()
            os.close(self._descriptor)
            self._descriptor = descriptor
        rest = memoryview(text.encode())
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]

    def _is_in_place(self) -> bool:
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return False
        return os.path.samestat(found, os.fstat(self._descriptor))

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


class AccessWriter:
    """Writes what an access log holds, until it is closed."""

    def __init__(self, accesses: AccessLog, place: Place) -> None:
        """Errors: OSError, if the file cannot be opened."""
        self._accesses = accesses
        self._file = AccessFile(place) if isinstance(place, Path) else None
        self._format: Callable[[AccessLine], str] = text_line if place == "text" else json_line
        self._fails = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mayfly-access-log", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Write what is left, and end. Waits for the disk."""
        self._ended.set()
        self._thread.join()
        if self._file is not None:
            self._file.close()

    def _run(self) -> None:
        while not self._ended.wait(WRITE_SECONDS):
            self._write_waiting()
        self._write_waiting()

    def _write_waiting(self) -> None:
        while batch := self._accesses.take(BATCH):
            text = "".join(f"{self._format(each)}\n" for each in batch)
            try:
                if self._file is None:
                    sys.stderr.write(text)
                    sys.stderr.flush()
                else:
                    self._file.write(text)
            except (OSError, ValueError) as error:
                # ValueError: stderr is closed.
                self._accesses.dropped += len(batch)
                if not self._fails:
                    log.warning("the access log cannot be written, requests are dropped from it: %s", error)
                self._fails = True
            else:
                self._fails = False


def json_line(access: AccessLine) -> str:
    """Return a request as an object of JSON, with the keys that other lines of the log have."""
    return msgspec.json.encode({"ts": _time(access), "level": "info", "logger": "access", **_members(access)}).decode()


def text_line(access: AccessLine) -> str:
    """Return a request as `2030-01-01T00:00:00.123Z info    access: protocol=mongo operation=find target=app.otps ...`."""
    return f"{_time(access)} info    access: {show_members(_members(access))}"


def show_members(members: Mapping[str, Any]) -> str:
    """Return members as `name=value`, the value in quotes where a client's text could be taken for another member or line."""
    return " ".join(f"{name}={_quote(value)}" for name, value in members.items())


def _quote(value: object) -> str:
    text = str(value)
    is_plain = text.isascii() and text.isprintable() and text and not set(text) & set(' "=\\')
    return text if is_plain else json.dumps(text)


def _members(access: AccessLine) -> dict[str, str | int | float]:
    operation = access.operation if isinstance(access.operation, str) else "/".join(access.operation)
    members: dict[str, str | int | float | None] = {
        "protocol": access.protocol,
        "activity_id": _encodable(access.id) or None,
        "operation": operation,
        "target": _encodable(access.target) or None,
        "status": access.status,
        "ru": None if access.charge is None else round(access.charge, 2),
        "duration_ms": access.took / MILLISECOND,
        "client": access.client or None,
    }
    return {name: value for name, value in members.items() if value is not None}


def _encodable(text: str) -> str:
    """Return a client's text with escapes for halves of characters, which UTF-8 does not have."""
    return text.encode("utf-8", "backslashreplace").decode()


def _time(access: AccessLine) -> str:
    return to_rfc3339(access.ended // MILLISECOND * MILLISECOND)
