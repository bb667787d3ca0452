"""Ordered histories: several containers' histories read as one, the order of their lines, their start, and their survival of
a drop.

Each line of an ordered history begins with a stamp: the number of its transaction, allocated by one node for all of them, and
its place within the transaction. A reader of several histories merges them by stamp.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Generator, Iterable
from functools import partial
from struct import Struct
from typing import Any, Final

import msgspec

from mayflydb.engine.catalog import NODE_MISSING, ROOT, Definition, Node, Nodes, row_of
from mayflydb.engine.lifecycle.segments import refuse_history
from mayflydb.model.errors import NotFound
from mayflydb.model.instant import SECOND, Instant, Span
from mayflydb.model.record import Kind, Version
from mayflydb.store.interface import (
    AddVersion,
    Allocate,
    Change,
    ChildRows,
    Decision,
    DropRow,
    FindRow,
    LoadRow,
    NewId,
    Outcome,
    PutRow,
    Read,
    Store,
    ask,
)

STAMP: Final = Struct(">QI")
"""The number of a transaction, and a place within it: 8 and 4 bytes, big-endian, so that stamps compare as bytes."""

KEPT_SPACE: Final = "dropped containers"
"""The space of rows that keep the histories of dropped containers, each named by the container's id."""

NoteOf = Callable[[Node], bytes]
"""The front end's note about a node that is created, moved or dropped."""


def next_stamp(orderer: int, stamps: dict[int, bytes]) -> Generator[Read[Any], Any, bytes]:
    """Return the next stamp of a transaction. `stamps`: its last stamp by ordering node."""
    known = stamps.get(orderer)
    if known is None:
        number, place = (yield from ask(Allocate(orderer, seq=False)))[0], 0
    else:
        number, place = STAMP.unpack(known)
        place += 1
    stamp = stamps[orderer] = STAMP.pack(number, place)
    return stamp


def build_note(
    node: Node, text: bytes, now: Instant, stamps: dict[int, bytes]
) -> Generator[Read[Any], Any, AddVersion]:
    """Build a line about a node itself, in its own history."""
    assert node.definition.ordered is not None
    stamp = yield from next_stamp(node.definition.ordered, stamps)
    lsn, _ = yield from ask(Allocate(node.id, seq=False))
    return AddVersion(node.id, Version(Kind.NOTE, lsn, now, value=stamp + text))


def begin_history(node: Node, text: bytes, now: Instant) -> Generator[Read[Any], Any, tuple[Change, ...]]:
    """Return the changes that create a node and the first line of its history."""
    assert node.definition.ordered is not None
    stamp = yield from next_stamp(node.definition.ordered, {})
    row = msgspec.structs.replace(row_of(node), lsn=1)
    return PutRow(row), AddVersion(node.id, Version(Kind.NOTE, 1, now, value=stamp + text))


def keep_histories(
    nodes: Nodes, gone: Iterable[int], note_of: NoteOf, now: Instant
) -> Generator[Read[Any], Any, tuple[Change, ...]]:
    """Return the changes that keep the histories of dropped nodes: a last line each, and a row that keeps the history."""
    stamps: dict[int, bytes] = {}
    changes: list[Change] = []
    home: int | None = None
    for id in gone:
        row = yield from ask(LoadRow(id))
        if row is None or not is_ordered(nodes.of(row)):
            continue
        node = nodes.of(row)
        parent = yield from ask(LoadRow(node.parent))
        if home is None:
            space = yield from ask(FindRow(ROOT, KEPT_SPACE))
            if space is None:
                home = yield from ask(NewId())
                changes.append(PutRow(row_of(Node(home, ROOT, KEPT_SPACE, Definition({}, now)))))
            else:
                home = space.id
        parent_name = "" if parent is None else parent.name
        body = {"name": node.name, "parent": node.parent, "parent_name": parent_name, "body": node.body}
        definition = msgspec.structs.replace(
            node.definition, body=body, written=now, rules=(), indexes=(), slots=(), keeps=id
        )
        kept = Node((yield from ask(NewId())), home, str(id), definition)
        changes += [(yield from build_note(node, note_of(node), now, stamps)), PutRow(row_of(kept))]
    return tuple(changes)


def has_kept_history(container: int) -> Generator[Read[Any], Any, bool]:
    """Return whether a row keeps the history of a dropped container."""
    space = yield from ask(FindRow(ROOT, KEPT_SPACE))
    return space is not None and (yield from ask(FindRow(space.id, str(container)))) is not None


def is_ordered(node: Node) -> bool:
    """Return whether a node has an ordered history."""
    return bool(node.definition.history) and node.definition.ordered is not None


class OrderedHistories:
    """Starts ordered histories, and finds those that outlive their containers."""

    def __init__(self, store: Store, nodes: Nodes) -> None:
        self._store = store
        self._nodes = nodes

    async def begin(
        self, id: int, orderer: int, history: Span, quiet: Callable[[], Instant], apart: Collection[str] | None = ()
    ) -> None:
        """Record, from now on, every change of a node and of all nodes below it, present or future, except children with
        names in `apart`. `apart` None: only future nodes below. `quiet`: returns the instant since which nothing was written,
        called by the writer. NotFound if the node is gone.
        """
        if await self._is_begun(id, orderer, history, apart):
            return

        def decide() -> Decision[None]:
            if (yield from ask(LoadRow(id))) is None:
                raise NotFound(NODE_MISSING)
            changes: list[Change] = []
            for each in (yield from self._below(id, apart)):
                if self._is_kept_for(each, orderer, history):
                    continue
                definition = msgspec.structs.replace(each.definition, history=history, ordered=orderer)
                changes.append(PutRow(row_of(msgspec.structs.replace(each, definition=definition))))
                if not is_ordered(each):
                    yield from refuse_history(each.id)
                    lsn, _ = yield from ask(Allocate(each.id, seq=False))
                    changes.append(AddVersion(each.id, Version(Kind.GAP, lsn, quiet())))
            return Outcome(tuple(changes), None)

        await self._store.write(decide)

    async def _is_begun(self, id: int, orderer: int, history: Span, apart: Collection[str] | None) -> bool:
        nodes = [await self._store.read(LoadRow(id))]
        if apart is not None:
            nodes += [row for row in await self._store.read(ChildRows(id)) if row.name not in apart]
        return all(row is not None and self._is_kept_for(self._nodes.of(row), orderer, history) for row in nodes)

    def _is_kept_for(self, node: Node, orderer: int, history: Span) -> bool:
        return node.definition.ordered == orderer and node.definition.history == history

    def _below(self, id: int, apart: Collection[str] | None) -> Generator[Any, Any, list[Node]]:
        row = yield from ask(LoadRow(id))
        found = [] if row is None else [self._nodes.of(row)]
        if apart is None:
            return found
        for child in (yield from ask(ChildRows(id))):
            if child.name not in apart:
                found += yield from self._below(child.id, ())
        return found

    async def add_note(self, id: int, text: bytes, now: Instant) -> None:
        """Add a line about a node to its history, if that is ordered."""

        def decide() -> Decision[None]:
            row = yield from ask(LoadRow(id))
            if row is None or not is_ordered(self._nodes.of(row)):
                return Outcome((), None)
            return Outcome(((yield from build_note(self._nodes.of(row), text, now, {})),), None)

        row = await self._store.read(LoadRow(id))
        if row is not None and is_ordered(self._nodes.of(row)):
            await self._store.write(decide)

    async def read_kept(self) -> list[Node]:
        """Return the rows that keep histories of dropped containers."""
        space = await self._store.read(FindRow(ROOT, KEPT_SPACE))
        if space is None:
            return []
        return [self._nodes.of(row) for row in await self._store.read(ChildRows(space.id))]

    async def forget_old(self, now: Instant) -> None:
        """Drop the rows whose last line is too old."""
        for node in await self.read_kept():
            if node.definition.written <= now - (node.definition.history or 0):
                await self._store.write(partial(_drop_row, node.id), "sweep")


def _drop_row(id: int) -> Decision[None]:
    return Outcome((DropRow(id),), None)
    yield


class ChangeNotifier:
    """Wakes waiting tasks when something may have changed."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()
        self._notifications = 0
        self.closed = False

    def close(self) -> None:
        """Wake all waiting tasks; later waits return at once."""
        self.closed = True
        self.notify()

    @property
    def notifications(self) -> int:
        """The number of notifications so far; a waiter passes the number it knows."""
        return self._notifications

    def notify(self) -> None:
        """Wake all waiting tasks."""
        self._notifications += 1
        for waiting in self._waiting:
            _end(waiting)

    async def wait(self, heard: int, span: Span) -> None:
        """Wait for a notification after number `heard`, or for a span of host time."""
        if self._notifications != heard or self.closed:
            return
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[None] = loop.create_future()
        self._waiting.add(waiting)
        # Not asyncio.timeout: the caller may run outside of any task.
        timer = loop.call_later(span / SECOND, _end, waiting)
        try:
            await waiting
        finally:
            timer.cancel()
            self._waiting.discard(waiting)


def _end(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)
