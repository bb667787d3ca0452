"""The form's rules, as tables."""

from __future__ import annotations

import pytest

from mayflydb.model.instant import DAY, HOUR, MINUTE, SECOND
from mayflydb.portal import words
from mayflydb.portal.cosmos.form import read_seconds
from mayflydb.portal.forms import format_question, is_agreed

MAX = 2_147_483_647


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1), (" 30 ", 30), ("0", 0), ("", 0), ("abc", 0), ("-1", 0), ("1.5", 0), ("1e3", 0), ("٣", 0), ("²", 0),
        (str(MAX), MAX), (str(MAX + 1), MAX), ("9" * 18, MAX), ("9" * 5000, 0),
    ],
)  # fmt: skip
def test_seconds_as_the_field_reads_them(text: str, value: int) -> None:
    assert read_seconds(text) == value


@pytest.mark.parametrize(
    ("agreed", "default", "count", "expected"),
    [
        ((60, 100), 60, 100, True),
        ((60, 100), 60, 1, True),
        ((60, 100), 60, 110, True),
        ((60, 100), 60, 111, False),
        ((60, 3), 60, 4, False),
        ((60, 100), 61, 100, False),
        ((-1, 100), -1, 100, True),
        ((None, 100), -1, 100, False),
    ],
)
def test_what_was_agreed_to(agreed: tuple[int | None, int], default: int | None, count: int, expected: bool) -> None:
    assert is_agreed(format_question(*agreed), default, count) is expected


@pytest.mark.parametrize("answer", ["", "60", "60:", ":", "60:x", "60:-1", "60:100:100"])
def test_no_answer_agrees_to_nothing(answer: str) -> None:
    assert not is_agreed(answer, 60, 1)


@pytest.mark.parametrize(
    ("span", "text", "short_span"),
    [
        (0, "0 s", "0 s"),
        (999 * SECOND // 1000, "999 ms", "999 ms"),
        (SECOND, "1 s", "1 s"),
        (59 * SECOND, "59 s", "59 s"),
        (MINUTE, "1 min", "1 min"),
        (HOUR + 30 * MINUTE, "1 h 30 min", "1 h 30 min"),
        (DAY + HOUR + MINUTE + SECOND, "1 d 1 h 1 min 1 s", "1 d 1 h"),
        (2000 * DAY, "2,000 d", "2,000 d"),
        (-HOUR, "-1 h", "-1 h"),
    ],
)
def test_spans(span: int, text: str, short_span: str) -> None:
    assert (words.span(span), words.short_span(span)) == (text, short_span)


@pytest.mark.parametrize(
    ("default", "text"), [(None, "Off"), (-1, "On (no default)"), (1800, "On: 30 min"), (1, "On: 1 s")]
)
def test_time_to_live(default: int | None, text: str) -> None:
    assert words.time_to_live(default) == text
