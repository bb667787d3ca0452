"""The server's log on stderr: lines for people on a terminal, JSON for programs otherwise."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable, Iterable
from typing import Final, Literal, TextIO
from urllib.parse import quote

import msgspec

from mayflydb.model.instant import MILLISECOND, Instant, to_rfc3339

LEAST_SECRET: Final = 8
"""The least number of characters of a secret that is searched for."""

_CREDENTIALS: Final = re.compile(
    r"""((?:bearer\s+|(?<![a-z])sig(?:=|%3d))(?=\S)|\bpassword\s+\\?['"]|\bpwd\\?["']?:\s*\\?['"])(?:\\+.|[^\s'"\\])+"""
    r"""|\beyJ[\w-]+\.[\w-]+\.[\w-]+""",
    re.IGNORECASE,
)
"""A bearer token, a signature of Cosmos DB, a password in YQL or in a command of MongoDB, a JSON Web Token."""


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


class WithoutSecrets(logging.Formatter):
    """Lines of another formatter without the server's secrets, and without texts that look like a token, signature or password.

    No message of the server has one. The texts of exceptions are not known in advance.
    """

    def __init__(self, lines: logging.Formatter, secrets: Callable[[], Iterable[str]]) -> None:
        """`secrets`: those that are known by now."""
        super().__init__()
        self._lines = lines
        self._secrets = secrets

    def format(self, record: logging.LogRecord) -> str:
        text = _CREDENTIALS.sub(r"\1...", self._lines.format(record))
        for secret in self._secrets():
            # A short or common word would be removed from other words too.
            if len(secret) >= LEAST_SECRET:
                for form in (secret, quote(secret, safe=""), msgspec.json.encode(secret).decode()[1:-1]):
                    text = text.replace(form, "...")
        return text


def configure(
    form: Literal["auto", "text", "json"],
    level: str,
    clock: Callable[[], Instant | None],
    stream: TextIO | None = None,
    secrets: Callable[[], Iterable[str]] = tuple,
) -> None:
    """Send all that the process logs, from `level` up, to `stream` (stderr), without `secrets`."""
    out = sys.stderr if stream is None else stream
    handler = logging.StreamHandler(out)
    text = form == "text" or (form == "auto" and out.isatty())
    handler.setFormatter(WithoutSecrets(TextLines() if text else JsonLines(clock), secrets))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())


def _time(record: logging.LogRecord) -> str:
    # `created` is the host's time in seconds: a log that followed a virtual clock could not be matched with others.
    return to_rfc3339(int(record.created * 1000) * MILLISECOND)


def _short(name: str) -> str:
    return name.removeprefix("mayflydb.")
