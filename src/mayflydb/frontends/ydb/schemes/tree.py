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
from mayflydb.frontends.ydb.schemes.faults import SCHEME_CODE, missing_path, path_conflict, wrong_kind
from mayflydb.frontends.ydb.schemes.paths import join_path, parents
from mayflydb.model.instant import Instant
from mayflydb.query.yql.faults import fault

SPACE: Final = "ydb"

Location: TypeAlias = tuple[str, str]
"""(database, name below it)"""


class TableMove(msgspec.Struct, frozen=True):
    """The new path of a table. `replace`: drop a table that has this path."""

    source: Location
    destination: Location
    replace: bool = False


def create_entry(
    catalog: CatalogTransaction,
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
    database_node = yield from ensure_database(catalog, database, now)
    taken = yield from catalog.find(database_node.id, name)
    if (
        taken is None
        # A directory without a node of its own takes its path as well.
        and kind_of(definition) != "directory"
        and (yield from _has_entries_below(catalog, database_node, name))
    ):
        raise path_conflict(join_path(database, name))
    if taken is not None:
        if not replace or kind_of(taken) != kind_of(definition):
            raise path_conflict(join_path(database, name))
        yield from drop_entry(catalog, taken)
    yield from _ensure_parents(catalog, database_node, name, now)
    return (yield from catalog.add(database_node.id, name, definition))


def drop_entry(catalog: CatalogTransaction, node: Node) -> Steps[None]:
    """Remove an entry; a table with the topics of its changefeeds."""
    for feed in node.body.get("changefeeds", ()):
        yield from catalog.drop(feed["topic"])
    yield from catalog.drop(node.id)


def drop_directory(catalog: CatalogTransaction, database: str, name: str) -> Steps[None]:
    """Remove an empty directory. Faults: the entry does not exist, is no directory, or has children."""
    path = join_path(database, name)
    database_node = yield from _find_database(catalog, database)
    node = None if database_node is None else (yield from catalog.find(database_node.id, name))
    occupied = database_node is not None and (yield from _has_entries_below(catalog, database_node, name))
    if node is None and not occupied:
        raise missing_path(path)
    if node is not None and kind_of(node) != "directory":
        raise wrong_kind(path, "directory")
    if occupied:
        text = f"Check failed: path: '{path}', error: path has children, request doesn't accept it"
        raise fault(text, status="PRECONDITION_FAILED", code=SCHEME_CODE)
    if node is not None:
        yield from catalog.drop(node.id)


def replace_body(
    catalog: CatalogTransaction, id: int, database: str, name: str, update: Callable[[Node], dict[str, Any]]
) -> Steps[Node]:
    """Replace the body of an entry and keep the rest of its definition. Faults: the entry does not exist."""
    before = yield from _find_database(catalog, database)
    if before is not None and name:
        before = yield from catalog.find(before.id, name)
    # Another entry may have taken the path since the caller looked it up.
    if before is None or before.id != id:
        raise missing_path(join_path(database, name))
    definition = msgspec.structs.replace(before.definition, body=update(before))
    node = msgspec.structs.replace(before, definition=definition)
    catalog.put(node)
    return node


def rename_tables(catalog: CatalogTransaction, moves: Sequence[TableMove], now: Instant) -> Steps[tuple[int, ...]]:
    """Rename tables in order, all or none.

    Return the ids of the replaced tables. Faults as in `create_entry`, or a table does not exist.
    """
    databases = [place[0] for each in moves for place in (each.source, each.destination)]
    database_nodes, nodes = yield from _read_databases(catalog, databases, now)
    replaced: list[int] = []
    for each in moves:
        source = _get_source(nodes, each)
        other = nodes.pop(each.destination, None)
        if other is not None:
            if not each.replace or kind_of(other) != "table":
                raise path_conflict(join_path(*each.destination))
            replaced.append(other.id)
            yield from drop_entry(catalog, other)
        del nodes[each.source]
        database, name = each.destination
        node = msgspec.structs.replace(source, parent=database_nodes[database].id, name=name)
        # The table gives up its old name first, since a directory above the new path may take that name.
        catalog.put(node)
        yield from _ensure_parents(catalog, database_nodes[database], name, now, nodes)
        nodes[each.destination] = node
    return tuple(replaced)


def publish_copies(
    catalog: CatalogTransaction, copies: Sequence[tuple[int, str, str]], now: Instant, replace: bool = False
) -> Steps[None]:
    """Give hidden nodes their paths, all or none. `copies`: (node, database, name) each. Faults as in `create_entry`.

    `replace`: tables that have these paths are dropped.
    """
    database_nodes, nodes = yield from _read_databases(catalog, [database for _, database, _ in copies], now)
    for id, database, name in copies:
        taken = nodes.get((database, name))
        if taken is not None:
            if not replace or kind_of(taken) != "table":
                raise path_conflict(join_path(database, name))
            yield from drop_entry(catalog, taken)
        elif any(each.startswith(f"{name}/") for home, each in nodes if home == database):
            # A directory without a node of its own takes its path as well.
            raise path_conflict(join_path(database, name))
        yield from _ensure_parents(catalog, database_nodes[database], name, now, nodes)
        copy = yield from catalog.load(id)
        if copy is None:
            raise missing_path(str(id))
        node = msgspec.structs.replace(copy, parent=database_nodes[database].id, name=name)
        nodes[database, name] = node
        catalog.put(node)


def ensure_database(catalog: CatalogTransaction, name: str, now: Instant) -> Steps[Node]:
    """Return the node of a database, created if missing."""
    space = yield from catalog.find(ROOT, SPACE)
    node = None if space is None else (yield from catalog.find(space.id, name))
    if node is not None:
        return node
    if space is None:
        space = yield from catalog.add(ROOT, SPACE, Definition({}, now))
    return (yield from catalog.add(space.id, name, _directory_definition(now)))


def _find_database(catalog: CatalogTransaction, name: str) -> Steps[Node | None]:
    space = yield from catalog.find(ROOT, SPACE)
    return None if space is None else (yield from catalog.find(space.id, name))


def _read_databases(
    catalog: CatalogTransaction, databases: Sequence[str], now: Instant
) -> Steps[tuple[dict[str, Node], dict[Location, Node]]]:
    """Return the nodes of databases, created if missing, and all nodes below them."""
    database_nodes: dict[str, Node] = {}
    nodes: dict[Location, Node] = {}
    for database in dict.fromkeys(databases):
        database_node = database_nodes[database] = yield from ensure_database(catalog, database, now)
        for node in (yield from catalog.children(database_node.id)):
            nodes[database, node.name] = node
    return database_nodes, nodes


def _get_source(nodes: dict[Location, Node], move: TableMove) -> Node:
    node = nodes.get(move.source)
    if node is None:
        raise missing_path(join_path(*move.source))
    if kind_of(node) != "table":
        raise wrong_kind(join_path(*move.source), "table")
    if node.body.get("changefeeds"):
        raise fault("Cannot move table with cdc streams", status="PRECONDITION_FAILED", code=SCHEME_CODE)
    return node


def _has_entries_below(catalog: CatalogTransaction, database_node: Node, name: str) -> Steps[bool]:
    nodes = yield from catalog.children(database_node.id)
    return any(node.name.startswith(f"{name}/") for node in nodes)


def _ensure_parents(
    catalog: CatalogTransaction, database_node: Node, name: str, now: Instant, known: dict[Location, Node] | None = None
) -> Steps[None]:
    """Create the missing directories above a name.

    `known`: all nodes, changes of this transaction included; None: they are read.
    """
    for above in parents(name):
        node = (
            (yield from catalog.find(database_node.id, above))
            if known is None
            else known.get((database_node.name, above))
        )
        if node is None:
            made = yield from catalog.add(database_node.id, above, _directory_definition(now))
            if known is not None:
                known[database_node.name, above] = made
        elif kind_of(node) != "directory":
            raise wrong_kind(join_path(database_node.name, above), "directory")


def _directory_definition(now: Instant) -> Definition:
    return Definition(msgspec.to_builtins(DirectoryBody(created=now)), now)
