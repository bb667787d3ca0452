"""The TTL column of a row as an anchor: the instant from which the deadline counts.

A row is due when its value is at or before now - expire_after. YDB compares the value with the wall clock, truncated to
the column's unit. The anchor is rounded towards the side on which that comparison fails, so it gives the same answer at
every instant. Source: https://ydb.tech/docs/en/concepts/ttl and
`ydb/core/tx/schemeshard/schemeshard__conditional_erase.cpp`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from mayflydb.model.due import DATE_LIMIT
from mayflydb.model.instant import DAY, MILLISECOND, SECOND, Instant, Span

DATE_TYPES: Final[Mapping[str, Span]] = {
    "Date": DAY,
    "Datetime": SECOND,
    "Timestamp": 1,
    "Date32": DAY,
    "Datetime64": SECOND,
    "Timestamp64": 1,
}
"""Types whose values are instants, and the span of one of their units."""

NUMBER_TYPES: Final = ("Uint32", "Uint64", "DyNumber")
"""Types whose values count from the epoch in one of UNITS."""

UNITS: Final[Mapping[str, Span | None]] = {
    "SECONDS": SECOND,
    "MILLISECONDS": MILLISECOND,
    "MICROSECONDS": 1,
    "NANOSECONDS": None,
}
"""The span of a unit in microseconds; None: a thousandth of one."""


def is_ttl_column(type_name: str, unit: str | None) -> bool:
    """True if a column of this type, by its name without `?`, may be a TTL column."""
    return type_name in DATE_TYPES if unit is None else type_name in NUMBER_TYPES and unit in UNITS


def anchor_of(type_name: str, unit: str | None, value: Any) -> Instant | None:
    """Return the instant in a TTL column; None if the row never expires.

    `value`: int, or Decimal for DyNumber; None is NULL. Values after the last instant never expire; values before the
    first one have long expired. Errors: ValueError for a type that cannot be a TTL column, or not with this unit.
    """
    if not is_ttl_column(type_name, unit):
        raise ValueError(f"no TTL column: {type_name} in {unit}")
    if value is None:
        return None
    instant = value * DATE_TYPES[type_name] if unit is None else _number_to_instant(type_name, unit, value)
    # The store holds no dates beyond this limit, and no clock reaches it: such a row never expires, or has long
    # expired.
    return None if instant > DATE_LIMIT else max(-DATE_LIMIT, instant)


def _number_to_instant(type_name: str, unit: str, value: Any) -> Instant:
    # The first instant at which a row is due, with expire_after 0:
    #     Uint64 SECONDS           100               100 s
    #     DyNumber SECONDS         100.5             101 s           100.5 <= 100 is false, 100.5 <= 101 is true
    #     Uint64 NANOSECONDS       100_000_001_999   100.000001 s    rounded down
    #     DyNumber NANOSECONDS     100_000_001_999   100.000002 s    rounded up
    unit_span = UNITS[unit]
    # YDB compares integers in whole nanoseconds, rounded down, and DyNumbers exactly. So a DyNumber is due at the next
    # whole unit.
    whole: int = value if type_name != "DyNumber" else math.ceil(value)
    if unit_span is not None:
        return whole * unit_span
    return whole // 1000 if type_name != "DyNumber" else -(-whole // 1000)
