"""The pure part of roll-ups: units of time, functions, texts of groups."""

from __future__ import annotations

import pytest

from mayflydb.expiry.roll_up import (
    LONGEST_TEXT,
    Aggregate,
    Arithmetic,
    Function,
    GroupTallies,
    Reading,
    RollUp,
    Unit,
    add_tally,
    combine,
    shorten_bytes,
    shorten_text,
    text_of,
    truncate,
    value_at,
)
from mayflydb.model.instant import LAST_INSTANT, from_rfc3339, to_rfc3339

PLAIN = Arithmetic()


@pytest.mark.parametrize(
    ("instant", "unit", "beginning", "text"),
    [
        ("2030-01-01T00:00:00Z", "hour", "2030-01-01T00:00:00Z", "2030-01-01T00"),
        ("2030-01-01T00:59:59.999999Z", "hour", "2030-01-01T00:00:00Z", "2030-01-01T00"),
        ("2030-01-01T01:00:00Z", "hour", "2030-01-01T01:00:00Z", "2030-01-01T01"),
        ("2030-01-01T23:59:59.999999Z", "day", "2030-01-01T00:00:00Z", "2030-01-01"),
        ("2030-01-02T00:00:00Z", "day", "2030-01-02T00:00:00Z", "2030-01-02"),
        ("2028-02-29T23:59:59Z", "month", "2028-02-01T00:00:00Z", "2028-02"),
        ("2030-12-31T23:59:59Z", "month", "2030-12-01T00:00:00Z", "2030-12"),
        ("1970-01-01T00:00:00Z", "month", "1970-01-01T00:00:00Z", "1970-01"),
    ],
)
def test_an_instant_lies_in_the_unit_that_begins_before_it(instant: str, unit: Unit, beginning: str, text: str) -> None:
    found = truncate(from_rfc3339(instant), unit)
    assert (to_rfc3339(found), text_of(found, unit)) == (beginning, text)


@pytest.mark.parametrize(
    ("instant", "text"), [(-(1 << 80), "1970-01"), (1 << 80, "9999-12"), (LAST_INSTANT, "9999-12")]
)
def test_instants_without_a_date_are_in_the_nearest_one(instant: int, text: str) -> None:
    assert text_of(truncate(instant, "month"), "month") == text


@pytest.mark.parametrize(
    ("function", "one", "other", "both"),
    [
        ("sum", 1, 2, 3),
        ("min", 1, 2, 1),
        ("min", 2, 1, 1),
        ("max", 1, 2, 2),
        ("max", 2, 1, 2),
        ("sum", None, 2, 2),
        ("min", 1, None, 1),
        ("max", None, None, None),
    ],
)
def test_functions(function: Function, one: int | None, other: int | None, both: int | None) -> None:
    assert combine(function, one, other, PLAIN) == both


def test_values_at_one_path_are_skipped_once() -> None:
    roll_up = RollUp(
        1,
        ("s", "d", "c"),
        aggregates=(Aggregate("a", "sum", ("x",)), Aggregate("b", "max", ("x",)), Aggregate("c", "sum", ("y",))),
        count="n",
        skipped="s",
    )
    tallies = GroupTallies(roll_up, PLAIN)
    for numbers in ((1, 2), (None, 3), (None, None)):
        tallies.add(Reading("k", "g", numbers))
    (tally,) = tallies
    present = {"n": 10, "a": 5}
    assert add_tally(roll_up, tally, present, lambda name, value: value, PLAIN) == {
        "n": 13,
        "s": 3,
        "a": 6,
        "b": 1,
        "c": 5,
    }


def test_long_texts_are_cut_and_stay_different() -> None:
    assert shorten_text("x" * LONGEST_TEXT) == "x" * LONGEST_TEXT
    long = [shorten_text("x" * LONGEST_TEXT + end) for end in ("a", "b", "\ud800")]
    assert len(set(long)) == 3
    assert max(map(len, long)) <= LONGEST_TEXT
    data = [shorten_bytes(b"x" * LONGEST_TEXT + end) for end in (b"", b"a", b"b")]
    assert len(set(data)) == 3
    assert max(map(len, data)) <= LONGEST_TEXT


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("a",), {"b": 1}),
        (("a", "b"), 1),
        (("a", "c"), None),
        (("a", "b", "c"), None),
        (("d", "0"), None),
        (("e",), None),
    ],
)
def test_a_path_leads_through_objects_alone(path: tuple[str, ...], value: object) -> None:
    assert value_at({"a": {"b": 1}, "d": [1]}, path) == value
