"""Tables with lines, and names in columns."""

from __future__ import annotations

import pytest

from mayflydb.cli.ydb.boxes import BoxRow, render_box, render_columns
from mayflydb.cli.ydb.describing import size_text

PLAIN = """\
┌─────┬───────┐
│ key │ value │
├─────┼───────┤
│ 1   │ "one" │
│ 2   │ "ß"   │
└─────┴───────┘
"""
LINES = """\
┌─────┬───────┐
│ key │ value │
├─────┼───────┤
│ 1   │ "one" │
├─────┼───────┤
│ 2   │ "two" │
└─────┴───────┘
"""
EMPTY = """\
┌────┐
│ id │
├────┤
└────┘
"""
HEADLESS = """\
┌───┬───┐
│ 1 │ 2 │
└───┴───┘
"""
NARROW = """\
┌────┬───────┐
│ id │ text  │
├────┼───────┤
│ 1  │ abcde │
│    │ fg    │
└────┴───────┘
"""
TEXT = """\
┌────┬───────┐
│ id │ ready │
├────┼───────┤
│ 1  │ true  │
├╴╴╴╴┴╴╴╴╴╴╴╴┤
│ Issues:    │
│ - abcdefgh │
│ i          │
├────┬───────┤
│ 2  │ false │
└────┴───────┘
"""


@pytest.mark.parametrize(
    ("names", "rows", "options", "expected"),
    [
        (["key", "value"], [["1", '"one"'], ["2", '"ß"']], {}, PLAIN),
        (["key", "value"], [["1", '"one"'], ["2", '"two"']], {"lines_between": True}, LINES),
        (["id"], [], {"lines_between": True}, EMPTY),
        (None, [["1", "2"]], {"lines_between": True}, HEADLESS),
        (None, [], {}, ""),
        (["id", "text"], [["1", "abcdefg"]], {"width": 14}, NARROW),
        (
            ["id", "ready"],
            [BoxRow(["1", "true"], "Issues:\n- abcdefghi"), BoxRow(["2", "false"])],
            {"lines_between": True},
            TEXT,
        ),
    ],
    ids=["plain", "lines", "empty", "headless", "nothing", "narrow", "text"],
)
def test_boxes(names: list[str] | None, rows: list[list[str]], options: dict[str, int], expected: str) -> None:
    assert render_box(names, rows, **options) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("names", "line", "expected"),
    [
        ("", 80, ""),
        ("a", 80, "a\n"),
        ("a b c", 80, "a  b  c\n"),
        ("aaaa b cc ddd e", 16, "aaaa  cc   e\nb     ddd  \n"),
        ("aaaa bbbb", 4, "aaaa\nbbbb\n"),
    ],
)
def test_columns(names: str, line: int, expected: str) -> None:
    assert render_columns(names.split(), line) == expected


@pytest.mark.parametrize(
    ("size", "expected"),
    [(0, "0 b"), (1024, "1024 b"), (1025, "1.00 Kb"), (4608, "4.50 Kb"), (3 << 20, "3.00 Mb"), (5 << 60, "5.00 Eb")],
)
def test_sizes(size: int, expected: str) -> None:
    assert size_text(size) == expected
