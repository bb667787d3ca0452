"""More partition key ranges for a container that was given more throughput. Pure; ranges are never merged again."""

from __future__ import annotations

from itertools import count as numbers
from itertools import pairwise

from mayflydb.engine.catalog import PartitionRange
from mayflydb.frontends.cosmos.partition_key import PartitionKeyDefinition, range_width, split_bounds

MAX_RANGE_UNITS = 10_000
"""RU/s that one range carries (learn.microsoft.com/azure/cosmos-db/scaling-provisioned-throughput-best-practices)."""


def split_ranges(
    ranges: tuple[PartitionRange, ...], ceiling: int, definition: PartitionKeyDefinition
) -> tuple[PartitionRange, ...]:
    """The ranges that carry so many RU/s, in order; the same ones where they do already.

    The widest are divided first, each evenly. Children have ids that no range had before, and name all they come from.
    """
    needed = -(-ceiling // MAX_RANGE_UNITS)
    parts = [1] * len(ranges)
    widths = [range_width(each.lower, each.upper, definition) for each in ranges]
    for _ in range(needed - len(ranges)):
        widest = max(range(len(ranges)), key=lambda n: (widths[n] // parts[n], -n))
        parts[widest] += 1
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
