"""Versions that a dropped container leaves behind, until its archive has them.

Their container keeps the catalogue row of the dropped one, without which its records could not be read, and its names.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mayflydb.engine.catalog import ROOT, Node, Nodes, row_of
from mayflydb.engine.lifecycle.archive_ledger import count_waiting
from mayflydb.engine.reads import Steps
from mayflydb.store.interface import CatalogRow, LoadRow, PutRow, ask

_MEMBER = "left"


class Left(msgspec.Struct, frozen=True):
    """The catalogue row of a dropped container, and its names from the protocol's on."""

    owner: CatalogRow
    path: tuple[str, ...]


def read_left(home: Node) -> Left | None:
    """Return what a container of versions keeps of its owner; None: the owner is there."""
    kept = home.body.get(_MEMBER)
    return None if kept is None else msgspec.convert(kept, Left)


def leave_versions(nodes: Nodes, gone: Sequence[int]) -> Steps[list[PutRow]]:
    """Return the changes by which the versions of containers that are dropped wait on for their archives."""
    changes: list[PutRow] = []
    for id in gone:
        row = yield from ask(LoadRow(id))
        definition = None if row is None else nodes.of(row).definition
        if row is None or definition is None or definition.retired is None or definition.ledger is None:
            continue
        if not (yield from count_waiting(definition.ledger, definition.retired)):
            continue
        home = yield from ask(LoadRow(definition.retired))
        if home is not None:
            left = Left(row, (yield from _path(row)))
            node = nodes.of(home)
            body = {**node.body, _MEMBER: msgspec.to_builtins(left)}
            kept = msgspec.structs.replace(node, definition=msgspec.structs.replace(node.definition, body=body))
            changes.append(PutRow(row_of(kept)))
    return changes


def _path(row: CatalogRow) -> Steps[tuple[str, ...]]:
    names, parent = [row.name], row.parent
    while parent != ROOT and (above := (yield from ask(LoadRow(parent)))) is not None:
        names.append(above.name)
        parent = above.parent
    return tuple(reversed(names))
