"""The module DateTime: examples of YQL's documentation, and the edges of types."""

from __future__ import annotations

import pytest
from yql_calling import null, text, typed, value

from mayflydb.query.yql.types import (
    DATE,
    DATETIME,
    INT64,
    INTERVAL,
    TIMESTAMP,
    TIMESTAMP64,
    TZ_DATETIME,
    UINT64,
)

NUMBERS = [
    ("FromSeconds", (1546304523,), "Timestamp?", 1546304523_000_000),
    ("FromMilliseconds", (value(UINT64, 1546304523456),), "Timestamp?", 1546304523_456_000),
    ("FromMicroseconds", (value(UINT64, 1546304523456789),), "Timestamp?", 1546304523_456_789),
    ("FromMicroseconds", (value(UINT64, 2**63),), "Timestamp?", None),
    ("FromSeconds64", (value(INT64, -1),), "Timestamp64?", -1_000_000),
    ("ToMicroseconds", (text(TIMESTAMP, "2019-01-01T01:02:03.456789Z"),), "Uint64", 1546304523456789),
    ("ToMilliseconds", (text(TIMESTAMP, "2019-01-01T01:02:03.456789Z"),), "Uint64", 1546304523456),
    ("ToSeconds", (text(DATE, "2019-09-16"),), "Uint32", 1568592000),
    ("ToSeconds", (text(DATETIME, "2019-09-16T00:00:00Z"),), "Uint32", 1568592000),
    ("ToSeconds", (text(TIMESTAMP64, "1969-12-31T23:59:59Z"),), "Int64", -1),
    ("ToSeconds", (text(TZ_DATETIME, "2019-09-16T00:00:00,Europe/Moscow"),), "Uint32", 1568581200),
    ("ToSeconds", (null(DATE),), "Uint32?", None),
    ("ToDays", (text(INTERVAL, "PT3000M"),), "Int32", 2),
    ("ToDays", (text(INTERVAL, "-PT3000M"),), "Int32", -2),
    ("ToSeconds", (text(INTERVAL, "PT1.5S"),), "Int64", 1),
    ("IntervalFromSeconds", (1000000,), "Interval?", 10**12),
    ("IntervalFromDays", (1,), "Interval?", 86_400_000_000),
    ("IntervalFromDays", (2**30,), "Interval?", None),
    ("IntervalFromMicroseconds", (-5,), "Interval?", -5),
    ("Interval64FromHours", (value(INT64, 3),), "Interval64?", 10_800_000_000),
]


@pytest.mark.parametrize(("name", "operands", "kind", "expected"), NUMBERS)
def test_numbers(name, operands, kind, expected):
    assert typed(f"DateTime::{name}", *operands) == (kind, expected)
