"""Small pieces, so that little data makes many of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from mayflydb.moving import copy, source

Run = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture
def run() -> Iterator[Run]:
    """On one event loop from first to last."""
    with asyncio.Runner() as runner:
        yield runner.run


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "PIECE_RECORDS", 4)
    monkeypatch.setattr(copy, "ROWS_PER_COMMIT", 3)
