"""Reads of committed state outside of the engine's facade, for work that has its own access to the store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any, Protocol, TypeAlias, TypeVar

from mayflydb.engine.catalog import ROOT, Node, node_of
from mayflydb.model.order import KeyRange, Order, Position
from mayflydb.model.record import Record
from mayflydb.store.interface import CatalogRow, FindRow, Get, LoadRow, Read, Scan, ScanIndex

T = TypeVar("T")

ReadRequest: TypeAlias = Read[T]
"""A read as data; its answer is a T."""

Steps: TypeAlias = Generator[Read[Any], Any, T]
"""A part of a decision: yields reads, is resumed with their answers, and returns a T."""


class Reads(Protocol):
    """Answers reads from committed state."""

    async def read(self, request: ReadRequest[T]) -> T: ...


async def run_steps(steps: Steps[T], answer: Callable[[Read[Any]], Awaitable[Any]]) -> T:
    """Run a part of a decision outside of the writer; `answer` gives the answers to its reads."""
    reply: Any = None
    while True:
        try:
            request = steps.send(reply)
        except StopIteration as end:
            result: T = end.value
            return result
        reply = await answer(request)


async def row_at(reads: Reads, *names: str) -> CatalogRow | None:
    """Find the catalogue row at a path of names, from the root."""
    row = None
    parent = ROOT
    for name in names:
        row = await reads.read(FindRow(parent, name))
        if row is None:
            return None
        parent = row.id
    return row


async def node_at(reads: Reads, *names: str) -> Node | None:
    """Find the node at a path of names, decoded anew: the engine's cache of nodes belongs to the event loop's thread."""
    row = await row_at(reads, *names)
    return None if row is None else node_of(row)


async def record_at(reads: Reads, container: int, partition: bytes, seq: int) -> Record | None:
    """Find the record of a partition with this sequence number; it may be hidden."""
    before = Position(partition, seq - 1)
    found = await reads.read(Scan(container, partition, partition + b"\0", Order.HASHED, before, 1))
    return found[0] if found and found[0].seq == seq else None


async def get_stored(reads: Reads, container: int, partition: bytes, key: bytes) -> Record | None:
    """Find the record with this identity; it may be hidden."""
    return await reads.read(Get(container, partition, key))


async def walk_entries(
    reads: Reads, container: int, index: int, within: KeyRange, after: tuple[bytes, int] | None, limit: int
) -> list[tuple[bytes, Record]]:
    """Return up to `limit` entries of an index in a range, ascending, with their records, which may be hidden.

    `after`: the (entry key, seq) behind which the walk goes on.
    """
    return await reads.read(ScanIndex(container, index, within, False, after, limit))


async def settled_lsn(reads: Reads, container: int, partition: bytes) -> int:
    """Return the last lsn of a container. Later reads of the partition see every change up to it.

    A commit that ends on several workers, one after the other, may show its lsn before all of its changes. A read in the
    order of commits waits for commits in progress.
    """
    row = await reads.read(LoadRow(container))
    lsn = 0 if row is None else row.lsn
    await reads.read(Scan(container, partition, partition + b"\0", Order.CHANGED, Position(b"", lsn), 1))
    return lsn


Kept: TypeAlias = Callable[[int, bytes, bytes], Record | None]
"""Finds the committed record of a container, a partition and a key if the store keeps it in memory; None: not known."""


def keep_none(container: int, partition: bytes, key: bytes) -> Record | None:
    """Return None, as for a store that keeps no records in memory."""
    return None
