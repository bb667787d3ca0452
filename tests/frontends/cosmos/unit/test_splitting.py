"""Which ranges are split, into what, when a container is given more throughput."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mayflydb.engine.catalog import PartitionRange
from mayflydb.frontends.cosmos.partition_key import PartitionKeyDefinition, divide_key_space, range_width
from mayflydb.frontends.cosmos.splitting import split_ranges

V1, V2 = (PartitionKeyDefinition.from_json({"paths": ["/pk"], "version": version}) for version in (1, 2))
MULTI = PartitionKeyDefinition.from_json({"paths": ["/a", "/b"], "kind": "MultiHash", "version": 2})
DEFINITIONS = [V1, V2, MULTI]


def made(count: int, definition: PartitionKeyDefinition) -> tuple[PartitionRange, ...]:
    return tuple(PartitionRange(str(n), low, high) for n, (low, high) in enumerate(divide_key_space(count, definition)))


@pytest.mark.parametrize("definition", DEFINITIONS)
@pytest.mark.parametrize(
    ("count", "ceiling", "parts"),
    [(1, 400, 1), (1, 10_000, 1), (1, 10_100, 2), (1, 20_000, 2), (1, 20_100, 3), (1, 1_000_000, 100), (2, 400, 2),
     (2, 20_000, 2),     (2, 30_000, 3), (5, 50_000, 5), (5, 50_100, 6), (5, 100_000, 10)],
)  # fmt: skip
def test_number_of_parts(definition: PartitionKeyDefinition, count: int, ceiling: int, parts: int) -> None:
    before = made(count, definition)
    after = split_ranges(before, ceiling, definition)
    assert len(after) == parts
    assert (after is before or after == before) is (parts == count)


@pytest.mark.parametrize("definition", DEFINITIONS)
def test_even_parts_of_one_range_are_those_of_a_new_container(definition: PartitionKeyDefinition) -> None:
    after = split_ranges(made(1, definition), 50_000, definition)
    assert [(each.lower, each.upper) for each in after] == divide_key_space(5, definition)


@settings(deadline=None)
@given(st.sampled_from(DEFINITIONS), st.integers(1, 8), st.lists(st.integers(4, 1000), min_size=1, max_size=4))
def test_every_growth(definition: PartitionKeyDefinition, count: int, hundreds: list[int]) -> None:
    """No gap, no overlap; no id comes twice; what is not split stays; children divide their parent; none is much wider."""
    found = made(count, definition)
    seen = {each.id for each in found}
    for each in hundreds:
        before, found = found, split_ranges(found, each * 100, definition)
        assert (found[0].lower, found[-1].upper) == ("", "FF")
        assert all(a.upper == b.lower for a, b in pairwise(found))
        assert all(range_width(part.lower, part.upper, definition) > 0 for part in found)
        by_id = {part.id: part for part in before}
        for part in found:
            if part.id in by_id:
                assert part == by_id[part.id]
            else:
                assert part.id not in seen
                parent = by_id[part.parents[-1]]
                assert part.parents == (*parent.parents, parent.id)
        seen |= {part.id for part in found}
        widths = [range_width(part.lower, part.upper, definition) for part in found]
        assert max(widths) <= 2 * min(widths) + 2 * len(found)
