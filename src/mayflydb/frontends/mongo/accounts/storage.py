"""Where users and roles are stored: rows of the catalogue beside the space of the databases, named `<db>.<name>`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mayflydb.engine.catalog import Definition, Node
from mayflydb.engine.engine import Engine
from mayflydb.model.instant import Instant

SPACE = "mongo"


class Shelf:
    """The rows of one kind. `companions`: the name of their space."""

    def __init__(self, engine: Engine, companions: str) -> None:
        self._engine = engine
        self._companions = companions

    async def home_path(self) -> tuple[str, str] | None:
        """The names above the rows; None: nothing was ever stored."""
        space = await self._engine.node(SPACE)
        return None if space is None else (self._companions, str(space.id))

    async def find(self, key: str) -> Node | None:
        """Find a row."""
        home = await self.home_path()
        return None if home is None else await self._engine.node(*home, key)

    async def list_all(self) -> list[Node]:
        """All rows."""
        home = await self.home_path()
        root = None if home is None else await self._engine.node(*home)
        return [] if root is None else await self._engine.children(root.id)

    async def create(self, key: str, body: Mapping[str, Any], now: Instant) -> None:
        """Create a row. Raise Conflict if there is one of this name."""
        space = await self._engine.definitions.space(SPACE, now)
        home = await self._engine.companions.home(self._companions, space.id, now)
        await self._engine.companions.create(home.id, key, lambda _: Definition(dict(body), now))

    async def replace(self, node: Node, body: Mapping[str, Any], now: Instant) -> None:
        """Replace the content of a row."""
        await self._engine.companions.replace(node.id, node.name, lambda _: Definition(dict(body), now), now)

    async def drop(self, node: Node) -> bool:
        """Drop a row. Return False if it is gone."""
        return bool(await self._engine.companions.drop(node.parent, node.name))
