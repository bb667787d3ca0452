"""Splits partition key ranges of a container for more throughput. Pure; ranges are never merged."""

from __future__ import annotations

from itertools import count as numbers
from itertools import pairwise

from mayflydb.engine.catalog import PartitionRange
from mayflydb.frontends.cosmos.partition_key import PartitionKeyDefinition, range_width, split_bounds

MAX_RANGE_UNITS = 10_000
"""The RU/s that one range carries (learn.microsoft.com/azure/cosmos-db/scaling-provisioned-throughput-best-practices)."""


def split_ranges(
    ranges: tuple[PartitionRange, ...], ceiling: int, definition: PartitionKeyDefinition
) -> tuple[PartitionRange, ...]:
    """Return ranges that carry `ceiling` RU/s, in order; the given ones if they suffice.

    The widest ranges are split first, each into even parts. A child has a new id and lists the ids of all its ancestors.
    """
    needed = -(-ceiling // MAX_RANGE_UNITS)
    parts = [1] * len(ranges)
    widths = [range_width(each.lower, each.upper, definition) for each in ranges]
    for _ in range(needed - len(ranges)):
        # Of equally wide ranges the first: the result depends on the ranges alone.
        widest = max(range(len(ranges)), key=lambda n: (widths[n] // parts[n], -n))
        parts[widest] += 1
    # An id is never used again, since clients cache ranges by their ids.
    fresh = numbers(1 + max(int(id) for each in ranges for id in (each.id, *each.parents)))
    found: list[PartitionRange] = []
    for each, many in zip(ranges, parts, strict=True):
        if many == 1:
            found.append(each)
            continue
        bounds = [each.lower, *split_bounds(each.lower, each.upper, many, definition), each.upper]
        parents = (*each.parents, each.id)
        found += [PartitionRange(str(next(fresh)), low, high, parents) for low, high in pairwise(bounds)]
    return tuple(found)
