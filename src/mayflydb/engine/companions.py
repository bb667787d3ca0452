"""Rows that belong to a node without lying below it: users and their permissions, which listings of containers must not
contain.

They form a tree of their own: space (`shop users`) > home, named by the id of the owning node > row > row. Dropping the
owner, or a node above the owner, drops the home.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeAlias

import msgspec

from mayflydb.engine.catalog import NAME_TAKEN, NODE_MISSING, OWNER_MISSING, ROOT, Definition, Node, node_of, row_of
from mayflydb.model.errors import Conflict, NotFound, OwnerNotFound
from mayflydb.model.instant import Instant
from mayflydb.store.interface import ChildRows, Decision, DropRow, FindRow, LoadRow, NewId, Outcome, PutRow, Store, ask

DefinitionMaker: TypeAlias = Callable[[Node | None], Definition]
"""Makes the definition of a row from its current node (None: the row is new); raises to refuse."""

Clash: TypeAlias = Callable[[Node], bool]
"""Returns whether another row below the same parent conflicts with this one, apart from its name."""


def home_of(space: str, owner: int) -> tuple[str, str]:
    """Return the path of names to the companions of a node."""
    return space, str(owner)


class Companions:
    """Changes of companion rows, each decided in the transaction that makes it."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def home(self, space: str, owner: int, now: Instant) -> Node:
        """Return the root of a node's companions, created if it is missing. OwnerNotFound if the node is gone."""

        def decide() -> Decision[Node]:
            yield from _check_parent(owner)
            changes: list[PutRow] = []
            node = Node(ROOT, ROOT, "", Definition({}, now))
            for name in home_of(space, owner):
                row = yield from ask(FindRow(node.id, name))
                if row is not None:
                    node = node_of(row)
                else:
                    node = Node((yield from ask(NewId())), node.id, name, Definition({}, now))
                    changes.append(PutRow(row_of(node)))
            return Outcome(tuple(changes), node)

        return (await self._store.write(decide)).reply

    async def create(
        self, parent: int, name: str, make_definition: DefinitionMaker, clash: Clash | None = None
    ) -> Node:
        """Create a row. Conflict if it clashes or its name is taken, OwnerNotFound if the parent is gone."""

        def decide() -> Decision[Node]:
            yield from _check_parent(parent)
            if (yield from ask(FindRow(parent, name))) is not None:
                raise Conflict(NAME_TAKEN)
            node = yield from _new(parent, name, make_definition)
            yield from _check_clash(node, clash)
            return Outcome((PutRow(row_of(node)),), node)

        return (await self._store.write(decide)).reply

    async def upsert(
        self, parent: int, name: str, make_definition: DefinitionMaker, now: Instant, clash: Clash | None = None
    ) -> tuple[Node, bool]:
        """Create or replace a row; return it and whether it is new. Errors as in `create`, except that the name may be taken."""

        def decide() -> Decision[tuple[Node, bool]]:
            yield from _check_parent(parent)
            row = yield from ask(FindRow(parent, name))
            if row is None:
                node = yield from _new(parent, name, make_definition)
            else:
                before = node_of(row)
                node = _redefine(before, name, make_definition(before), now)
            yield from _check_clash(node, clash)
            return Outcome((PutRow(row_of(node)),), (node, row is None))

        return (await self._store.write(decide)).reply

    async def replace(
        self,
        id: int,
        name: str,
        make_definition: DefinitionMaker,
        now: Instant,
        clash: Clash | None = None,
        needs: str | None = None,
    ) -> Node:
        """Change the definition, and possibly the name. NotFound if the row is gone, Conflict as in `create`.

        `needs`: the name of a row below the same parent. OwnerNotFound if there is no such row.
        """

        def decide() -> Decision[Node]:
            row = yield from ask(LoadRow(id))
            if row is None:
                raise NotFound(NODE_MISSING)
            other = yield from ask(FindRow(row.parent, name))
            if other is not None and other.id != id:
                raise Conflict(NAME_TAKEN)
            if needs is not None and (yield from ask(FindRow(row.parent, needs))) is None:
                raise OwnerNotFound(OWNER_MISSING)
            before = node_of(row)
            node = _redefine(before, name, make_definition(before), now)
            yield from _check_clash(node, clash)
            return Outcome((PutRow(row_of(node)),), node)

        return (await self._store.write(decide)).reply

    async def drop(self, parent: int, name: str) -> bool:
        """Remove a row by its name. False if there was none."""

        def decide() -> Decision[bool]:
            row = yield from ask(FindRow(parent, name))
            return Outcome(() if row is None else (DropRow(row.id),), row is not None)

        return (await self._store.write(decide)).reply

    async def redefine_each(
        self, marker: Node, names: Sequence[str], redefine: Callable[[Node], Definition | None], now: Instant
    ) -> bool:
        """Change rows beside a marker, in one transaction. False if the marker is gone, and nothing was changed.

        `names`: of the rows; those that are gone are left out. `redefine` returns the new definition of a row; None: the row
        stays as it is. The caller bounds the number of names.
        """

        def decide() -> Decision[bool]:
            row = yield from ask(LoadRow(marker.id))
            if row is None:
                return Outcome((), False)
            changes: list[PutRow] = []
            for name in names:
                found = yield from ask(FindRow(row.parent, name))
                after = None if found is None else redefine(node_of(found))
                if found is not None and after is not None:
                    changes.append(PutRow(row_of(_redefine(node_of(found), name, after, now))))
            return Outcome(tuple(changes), True)

        return (await self._store.write(decide)).reply


def _check_parent(id: int) -> Generator[Any, Any, None]:
    if (yield from ask(LoadRow(id))) is None:
        raise OwnerNotFound(OWNER_MISSING)


def _check_clash(node: Node, clash: Clash | None) -> Generator[Any, Any, None]:
    if clash is None:
        return
    rows = yield from ask(ChildRows(node.parent))
    if any(clash(node_of(row)) for row in rows if row.id != node.id):
        raise Conflict(NAME_TAKEN)


def _new(parent: int, name: str, make_definition: DefinitionMaker) -> Generator[Any, Any, Node]:
    id = yield from ask(NewId())
    return Node(id, parent, name, make_definition(None))


def _redefine(before: Node, name: str, definition: Definition, now: Instant) -> Node:
    after = msgspec.structs.replace(definition, written=now, version=before.definition.version + 1)
    return msgspec.structs.replace(before, name=name, definition=after)
