"""Reads of measurements by `_id`, which several of them may have."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from mayflydb.engine.scans import Batch, Scope
from mayflydb.frontends.mongo.collections import identity_of
from mayflydb.model.record import Record


async def read_by_ids(ids: Sequence[Any], scan: Callable[[Scope], AsyncIterator[Batch]]) -> AsyncIterator[list[Record]]:
    """The measurements that have one of these ids, batch by batch. `scan`: reads a scope of the collection."""
    for identity in dict.fromkeys(map(identity_of, ids)):
        async for batch in scan(Scope.of_partition(identity.partition)):
            # Other ids may have the same digest. No key is a prefix of another, so what follows is a number.
            yield [record for record in batch.records if record.key.startswith(identity.key)]
