"""Parsing of intervals, in the part of ISO 8601 that YQL supports: weeks, days, hours, minutes and seconds.

`P[nW][nD][T[nH][nM][n[.f]S]]`: capital letters, each part at most once and in this order, at least one part, `T` only
before hours, minutes or seconds; a sign may come first. There are no months and years, whose lengths vary.
Source: https://ydb.tech/docs/en/yql/reference/types/primitive#datetime
"""

from __future__ import annotations

import re
from typing import Final

from mayflydb.model.instant import DAY, HOUR, MINUTE, SECOND

WEEK: Final = 7 * DAY

MAX_INTERVAL: Final = 49_673 * DAY - 1
"""The largest Interval in microseconds; its negative is the smallest."""

MAX_INTERVAL_64: Final = 9_223_339_708_799_999_999
"""The largest Interval64: from the first Timestamp64 to the last."""

# The look-aheads refuse `P` and `T` with no part behind them. Digits are limited so that no sum is large.
_GRAMMAR: Final = re.compile(
    r"([+-])?P(?=[0-9T])(?:([0-9]{1,9})W)?(?:([0-9]{1,9})D)?"
    r"(?:T(?=[0-9])(?:([0-9]{1,13})H)?(?:([0-9]{1,13})M)?(?:([0-9]{1,13})(?:\.([0-9]{1,6}))?S)?)?",
    re.ASCII,
)


def parse(text: str, longest: int = MAX_INTERVAL) -> int | None:
    """Parse an interval into microseconds; None for any other text, or an interval longer than `longest`."""
    match = _GRAMMAR.fullmatch(text)
    if match is None:
        return None
    sign, weeks, days, hours, minutes, seconds, fraction = match.groups()
    parts = zip((weeks, days, hours, minutes, seconds), (WEEK, DAY, HOUR, MINUTE, SECOND), strict=True)
    length = sum(int(part) * unit for part, unit in parts if part) + int((fraction or "").ljust(6, "0"))
    if length > longest:
        return None
    return -length if sign == "-" else length
