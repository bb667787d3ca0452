"""The stores that wire tests run on, and which of them were chosen."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

STORES = ("memory", "file", "postgres")

PARAMETER = "session_service"
"""The fixture whose parameter is one of STORES."""


def chosen(text: str) -> tuple[str, ...]:
    """From `memory,file`; UsageError for a word that is none of STORES."""
    words = tuple(word.strip() for word in text.split(","))
    if unknown := [word for word in words if word not in STORES]:
        raise pytest.UsageError(f"--stores: {unknown[0]!r} is none of {', '.join(STORES)}")
    return words


def split(items: Sequence[pytest.Item], stores: Sequence[str]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """The tests on these stores and those on none, and the others."""
    on: list[pytest.Item] = []
    off: list[pytest.Item] = []
    for item in items:
        call = getattr(item, "callspec", None)
        store = None if call is None else call.params.get(PARAMETER)
        (on if store is None or store in stores else off).append(item)
    return on, off


def place(store: str, request: pytest.FixtureRequest, directory: Path) -> dict[str, Any]:
    """The keywords of `serve` for a new, empty store: memory over plain HTTP, a file over HTTPS, a database of its own."""
    if store == "memory":
        return {"memory": True}
    if store == "file":
        return {"path": directory / "mayfly.db", "scheme": "https"}
    return {"storage": request.getfixturevalue("postgres").fresh(), "allow_time_travel": True}
