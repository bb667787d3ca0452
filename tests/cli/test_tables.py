"""Tables and lines of progress, as drawn."""

from __future__ import annotations

import click
import pytest

from mayflydb.cli.output import show
from mayflydb.cli.progress import describe
from mayflydb.cli.tables import columns_of, draw_table

ROWS = [
    {"target": "cosmos:shop/sessions", "ttl": "60s", "records": 1204, "paused": False},
    {"target": "mongo:лавка.корзины", "ttl": "until 0s, _ts 300s", "records": 7, "paused": True},
]


def test_numbers_stand_right_and_words_left() -> None:
    assert draw_table(ROWS, width=80) == [
        "target                ttl                 records  paused",
        "─" * 57,
        "cosmos:shop/sessions  60s                    1204  no",
        "mongo:лавка.корзины   until 0s, _ts 300s        7  yes",
    ]


def test_folded_columns_are_broken_and_others_are_not() -> None:
    lines = draw_table(ROWS, ("target", "ttl"), 46)
    assert max(map(columns_of, lines)) <= 46
    assert [line.split() for line in lines[2:4]] == [["cosmos:sh", "60s", "1204", "no"], ["op/sessio"]]
    assert "1204" in "".join(lines) and "until 0s, _ts" in "".join(lines)


def test_wide_characters_count_twice_and_controls_are_shown() -> None:
    lines = draw_table([{"a": "寿命", "b": "x"}, {"a": "\x1b[2J", "b": "y"}], width=80)
    assert lines[2] == "寿命     x" and lines[3] == "\\x1b[2J  y"


def test_an_amount_of_work() -> None:
    assert (
        describe("export", "records", 250, 1000, 4.0)
        == "export  [######..................]  250 of 1,000 records, 12 s left"
    )
    assert describe("advance", "deaths", 1204, None, 2.6) == "advance  1,204 deaths, 3 s"


def test_statements_have_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    context = click.Context(click.Command("show"), obj={"output": "table"})
    show(context, {"now": "x", "statements": ["ALTER TABLE a, b", "SELECT 1"], "sample": ["1", "2"]})
    assert [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()[2:]] == [
        ["now", "x"],
        ["statements", "ALTER TABLE a, b"],
        ["SELECT", "1"],
        ["sample", "1, 2"],
    ]
