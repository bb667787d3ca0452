"""Scans of a container: visible records in an order, batch by batch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec

from mayflydb.engine.catalog import Node
from mayflydb.engine.reads import Reads
from mayflydb.expiry.deadline import visibility
from mayflydb.model.instant import Instant
from mayflydb.model.order import Order, Position
from mayflydb.model.record import Record
from mayflydb.store.interface import Scan

SCAN_BATCH = 256
"""Records of one batch."""


class Scope(msgspec.Struct, frozen=True):
    """The records of a container that a read covers: lower <= partition < upper, in that order."""

    lower: bytes = b""
    upper: bytes | None = None
    order: Order = Order.CREATED

    @classmethod
    def of_partition(cls, partition: bytes) -> Scope:
        """Return the scope of one logical partition: nothing sorts between a byte string and the same with a zero."""
        return cls(partition, partition + b"\0", Order.HASHED)

    def has(self, partition: bytes) -> bool:
        """Return whether a partition lies in the scope."""
        return self.lower <= partition and (self.upper is None or partition < self.upper)

    @property
    def is_one_partition(self) -> bool:
        """Return whether the scope is exactly one logical partition."""
        return self.upper == self.lower + b"\0"


class Batch(msgspec.Struct, frozen=True):
    """Visible records of one batch of a scan, and the position of its end (hidden records move the position, too)."""

    records: list[Record]
    position: Position


async def scan(
    reads: Reads, container: Node, scope: Scope, after: Position | None, now: Instant, batch: int
) -> AsyncIterator[Batch]:
    """Yield visible records in order, batch by batch; other tasks run between batches."""
    is_visible = visibility(container.rules, now)
    while True:
        request = Scan(container.id, scope.lower, scope.upper, scope.order, after, batch)
        records = await reads.read(request)
        if not records:
            return
        last = records[-1]
        after = Position(last.partition, last.lsn if scope.order is Order.CHANGED else last.seq)
        yield Batch(records if is_visible is None else list(filter(is_visible, records)), after)
        await asyncio.sleep(0)
