"""Changes of the tree of paths, as decisions of the store: what hangs together comes and goes together.

Below a database all rows are siblings, named by their paths (`shop/carts`). A directory is a row too, and is there without one
as long as something is below it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from mayflydb.engine.catalog import ROOT, Definition, Node, Nodes, row_of
from mayflydb.frontends.ydb.schemes.entries import DirectoryBody, kind_of
from mayflydb.frontends.ydb.schemes.faults import SCHEME_CODE, exists, missing, wrong_kind
from mayflydb.frontends.ydb.schemes.paths import joined, parents
from mayflydb.frontends.ydb.sequences import SPACE as SEQUENCES
from mayflydb.model.instant import Instant
from mayflydb.query.yql.faults import fault
from mayflydb.store.interface import Change, Children, Decision, DropRow, Find, Load, NewId, Outcome, PutRow, Row, ask

SPACE: Final = "ydb"

Reading: TypeAlias = Generator[Any, Any, Any]


class Move(msgspec.Struct, frozen=True):
    """Names below databases: (database, name) each."""

    source: tuple[str, str]
    destination: tuple[str, str]
    replace: bool = False


class Tree:
    """Makes decisions about the rows of one store."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes

    def make(
        self, database: str, name: str, definition: Definition, now: Instant, replace: bool = False
    ) -> Decision[Node]:
        """A new table, view or directory, and the directories above it that are missing.

        `replace`: a row of the same kind that is there is replaced, its identity too. Faults: the name is taken, or what is above
        it is no directory.
        """
        home, changes = yield from self._database(database, now)
        row = yield from ask(Find(home.id, name))
        if row is None and kind_of(definition) != "directory" and (yield from self._anything_below(home.id, name)):
            raise exists(joined(database, name))
        if row is not None:
            if not replace or kind_of(self._nodes.of(row)) != kind_of(definition):
                raise exists(joined(database, name))
            changes += yield from _dropped(row.id)
        changes += yield from self._parents(home, name, now)
        node = Node((yield from ask(NewId())), home.id, name, definition)
        return Outcome((*changes, PutRow(row_of(node))), node)

    def drop_directory(self, database: str, name: str) -> Decision[None]:
        """Remove an empty directory. Faults: there is none, it is none, or something is in it."""
        path = joined(database, name)
        home = yield from self._home(database)
        row = None if home is None else (yield from ask(Find(home.id, name)))
        below = home is not None and (yield from self._anything_below(home.id, name))
        if row is None and not below:
            raise missing(path)
        if row is not None and kind_of(self._nodes.of(row)) != "directory":
            raise wrong_kind(path, "directory")
        if below:
            text = f"Check failed: path: '{path}', error: path has children, request doesn't accept it"
            raise fault(text, status="PRECONDITION_FAILED", code=SCHEME_CODE)
        return Outcome(() if row is None else (DropRow(row.id),), None)

    def change(self, id: int, database: str, name: str, judge: Callable[[Node], dict[str, Any]]) -> Decision[Node]:
        """Another body for a directory, view or table, whose definition is the same otherwise. Faults: it is not there."""
        home = yield from self._home(database)
        row = None if home is None else (yield from ask(Find(home.id, name)) if name else self._row(home))
        if row is None or row.id != id:
            raise missing(joined(database, name))
        before = self._nodes.of(row)
        definition = msgspec.structs.replace(before.definition, body=judge(before))
        node = msgspec.structs.replace(before, definition=definition)
        return Outcome((PutRow(row_of(node)),), node)

    def move(self, moves: Sequence[Move], now: Instant) -> Decision[tuple[int, ...]]:
        """Other names for tables, one after the other, all or none: the ids of those that were replaced. Faults: as in `make`, or
        one is not there."""
        homes, rows, changes = yield from self._known(
            [each[0] for move in moves for each in (move.source, move.destination)], now
        )
        replaced: list[int] = []
        for move in moves:
            row = self._source(rows, move)
            other = rows.pop(move.destination, None)
            if other is not None:
                if not move.replace or kind_of(self._nodes.of(other)) != "table":
                    raise exists(joined(*move.destination))
                replaced.append(other.id)
                changes += yield from _dropped(other.id)
            del rows[move.source]
            database, name = move.destination
            above = yield from self._parents(homes[database], name, now, rows)
            node = msgspec.structs.replace(self._nodes.of(row), parent=homes[database].id, name=name)
            rows[move.destination] = row_of(node)
            # First of all it gives up its name, which a directory above it may take.
            changes += [PutRow(row_of(node)), *above]
        return Outcome(tuple(changes), tuple(replaced))

    def publish(self, copies: Sequence[tuple[int, str, str]], now: Instant) -> Decision[None]:
        """Nodes that nobody saw get their names, all or none: (node, database, name) each. Faults: as in `make`."""
        homes, rows, changes = yield from self._known([database for _, database, _ in copies], now)
        for id, database, name in copies:
            if (database, name) in rows:
                raise exists(joined(database, name))
            changes += yield from self._parents(homes[database], name, now, rows)
            row = yield from self._loaded(id)
            node = msgspec.structs.replace(self._nodes.of(row), parent=homes[database].id, name=name)
            rows[database, name] = row_of(node)
            changes.append(PutRow(row_of(node)))
        return Outcome(tuple(changes), None)

    def database(self, name: str, now: Instant) -> Decision[Node]:
        """The row of a database, made if it is missing."""
        node, changes = yield from self._database(name, now)
        return Outcome(tuple(changes), node)

    # --- reads -----------------------------------------------------------------------------------------------------

    def _known(self, databases: Sequence[str], now: Instant) -> Reading:
        """The rows of databases, those below them by (database, name), and what makes those that are missing."""
        homes: dict[str, Node] = {}
        rows: dict[tuple[str, str], Row] = {}
        changes: list[Change] = []
        for database in dict.fromkeys(databases):
            homes[database], made = yield from self._database(database, now)
            changes += made
            for row in (yield from ask(Children(homes[database].id))):
                rows[database, row.name] = row
        return homes, rows, changes

    def _source(self, rows: dict[tuple[str, str], Row], move: Move) -> Row:
        row = rows.get(move.source)
        if row is None:
            raise missing(joined(*move.source))
        if kind_of(self._nodes.of(row)) != "table":
            raise wrong_kind(joined(*move.source), "table")
        return row

    def _home(self, database: str) -> Reading:
        space = yield from ask(Find(ROOT, SPACE))
        row = None if space is None else (yield from ask(Find(space.id, database)))
        return None if row is None else self._nodes.of(row)

    def _row(self, node: Node) -> Reading:
        return (yield from self._loaded(node.id))

    def _loaded(self, id: int) -> Reading:
        row = yield from ask(Load(id))
        if row is None:
            raise missing(str(id))
        return row

    def _database(self, name: str, now: Instant) -> Reading:
        """The row of a database, and what makes it."""
        changes: list[Change] = []
        space = yield from ask(Find(ROOT, SPACE))
        if space is None:
            node = Node((yield from ask(NewId())), ROOT, SPACE, Definition({}, now))
            changes.append(PutRow(row_of(node)))
            parent = node.id
        else:
            parent = space.id
            row = yield from ask(Find(parent, name))
            if row is not None:
                return self._nodes.of(row), changes
        body = msgspec.to_builtins(DirectoryBody(created=now))
        home = Node((yield from ask(NewId())), parent, name, Definition(body, now))
        changes.append(PutRow(row_of(home)))
        return home, changes

    def _anything_below(self, home: int, name: str) -> Reading:
        rows = yield from ask(Children(home))
        return any(row.name.startswith(f"{name}/") for row in rows)

    def _parents(self, home: Node, name: str, now: Instant, known: dict[tuple[str, str], Row] | None = None) -> Reading:
        """What makes the directories above a name that are missing."""
        changes: list[Change] = []
        for above in parents(name):
            row = (yield from ask(Find(home.id, above))) if known is None else known.get((home.name, above))
            if row is None:
                body = msgspec.to_builtins(DirectoryBody(created=now))
                node = Node((yield from ask(NewId())), home.id, above, Definition(body, now))
                changes.append(PutRow(row_of(node)))
                if known is not None:
                    known[home.name, above] = row_of(node)
            elif kind_of(self._nodes.of(row)) != "directory":
                raise wrong_kind(joined(home.name, above), "directory")
        return changes


def _dropped(table: int) -> Reading:
    """What removes a table that another one replaces, with its sequences."""
    space = yield from ask(Find(ROOT, SEQUENCES))
    home = None if space is None else (yield from ask(Find(space.id, str(table))))
    return [DropRow(table)] if home is None else [DropRow(home.id), DropRow(table)]
