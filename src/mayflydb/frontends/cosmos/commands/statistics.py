"""Statistics of the partition key ranges of a container, counted on request.

Format: https://learn.microsoft.com/dotnet/api/microsoft.azure.documents.partitionkeyrangestatistics. The service estimates from
samples; Mayfly counts every visible item, at the cost of reading the container.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from heapq import heappop, heappush
from typing import Any

from mayflydb.engine.scans import Scope
from mayflydb.frontends.cosmos.calls import CosmosCall
from mayflydb.frontends.cosmos.targets import decode_partition, key_value_to_json
from mayflydb.frontends.cosmos.views import ContainerView, RangeView
from mayflydb.model.order import HASH_BYTES, Order

MAX_LISTED = 100
"""A logical partition is listed if it holds at least 1/100 of the bytes of its range. So at most 100 are listed."""


async def range_statistics(call: CosmosCall, view: ContainerView) -> list[dict[str, Any]]:
    """Return one object per range: `id`, `sizeInKB`, `documentCount`, the number of logical partitions, the large ones."""
    return [await _statistics_of_range(call, view, each) for each in view.ranges]


async def _statistics_of_range(call: CosmosCall, view: ContainerView, within: RangeView) -> dict[str, Any]:
    size = items = keys = 0
    largest: list[tuple[int, bytes]] = []
    async for partition, (held, count) in _partition_sizes(call, view, within):
        size, items, keys = size + held, items + count, keys + 1
        # A heap of the largest partitions, smallest first: the memory is bounded however many partitions a range has.
        heappush(largest, (held, partition))
        if len(largest) > MAX_LISTED:
            heappop(largest)
    return {
        "id": within.id,
        "sizeInKB": _kilobytes(size),
        "documentCount": items,
        "sampledDistinctPartitionKeyCount": keys,
        "partitionKeys": [
            {
                "partitionKey": [key_value_to_json(value) for value in decode_partition(view.key, partition)],
                "sizeInKB": _kilobytes(held),
            }
            for held, partition in sorted(largest, reverse=True)
            if held * MAX_LISTED >= size
        ],
    }


async def _partition_sizes(
    call: CosmosCall, view: ContainerView, within: RangeView
) -> AsyncIterator[tuple[bytes, tuple[int, int]]]:
    """Yield each logical partition with its bytes and its number of items."""
    found: dict[bytes, tuple[int, int]] = {}
    beginning = b""
    async for batch in call.engine.scan(view.node, Scope(within.lower, within.upper, Order.HASHED), None, call.now):
        for record in batch.records:
            partition = record.partition
            if partition[:HASH_BYTES] != beginning:
                # A HASHED scan mixes only records of partitions whose first bytes are equal.
                for each in found.items():
                    yield each
                found, beginning = {}, partition[:HASH_BYTES]
            size, count = found.get(partition, (0, 0))
            found[partition] = size + len(record.value), count + 1
    for each in found.items():
        yield each


def _kilobytes(size: int) -> int:
    return -(-size // 1024)
