"""Samples of the records of a container: stored records at numbers that are drawn evenly over all numbers given out."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import msgspec

from mayflydb.model.order import Order
from mayflydb.model.record import Record
from mayflydb.store.interface import Fetch, LoadRow, Scan, Store

BATCH = 32
"""Numbers that are looked up at once: the event loop belongs to a batch for about a millisecond."""

BYTES = 8 << 20
"""A sample ends after the batch that exceeds these bytes of values."""


class RecordSample(msgspec.Struct, frozen=True):
    """Records at `tries` distinct numbers out of `numbers`, of which most may have no record any more."""

    records: list[Record]
    tries: int
    numbers: int

    @property
    def is_whole(self) -> bool:
        """Return whether the sample has all records."""
        return self.tries == self.numbers

    def scale(self, count: int) -> int:
        """Estimate the number of records in the container from that in the sample."""
        return count if self.is_whole else round(count * self.numbers / self.tries)


async def count_numbers(store: Store, container: int) -> tuple[int, int]:
    """Return (the lowest number of a stored record, an upper bound on the number of records)."""
    row = await store.read(LoadRow(container))
    first = await store.read(Scan(container, b"", None, Order.CREATED, None, 1))
    if row is None or not first:
        return 0, 0
    # The row was read before the record: a record that was written in between may have a higher number.
    return first[0].seq, max(1, row.seq - first[0].seq + 1)


async def draw_sample(store: Store, container: int, size: int) -> RecordSample:
    """Draw up to `size` numbers, one from each of as many equal ranges, and read their records.

    The draw is the same each time, so that a question about an estimate and its answer agree while nothing is written.
    """
    first, numbers = await count_numbers(store, container)
    ranges = min(size, numbers)
    edges = [first + numbers * n // ranges for n in range(ranges + 1)] if ranges else []
    drawn = [low + _scatter(n) % (high - low) for n, (low, high) in enumerate(pairwise(edges))]
    batches = -(-ranges // BATCH)
    found: list[Record] = []
    tries = read = 0
    for n in range(batches):
        # Each batch reaches over all ranges: after an early end the sample is still even.
        batch = drawn[n::batches]
        tries += len(batch)
        read += await _read_batch(store, container, batch, found)
        if read > BYTES:
            break
        await asyncio.sleep(0)
    return RecordSample(found, tries, numbers)


def _scatter(n: int) -> int:
    """Return a number without a visible pattern. Even steps would meet a pattern in the order of writes."""
    mixed = (n + 1) * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF
    return (mixed ^ mixed >> 31) * 0xBF58476D1CE4E5B9 >> 20 & 0xFFFFFFFFFFFF


async def _read_batch(store: Store, container: int, seqs: list[int], found: list[Record]) -> int:
    """Add the records with these numbers to `found`, and return the bytes of their values."""
    size = 0
    left = tuple(seqs)
    while left and (page := await store.read(Fetch(container, left))):
        found += page
        size += sum(len(record.value) for record in page)
        left = tuple(seq for seq in left if seq > page[-1].seq)
    return size
