"""The last lines of the process's log, for the command getLog. They are kept from the first use of the front end on."""

from __future__ import annotations

import json
import logging
from collections import deque
from datetime import UTC, datetime
from typing import Final

MAX_LINES: Final = 1024
MAX_TEXT: Final = 2000
"""The most characters of a message that are kept."""

_SEVERITIES: Final = {"CRITICAL": "F", "ERROR": "E", "WARNING": "W", "INFO": "I", "DEBUG": "D1"}


class RecentLines(logging.Handler):
    """Keeps the last lines in the form of MongoDB's log. `total`: how many there were."""

    def __init__(self) -> None:
        super().__init__()
        self.total = 0
        self._lines: deque[tuple[float, str, str, str]] = deque(maxlen=MAX_LINES)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line."""
        self.total += 1
        severity = _SEVERITIES.get(record.levelname, "I")
        self._lines.append((record.created, severity, record.name, record.getMessage()[:MAX_TEXT]))

    def read(self) -> list[str]:
        """The lines, the oldest first."""
        return [_format(*each) for each in self._lines]


def _format(created: float, severity: str, name: str, message: str) -> str:
    date = datetime.fromtimestamp(created, UTC).isoformat(timespec="milliseconds")
    line = {"t": {"$date": date}, "s": severity, "c": "-", "ctx": name, "msg": message}
    return json.dumps(line, separators=(",", ":"), ensure_ascii=False)


lines: Final = RecentLines()


def keep() -> None:
    """Keep lines from now on."""
    logger = logging.getLogger("mayflydb")
    if lines not in logger.handlers:
        logger.addHandler(lines)
