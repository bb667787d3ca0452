"""The stores that wire tests run on, and which of them were chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import pytest

import citus

STORES = ("memory", "file", "postgres", "citus")
ELSEWHERE = ("postgres", "citus")
"""Stores outside of the process, which the store suite leaves out too unless they were chosen."""

PARAMETERS = ("session_service", "store", "databases", "outcomes", "session_world", "mongo_server", "ydb_server")
"""The fixtures whose parameter is one of STORES, or ends with one of ELSEWHERE."""


class Databases(Protocol):
    """Where databases are to be had."""

    def fresh(self) -> str:
        """The URL of a new, empty one."""
        ...


def databases(store: str, request: pytest.FixtureRequest) -> Databases:
    """Of `postgres`, or of `citus`."""
    found: Databases = request.getfixturevalue("citus_cluster" if store == "citus" else store)
    return found


def everything() -> str:
    """All stores there are."""
    return ",".join(store for store in STORES if store != "citus" or citus.named())


def chosen(text: str) -> tuple[str, ...]:
    """From `memory,file`; UsageError for a word that is none of STORES, or for a Citus that is not there."""
    words = tuple(word.strip() for word in text.split(","))
    if unknown := [word for word in words if word not in STORES]:
        raise pytest.UsageError(f"--stores: {unknown[0]!r} is none of {', '.join(STORES)}")
    if "citus" in words and not citus.named():
        raise pytest.UsageError(f"--stores: for citus, {citus.URL} has to name one")
    return words


def split(items: Sequence[pytest.Item], stores: Sequence[str]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """The tests on these stores and those on none, and the others."""
    on: list[pytest.Item] = []
    off: list[pytest.Item] = []
    for item in items:
        call = getattr(item, "callspec", None)
        named = [] if call is None else [str(call.params[name]) for name in PARAMETERS if name in call.params]
        (on if all(_is_on(name, stores) for name in named) else off).append(item)
    return on, off


def first(items: Sequence[pytest.Item]) -> None:
    """Leave to `make soak` what need not be shown on every store each time.

    The wire tests run on memory, with both clients; on the others, those marked `everywhere` do, with the synchronous one. Of
    tests of every store, those marked `above_stores` run on memory alone.
    The store suite runs on PostgreSQL within its contract only, and the client for JavaScript not at all.
    """
    for item in items:
        call = getattr(item, "callspec", None)
        if call is not None and _is_again(item, call.params):
            item.add_marker(pytest.mark.soak)


def _is_again(item: pytest.Item, params: Mapping[str, object]) -> bool:
    if params.get("session_service", "memory") != "memory":
        return "aio" in (params.get("flavour"), params.get("client")) or item.get_closest_marker("everywhere") is None
    if params.get("ydb_server", "memory") != "memory":
        return item.get_closest_marker("everywhere") is None
    if params.get("session_world", "memory") != "memory" and item.get_closest_marker("above_stores") is not None:
        return True
    if params.get("store") == "postgres":
        return item.path.parent.name == "store_suite"
    return params.get("outcomes") in ELSEWHERE


def _is_on(name: str, stores: Sequence[str]) -> bool:
    kind = name.rpartition("-")[2]
    return kind in stores or (name not in STORES and kind not in ELSEWHERE)


def place(store: str, request: pytest.FixtureRequest, directory: Path) -> dict[str, Any]:
    """The keywords of `serve` for a new, empty store: memory over plain HTTP, a file over HTTPS, a database of its own."""
    if store == "memory":
        return {"memory": True}
    if store == "file":
        return {"path": directory / "mayfly.db", "scheme": "https"}
    return {
        "storage": databases(store, request).fresh(),
        "allow_time_travel": True,
    }
