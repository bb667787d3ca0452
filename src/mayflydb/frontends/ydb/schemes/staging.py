"""Hidden tables without a path: a copy is filled as a hidden table and published when it is complete."""

from __future__ import annotations

import contextlib
from typing import Final

from mayflydb.engine.catalog import Definition, Node
from mayflydb.engine.engine import Engine
from mayflydb.model.errors import Conflict, NotFound
from mayflydb.model.instant import Instant

HIDDEN_SPACE: Final = "ydb copies"
"""The space of hidden tables."""


async def create_hidden_table(engine: Engine, definition: Definition, now: Instant) -> Node:
    """Create a hidden table."""
    space = await engine.definitions.space(HIDDEN_SPACE, now)
    # Names only have to differ. A copy that runs at the same time may take one first; then the next number is tried.
    count = len(await engine.children(space.id))
    while True:
        try:
            return await engine.definitions.create(space.id, str(count), definition)
        except Conflict:
            count += 1


async def drop_unfinished(engine: Engine) -> None:
    """Drop hidden tables of copies that a stop of the server has interrupted."""
    space = await engine.node(HIDDEN_SPACE)
    for node in [] if space is None else await engine.children(space.id):
        with contextlib.suppress(NotFound):
            await engine.definitions.drop(node.id)
