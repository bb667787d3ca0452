"""The server's log on stderr: lines for people on a terminal, JSON for programs otherwise."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import Literal, TextIO

import msgspec

from mayflydb.model.instant import MILLISECOND, Instant, to_rfc3339


class TextLines(logging.Formatter):
    """`2030-01-01T00:00:00.123Z warning engine.reaper: a sweep failed`."""

    def format(self, record: logging.LogRecord) -> str:
        return f"{_time(record)} {record.levelname.lower():<7} {_short(record.name)}: {self._message(record)}"

    def _message(self, record: logging.LogRecord) -> str:
        text = record.getMessage()
        return text if record.exc_info is None else f"{text}\n{self.formatException(record.exc_info)}"


class JsonLines(logging.Formatter):
    """One object per line: ts, level, logger, msg, error with its traceback, and `clock` while the clock is virtual."""

    def __init__(self, clock: Callable[[], Instant | None]) -> None:
        """`clock`: the virtual clock's present; None while time is real."""
        super().__init__()
        self._clock = clock

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, object] = {
            "ts": _time(record),
            "level": record.levelname.lower(),
            "logger": _short(record.name),
            "msg": record.getMessage(),
        }
        if record.exc_info is not None:
            entry["error"] = self.formatException(record.exc_info)
        if (moved := self._clock()) is not None:
            entry["clock"] = to_rfc3339(moved)
        return msgspec.json.encode(entry).decode()


def configure(
    form: Literal["auto", "text", "json"],
    level: str,
    clock: Callable[[], Instant | None],
    stream: TextIO | None = None,
) -> None:
    """Send all that the process logs, from `level` up, to `stream` (stderr)."""
    out = sys.stderr if stream is None else stream
    handler = logging.StreamHandler(out)
    text = form == "text" or (form == "auto" and out.isatty())
    handler.setFormatter(TextLines() if text else JsonLines(clock))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())


def _time(record: logging.LogRecord) -> str:
    # `created` is the host's time in seconds: a log that followed a virtual clock could not be matched with others.
    return to_rfc3339(int(record.created * 1000) * MILLISECOND)


def _short(name: str) -> str:
    return name.removeprefix("mayflydb.")
