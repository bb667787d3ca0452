"""Changes of the scheme tree, as bodies of catalogue transactions.

All entries of a database are siblings in the catalogue, named by their paths (`shop/carts`). A directory has a node
too, and exists without one as long as an entry lies below it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from mayflydb.engine.catalog import ROOT, Definition, Node
from mayflydb.engine.catalog_changes import CatalogTransaction
from mayflydb.engine.reads import Steps
from mayflydb.frontends.ydb.schemes.entries import DirectoryBody, kind_of
from mayflydb.frontends.ydb.schemes.faults import SCHEME_CODE, exists, missing, wrong_kind
from mayflydb.frontends.ydb.schemes.paths import join, parents
from mayflydb.model.instant import Instant
from mayflydb.query.yql.faults import fault

SPACE: Final = "ydb"

Location: TypeAlias = tuple[str, str]
"""(database, name below it)"""


class Move(msgspec.Struct, frozen=True):
    """The new path of a table. `replace`: drop a table that has this path."""

    source: Location
    destination: Location
    replace: bool = False


def make(
    rows: CatalogTransaction,
    database: str,
    name: str,
    definition: Definition,
    now: Instant,
    replace: bool = False,
) -> Steps[Node]:
    """Create a table, view or directory, and its missing parent directories.

    `replace`: an existing entry of the same kind is dropped first; the new entry has another id. Faults: the name is
    taken, or a parent is no directory.
    """
    home = yield from ensure_database(rows, database, now)
    taken = yield from rows.find(home.id, name)
    if taken is None and kind_of(definition) != "directory" and (yield from _anything_below(rows, home, name)):
        raise exists(join(database, name))
    if taken is not None:
        if not replace or kind_of(taken) != kind_of(definition):
            raise exists(join(database, name))
        yield from rows.drop(taken.id)
    yield from _ensure_parents(rows, home, name, now)
    return (yield from rows.add(home.id, name, definition))


def drop_directory(rows: CatalogTransaction, database: str, name: str) -> Steps[None]:
    """Remove an empty directory. Faults: the entry does not exist, is no directory, or has children."""
    path = join(database, name)
    home = yield from _find_database(rows, database)
    node = None if home is None else (yield from rows.find(home.id, name))
    occupied = home is not None and (yield from _anything_below(rows, home, name))
    if node is None and not occupied:
        raise missing(path)
    if node is not None and kind_of(node) != "directory":
        raise wrong_kind(path, "directory")
    if occupied:
        text = f"Check failed: path: '{path}', error: path has children, request doesn't accept it"
        raise fault(text, status="PRECONDITION_FAILED", code=SCHEME_CODE)
    if node is not None:
        yield from rows.drop(node.id)


def change(
    rows: CatalogTransaction, id: int, database: str, name: str, update: Callable[[Node], dict[str, Any]]
) -> Steps[Node]:
    """Replace the body of an entry and keep the rest of its definition. Faults: the entry does not exist."""
    before = yield from _find_database(rows, database)
    if before is not None and name:
        before = yield from rows.find(before.id, name)
    if before is None or before.id != id:
        raise missing(join(database, name))
    definition = msgspec.structs.replace(before.definition, body=update(before))
    node = msgspec.structs.replace(before, definition=definition)
    rows.put(node)
    return node


def move(rows: CatalogTransaction, moves: Sequence[Move], now: Instant) -> Steps[tuple[int, ...]]:
    """Rename tables in order, all or none.

    Return the ids of the replaced tables. Faults as in `make`, or a table does not exist.
    """
    databases = [place[0] for each in moves for place in (each.source, each.destination)]
    homes, nodes = yield from _read_databases(rows, databases, now)
    replaced: list[int] = []
    for each in moves:
        source = _source(nodes, each)
        other = nodes.pop(each.destination, None)
        if other is not None:
            if not each.replace or kind_of(other) != "table":
                raise exists(join(*each.destination))
            replaced.append(other.id)
            yield from rows.drop(other.id)
        del nodes[each.source]
        database, name = each.destination
        node = msgspec.structs.replace(source, parent=homes[database].id, name=name)
        # The table gives up its old name first, since a directory above the new path may take that name.
        rows.put(node)
        yield from _ensure_parents(rows, homes[database], name, now, nodes)
        nodes[each.destination] = node
    return tuple(replaced)


def publish(rows: CatalogTransaction, copies: Sequence[tuple[int, str, str]], now: Instant) -> Steps[None]:
    """Give hidden nodes their paths, all or none. `copies`: (node, database, name) each. Faults as in `make`."""
    homes, nodes = yield from _read_databases(rows, [database for _, database, _ in copies], now)
    for id, database, name in copies:
        if (database, name) in nodes:
            raise exists(join(database, name))
        yield from _ensure_parents(rows, homes[database], name, now, nodes)
        copy = yield from rows.load(id)
        if copy is None:
            raise missing(str(id))
        node = msgspec.structs.replace(copy, parent=homes[database].id, name=name)
        nodes[database, name] = node
        rows.put(node)


def ensure_database(rows: CatalogTransaction, name: str, now: Instant) -> Steps[Node]:
    """Return the node of a database, created if missing."""
    space = yield from rows.find(ROOT, SPACE)
    home = None if space is None else (yield from rows.find(space.id, name))
    if home is not None:
        return home
    if space is None:
        space = yield from rows.add(ROOT, SPACE, Definition({}, now))
    return (yield from rows.add(space.id, name, _directory(now)))


def _find_database(rows: CatalogTransaction, name: str) -> Steps[Node | None]:
    space = yield from rows.find(ROOT, SPACE)
    return None if space is None else (yield from rows.find(space.id, name))


def _read_databases(
    rows: CatalogTransaction, databases: Sequence[str], now: Instant
) -> Steps[tuple[dict[str, Node], dict[Location, Node]]]:
    """Return the nodes of databases, created if missing, and all nodes below them."""
    homes: dict[str, Node] = {}
    nodes: dict[Location, Node] = {}
    for database in dict.fromkeys(databases):
        home = homes[database] = yield from ensure_database(rows, database, now)
        for node in (yield from rows.children(home.id)):
            nodes[database, node.name] = node
    return homes, nodes


def _source(nodes: dict[Location, Node], move: Move) -> Node:
    node = nodes.get(move.source)
    if node is None:
        raise missing(join(*move.source))
    if kind_of(node) != "table":
        raise wrong_kind(join(*move.source), "table")
    return node


def _anything_below(rows: CatalogTransaction, home: Node, name: str) -> Steps[bool]:
    nodes = yield from rows.children(home.id)
    return any(node.name.startswith(f"{name}/") for node in nodes)


def _ensure_parents(
    rows: CatalogTransaction, home: Node, name: str, now: Instant, known: dict[Location, Node] | None = None
) -> Steps[None]:
    """Create the missing directories above a name.

    `known`: all nodes, changes of this transaction included; None: they are read.
    """
    for above in parents(name):
        node = (yield from rows.find(home.id, above)) if known is None else known.get((home.name, above))
        if node is None:
            made = yield from rows.add(home.id, above, _directory(now))
            if known is not None:
                known[home.name, above] = made
        elif kind_of(node) != "directory":
            raise wrong_kind(join(home.name, above), "directory")


def _directory(now: Instant) -> Definition:
    return Definition(msgspec.to_builtins(DirectoryBody(created=now)), now)
