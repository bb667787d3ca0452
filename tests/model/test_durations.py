"""What people write for durations and times, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayflydb.model.durations import LONGEST, format_span, parse_instant, parse_span
from mayflydb.model.instant import DAY, HOUR, MILLISECOND, MINUTE, SECOND


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("0", 0),
        ("90", 90 * SECOND),
        (" 90 ", 90 * SECOND),
        ("0.5", 500 * MILLISECOND),
        ("90s", 90 * SECOND),
        ("1h30m", 90 * MINUTE),
        ("7d", 7 * DAY),
        ("2w", 14 * DAY),
        ("1w2d3h4m5s6ms7us", 9 * DAY + 3 * HOUR + 4 * MINUTE + 5 * SECOND + 6 * MILLISECOND + 7),
        ("1.5h", 90 * MINUTE),
        ("250ms", 250 * MILLISECOND),
        ("PT1H", HOUR),
        ("PT90S", 90 * SECOND),
        ("PT0.25S", 250 * MILLISECOND),
        ("P1DT12H", 36 * HOUR),
        ("P2W", 14 * DAY),
        ("PT5M", 5 * MINUTE),
        ("9223372036854775807us", LONGEST),
    ],
)
def test_durations(text: str, span: int) -> None:
    assert parse_span(text) == span


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not a duration"),
        (" ", "not a duration"),
        ("-5", "not a duration"),
        ("soon", "not a duration"),
        ("1h 30m", "not a duration"),
        ("30m1h", "not a duration"),
        ("1h1h", "not a duration"),
        ("1H", "not a duration"),
        ("P", "not a duration"),
        ("PT", "not a duration"),
        ("P1DT", "not a duration"),
        ("pt1h", "not a duration"),
        ("1e3", "not a duration"),
        ("\u0661s", "not a duration"),
        ("0.0000001", "finer than a microsecond"),
        ("P1M", "months or years"),
        ("P1Y", "months or years"),
        ("P1Y2D", "months or years"),
        ("1M", "months or years"),
        ("2mo", "months or years"),
        ("1y", "months or years"),
        ("3 months", "months or years"),
        ("9223372036854775808us", "292,000 years"),
        ("99999999999w", "292,000 years"),
    ],
)
def test_what_is_no_duration(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_span(text)


@pytest.mark.parametrize(
    ("span", "text"),
    [(0, "0s"), (SECOND, "1s"), (90 * MINUTE, "1h30m"), (7 * DAY, "7d"), (1, "1us"), (-90 * SECOND, "-1m30s")],
)
def test_written_durations(span: int, text: str) -> None:
    assert format_span(span) == text


@given(st.integers(0, LONGEST))
def test_a_written_duration_reads_back(span: int) -> None:
    assert parse_span(format_span(span)) == span


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("0", 0),
        ("1893456000", 1_893_456_000 * SECOND),
        ("-1", -SECOND),
        ("-1.5", -1_500 * MILLISECOND),
        ("2030-01-01T00:00:00Z", 1_893_456_000 * SECOND),
        ("2030-01-01T02:00:00+02:00", 1_893_456_000 * SECOND),
        ("2030-01-01 00:00:00.000001Z", 1_893_456_000 * SECOND + 1),
        ("9999-12-31T23:59:59Z", 253_402_300_799 * SECOND),
    ],
)
def test_times(text: str, instant: int) -> None:
    assert parse_instant(text) == instant


@pytest.mark.parametrize(
    "text", ["", "now", "2030-01-01", "2030-01-01T00:00:00", "253402300800", "1e9", "2030-13-01T00:00:00Z"]
)
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time"):
        parse_instant(text)
