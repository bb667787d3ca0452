"""Changes of several catalogue rows in one decision: all of them are committed, or none."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from mayflydb.engine.catalog import ROOT, Definition, Node, Nodes, is_of_companions, row_of
from mayflydb.engine.lifecycle.left_versions import leave_versions
from mayflydb.engine.reads import Steps
from mayflydb.model.errors import Held
from mayflydb.model.hints import Hint
from mayflydb.model.instant import Instant
from mayflydb.store.interface import Allocate, Change, ChildRows, DropRow, FindRow, LoadRow, NewId, PutRow, ask


class CatalogTransaction:
    """Reads and changes of catalogue rows. Reads see committed rows without the changes of this transaction."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self.changes: list[Change] = []

    def find(self, parent: int, name: str) -> Steps[Node | None]:
        """Find the node with this name below a parent."""
        row = yield from ask(FindRow(parent, name))
        return None if row is None else self._nodes.of(row)

    def load(self, id: int) -> Steps[Node | None]:
        """Find the node with this id."""
        row = yield from ask(LoadRow(id))
        return None if row is None else self._nodes.of(row)

    def children(self, parent: int) -> Steps[list[Node]]:
        """Return the nodes below a parent, by id."""
        rows = yield from ask(ChildRows(parent))
        return [self._nodes.of(row) for row in rows]

    def add(self, parent: int, name: str, definition: Definition) -> Steps[Node]:
        """Insert a new node."""
        id = yield from ask(NewId())
        node = Node(id, parent, name, definition)
        self.put(node)
        return node

    def next_number(self, id: int) -> Steps[int]:
        """Return a number that no write of a node got before: later ones get greater numbers."""
        number, _ = yield from ask(Allocate(id, seq=False))
        return number

    def put(self, node: Node) -> None:
        """Replace a node by its id. Changes apply in order, so a name is released before another node takes it."""
        self.changes.append(PutRow(row_of(node)))

    def drop(self, id: int) -> Steps[None]:
        """Remove a node, all nodes below it, and their companions. Held if one of them is under a hold."""
        gone = yield from below(id)
        yield from check_not_held(self._nodes, gone)
        self.changes += (yield from drop_rows(self._nodes, gone))[1]


def drop_rows(nodes: Nodes, gone: Sequence[int]) -> Steps[tuple[list[int], list[Change]]]:
    """Return the ids of rows that are dropped together with their companions, and the changes.

    Expired versions that wait for an archive stay.
    """
    left = yield from leave_versions(nodes, gone)
    stay = {change.row.id for change in left}
    ids = [*gone, *[id for id in (yield from companions_of(gone)) if id not in stay]]
    # Children come before their parents, so that no row is ever without the row above it.
    return ids, [*map(DropRow, ids), *left]


def open_container(path: Sequence[str], now: Instant, changes: list[Change]) -> Generator[Any, Any, int]:
    """Return the node at a path of names. `changes`: gets the rows that are missing."""
    parent = ROOT
    for name in path:
        row = None if changes else (yield from ask(FindRow(parent, name)))
        if row is None:
            node = Node((yield from ask(NewId())), parent, name, Definition({}, now))
            changes.append(PutRow(row_of(node)))
            parent = node.id
        else:
            parent = row.id
    return parent


def check_not_held(nodes: Nodes, gone: Sequence[int]) -> Generator[Any, Any, None]:
    """Raise Held if one of these nodes, which are to be dropped, is under a hold or still has what one preserved."""
    for id in gone:
        row = yield from ask(LoadRow(id))
        if row is not None and (holds := nodes.of(row).definition.holds):
            raise refuse_removal(row.name, holds[0].name)


def refuse_removal(what: str, hold: str) -> Held:
    """Return the refusal of removing what a hold keeps."""
    return Held(
        f"{what} is under the legal hold {hold}, which has to be released first",
        hint=Hint("under-hold", {"name": hold}),
    )


def below(id: int) -> Generator[Any, Any, list[int]]:
    """Return the ids of all nodes below a row, then the row's own."""
    found: list[int] = []
    for child in (yield from ask(ChildRows(id))):
        found += yield from below(child.id)
    return [*found, id]


def companions_of(owners: Sequence[int]) -> Generator[Any, Any, list[int]]:
    """Return the companions of nodes: rows named for them in spaces of companions, and all rows below."""
    found: list[int] = []
    for space in (yield from ask(ChildRows(ROOT))):
        if not is_of_companions(space.name):
            continue
        for owner in owners:
            home = yield from ask(FindRow(space.id, str(owner)))
            if home is not None:
                found += yield from below(home.id)
    return found
