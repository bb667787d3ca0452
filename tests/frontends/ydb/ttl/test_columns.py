"""TTL columns: what each type and unit counts from, and when rows are due by that."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from expiry.golden import Life, T, check_life
from mayflydb.expiry.rules import Rule
from mayflydb.frontends.ydb.ttl_columns import DATE_TYPES, NUMBER_TYPES, UNITS, anchor_of, is_ttl_column
from mayflydb.model.instant import DAY, MILLISECOND, SECOND, from_rfc3339

SLOT = 17
MICROSECOND = 1
TYPES = (*DATE_TYPES, *NUMBER_TYPES, "Int32", "Int64", "Float", "Double", "Bool", "String", "Utf8", "Interval", "Json")
REFUSED = "refused"

DAYS = T // DAY
# id, type, unit, value, expire_after in seconds, deadline in microseconds (None: never).
ROWS = [
    ("YT1", "Date", None, DAYS, 60, T + 60 * SECOND),
    ("YT1", "Date32", None, DAYS, 60, T + 60 * SECOND),
    ("YT1", "Date32", None, -1, 60, -DAY + 60 * SECOND),
    ("YT2", "Datetime", None, 100, 60, 160 * SECOND),
    ("YT2", "Datetime64", None, -100, 60, -40 * SECOND),
    ("YT2", "Timestamp", None, 100_000_001, 60, 160_000_001),
    ("YT2", "Timestamp64", None, 100_000_001, 60, 160_000_001),
    ("YT3", "Uint32", "SECONDS", 100, 60, 160 * SECOND),
    ("YT3", "Uint32", "MILLISECONDS", 100_001, 60, 160_001_000),
    ("YT3", "Uint32", "MICROSECONDS", 100_000_001, 60, 160_000_001),
    ("YT3", "Uint32", "NANOSECONDS", 1_999, 60, 60_000_001),
    ("YT4", "DyNumber", "SECONDS", Decimal("100.5"), 60, 161 * SECOND),
    ("YT4", "DyNumber", "MILLISECONDS", Decimal("100000.1"), 60, 160_001_000),
    ("YT4", "DyNumber", "MICROSECONDS", Decimal("100000000.1"), 60, 160_000_001),
    ("YT4", "DyNumber", "NANOSECONDS", Decimal("100000000000.1"), 60, 160_000_001),
    *[("YT", kind, None, None, 60, None) for kind in DATE_TYPES],
    *[("YT", kind, unit, None, 60, None) for kind in NUMBER_TYPES for unit in UNITS],
    ("YV1", "Date", None, DAYS, 60, from_rfc3339("2030-01-01T00:01:00Z")),
    ("YV2", "Uint64", "SECONDS", 100, 60, 160 * SECOND),
    ("YV2", "Uint64", "MILLISECONDS", 100_001, 60, 160_001_000),
    ("YV2", "Uint64", "MICROSECONDS", 100_000_001, 60, 160_000_001),
    ("YV3", "Uint64", "NANOSECONDS", 100_000_001_999, 60, 160_000_001),
    ("YV3", "DyNumber", "NANOSECONDS", Decimal(100_000_001_999), 60, 160_000_002),
    ("YV4", "DyNumber", "SECONDS", Decimal(100), 60, 160 * SECOND),
    ("YV4", "DyNumber", "SECONDS", Decimal(-5), 60, 55 * SECOND),
    ("YV4", "DyNumber", "SECONDS", Decimal("-5.5"), 60, 55 * SECOND),
    ("YV4", "DyNumber", "SECONDS", Decimal("1E+126"), 60, None),
    ("YV4", "DyNumber", "SECONDS", Decimal("0.00000000000000000000000000000000000001"), 0, SECOND),
    ("YV4", "DyNumber", "NANOSECONDS", Decimal("1000.0000000000000000000000000000000001"), 0, 2),
    ("YV5", "Uint32", "SECONDS", 4_294_967_295, 3600, 4_294_970_895 * SECOND),
    ("YV6", "Uint64", "SECONDS", 0, 60, 60 * SECOND),
    ("YV6", "Uint64", "SECONDS", 2**64 - 1, 60, None),
    ("YV6", "Uint64", "MILLISECONDS", 2**64 - 1, 60, None),
    ("YV6", "Uint64", "MICROSECONDS", 2**64 - 1, 60, None),
    ("YV7", "Timestamp64", None, from_rfc3339("1969-12-31T23:59:00Z"), 60, 0),
    ("B7", "Datetime", None, T // SECOND, 10, T + 10 * SECOND),
    ("B7", "Uint64", "MILLISECONDS", T // MILLISECOND, 10, T + 10 * SECOND),
    ("B7", "Timestamp", None, T, 10, T + 10 * SECOND),
    ("B8", "Uint64", "NANOSECONDS", T * 1000 + 999, 10, T + 10 * SECOND),
    ("B9", "Date", None, DAYS + 1, 0, T + DAY),
    ("B9", "Date", None, DAYS, 0, T),
    ("B9", "Date", None, DAYS - 1, 0, T - DAY),
    ("B11", "Uint32", "SECONDS", 4_294_967_295, 1, 4_294_967_296 * SECOND),
]


@pytest.mark.parametrize("number", range(len(ROWS)))
@pytest.mark.parametrize("hides", [False, True])
def test_golden_rows(number: int, hides: bool) -> None:
    _, kind, unit, value, after, deadline = ROWS[number]
    anchor = anchor_of(kind, unit, value)
    rule = Rule("column", after, hides=hides, slot=SLOT, passes=True)
    life = Life(T, dates=() if anchor is None else ((SLOT, anchor),))
    check_life(life, (rule,), deadline, MICROSECOND, hides)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("unit", [None, *UNITS, "PICOSECONDS"])
def test_which_columns_may_say_when_rows_die(kind: str, unit: str | None) -> None:
    expected = kind in NUMBER_TYPES and unit in UNITS if unit else kind in DATE_TYPES
    assert is_ttl_column(kind, unit) == expected
    if not expected:
        with pytest.raises(ValueError, match="no TTL column"):
            anchor_of(kind, unit, 1)


NANOSECONDS = {"SECONDS": 10**9, "MILLISECONDS": 10**6, "MICROSECONDS": 10**3, "NANOSECONDS": 1}


@given(
    st.sampled_from(NUMBER_TYPES),
    st.sampled_from(list(UNITS)),
    st.integers(-(10**12), 10**12),
    st.integers(0, 999),
    st.integers(-(10**12), 10**12),
)
def test_the_answer_is_that_of_ydb(kind: str, unit: str, whole: int, fraction: int, now: int) -> None:
    """There, the wall clock in whole units is compared with the value; of integers in nanoseconds, in microseconds."""
    value = Decimal(whole) + Decimal(fraction) / 1000 if kind == "DyNumber" else abs(whole)
    anchor = anchor_of(kind, unit, value)
    assert anchor is not None
    wall = now * 1000 // NANOSECONDS[unit]
    if unit == "NANOSECONDS" and kind != "DyNumber":
        assert (anchor <= now) == (value // 1000 <= now)
    else:
        assert (anchor <= now) == (value <= wall)


@given(st.integers(-(2**70), 2**70), st.sampled_from(["Timestamp", "Datetime64", "Date32"]))
def test_far_away(value: int, kind: str) -> None:
    """A row with a date beyond all clocks never expires, and one with a date before all clocks is due. Stores hold both."""
    anchor = anchor_of(kind, None, value)
    assert anchor is None or -(2**62) <= anchor <= 2**62
    assert (anchor is None) == (value * DATE_TYPES[kind] > 2**62)
