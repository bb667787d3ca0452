"""The buckets of a time series collection in `collStats`, counted in what is stored."""

from __future__ import annotations

from bson import Int64

from mayflydb.frontends.mongo.calls import Call
from mayflydb.frontends.mongo.collections import Collection
from mayflydb.frontends.mongo.services import Services
from mayflydb.model.order import KeyRange
from mayflydb.query.mongo.indexes.key_bytes import prefix_end
from mayflydb.query.mongo.values import Document

BATCH: int = 128
END = b"\xff" * 32
"""Above every key of the internal index."""


async def with_buckets(services: Services, call: Call, collection: Collection, stats: Document) -> Document:
    """Return the sizes of a collection with those of its buckets, in place of the count of documents.

    Figures of the server's work since its start, such as `numCommits`, are not counted, and left out.
    """
    count = await count_buckets(services, call, collection)
    described: Document = {"bucketsNs": f"{collection.database}.system.buckets.{collection.name}", "bucketCount": count}
    if count:
        described["avgBucketSize"] = Int64(stats["size"] // count)
    return {**{name: value for name, value in stats.items() if name != "count"}, "timeseries": described}


async def count_buckets(services: Services, call: Call, collection: Collection) -> int:
    """The number of buckets: of pairs of series and start. Errors: those of `Evaluation.take_turn`."""
    count, after = 0, b""
    while (found := await _count_until_long(services, call, collection, after)) is not None:
        count, after = count + found[0], found[1]
    return count


async def _count_until_long(
    services: Services, call: Call, collection: Collection, lower: bytes
) -> tuple[int, bytes] | None:
    """Count buckets from a key on, up to one that fills a batch: (number, key behind the last one); None: there is none."""
    series, node = collection.series, collection.node
    assert series is not None
    index = next(each for each in node.definition.indexes if each.number == series.index)
    last, count = b"", 0
    walk = services.engine.indexes.walk(node, index, KeyRange(lower, END), False, call.now, BATCH)
    async for pairs in walk:
        await services.evaluation_of(call).take_turn()
        keys = [key for key, _ in pairs]
        count += len(dict.fromkeys(keys)) - (bool(keys) and keys[0] == last)
        last = keys[-1] if keys else last
        if len(keys) == BATCH and keys[0] == last:
            # The rest of a long bucket is skipped, not read.
            return count, prefix_end(last)
    return (count, prefix_end(last)) if count else None
