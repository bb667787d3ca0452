"""What a logger is given, whether or not the log propagates."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


class _Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


@contextmanager
def logged(name: str) -> Iterator[list[str]]:
    """The messages of a logger, as they come."""
    handler = _Lines()
    logger = logging.getLogger(name)
    logger.addHandler(handler)
    try:
        yield handler.texts
    finally:
        logger.removeHandler(handler)
