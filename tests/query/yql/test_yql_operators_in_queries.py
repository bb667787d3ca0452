"""Operators and casts in queries: literals, NULL, and the texts of refusals."""

from __future__ import annotations

import asyncio

import pytest

from mayflydb.query.yql.faults import Fault
from mayflydb.query.yql.types import Value
from query.yql.memory_tables import MemoryTables, answer, plan_of

ANSWERS: list[tuple[str, str, Value]] = [
    ("1 + 1", "Int32", 2),
    ("7 / 2", "Int32?", 3),
    ("7 / 2.0", "Double", 3.5),
    ("1u - 2u", "Uint32", 4_294_967_295),
    ('Interval("PT1H") * 2', "Interval?", 7_200_000_000),
    ('Timestamp("2020-01-01T00:00:00Z") - Timestamp("2019-12-31T00:00:00Z")', "Interval", 86_400_000_000),
    ('Decimal("1", 5, 2) + 1', "Decimal(5,2)", 200),
    ('"a"u || "b"', "String", b"ab"),
    ("BITCAST(-1 AS Uint32)", "Uint32", 4_294_967_295),
    ("<|a: 1|> == <|a: 1l|>", "Bool", True),
    ("AsDict((1, 2)) != AsDict((1, 2))", "Bool", False),
    ("AsTuple(1, NULL) == AsTuple(2, NULL)", "Bool?", False),
    ("AsTuple() == AsTuple()", "Bool", True),
    ("AsTuple() != AsTuple()", "Bool", False),
    ("AsTuple() < AsTuple()", "Bool", False),
    ("AsTuple() >= AsTuple()", "Bool", True),
    ("-1 < 18446744073709551615ul", "Bool", True),
    ("CAST(Just(1) AS Utf8)", "Utf8?", "1"),
    ('CAST("12" AS Uint8)', "Uint8?", 12),
]


@pytest.mark.parametrize(("text", "type", "value"), ANSWERS)
def test_answers(text: str, type: str, value: Value) -> None:
    tables = MemoryTables()
    ((_, found),) = plan_of(f"SELECT {text}", tables).results[0]
    assert str(found) == type
    assert asyncio.run(answer(f"SELECT {text}", tables)) == [[(value,)]]


REFUSED = [
    ("1 == 'a'", "Uncompatible types in compare: Int32 '==' String"),
    ("5 & 3", "Expected unsigned data type, but got: Int32"),
    ("1 + 'a'", "Cannot add type Int32 and String"),
    ('Timestamp("2020-01-01T00:00:00Z") - 5', "Cannot substract type Timestamp and Int32"),
    ("-'a'", "Expected numeric, decimal or interval data type, but got: String"),
    ('Date("2020-01-01") + 1', "Cannot add type Date and Int32"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_refusals(text: str, message: str) -> None:
    with pytest.raises(Fault) as refusal:
        plan_of(f"SELECT {text}", MemoryTables())
    assert str(refusal.value) == message
