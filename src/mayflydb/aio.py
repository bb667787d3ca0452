"""The embedded API for event loops: `async with mayflydb.aio.open(":memory:", clock="virtual") as db: ...`."""

from __future__ import annotations

from mayflydb.embedded.containers import AsyncContainer as Container
from mayflydb.embedded.containers import AsyncCosmosDatabase as CosmosDatabase
from mayflydb.embedded.databases import AsyncDatabase as Database
from mayflydb.embedded.databases import open_async as open  # noqa: A004 - the name that `mayflydb.open` has

__all__ = ["Container", "CosmosDatabase", "Database", "open"]
