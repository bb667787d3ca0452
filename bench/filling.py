"""Many records at once, through the store itself: loading them is no part of what is measured."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from signed import DATABASE

from mayflydb.frontends.cosmos.calls import SPACE
from mayflydb.frontends.cosmos.partition_key import PartitionKeyDefinition
from mayflydb.model.instant import Instant
from mayflydb.model.record import Record
from mayflydb.store.interface import Allocate, Decision, FindRow, Outcome, Put, Store, ask
from mayflydb.store.sqlite import SqliteStore

BATCH = 2000
parse_partition = PartitionKeyDefinition.from_json({"paths": ["/pk"], "kind": "Hash", "version": 2}).parse_partition

Life = tuple[bytes, bytes, bytes, Instant]
"""Partition, key, value and anchor of a record to be."""


async def load(store: Store, container: int, lives: Iterable[Life]) -> int:
    """Put them all; how many there were."""
    count = 0
    remaining = iter(lives)
    while batch := list(islice(remaining, BATCH)):
        count += len(batch)

        def decide(batch: list[Life] = batch) -> Decision[None]:
            changes = []
            for partition, key, value, anchor in batch:
                lsn, seq = yield from ask(Allocate(container, True))
                record = Record(partition, key, value, anchor, anchor, None, lsn, seq)
                changes.append(Put(container, record, True))
            return Outcome(tuple(changes), None)

        await store.write(decide)
    return count


def fill(path: Path, container: str, lives: Iterable[Life]) -> int:
    """The same, into the file of a server that has made the container and was stopped."""
    return asyncio.run(_fill(path, container, lives))


async def _fill(path: Path, container: str, lives: Iterable[Life]) -> int:
    store = await SqliteStore.open(str(path))
    try:
        parent = 0
        for name in (SPACE, DATABASE, container):
            row = await store.read(FindRow(parent, name))
            assert row is not None
            parent = row.id
        return await load(store, parent, lives)
    finally:
        await store.close()


def many(count: int, value: bytes, anchor: Instant, spacing: int = 0) -> Iterator[Life]:
    """`count` records in 100 logical partitions; the anchors begin at `anchor` and are `spacing` microseconds apart."""
    partitions = [parse_partition(b'["p%d"]' % number) for number in range(100)]
    for number in range(count):
        yield partitions[number % 100], b"n%07d" % number, value, anchor + number * spacing
