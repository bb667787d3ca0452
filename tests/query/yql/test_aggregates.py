"""Aggregates over columns: type and result. NULL is ignored."""

from __future__ import annotations

import random
from typing import Any

import pytest

from mayflydb.query.yql import functions
from mayflydb.query.yql.expression import Invocation
from mayflydb.query.yql.faults import Fault
from mayflydb.query.yql.plans.scopes import slot
from mayflydb.query.yql.types import (
    BOOL,
    DATE,
    DECIMAL_INF,
    DECIMAL_NAN,
    DOUBLE,
    FLOAT,
    INT32,
    INT64,
    INTERVAL,
    JSON,
    STRING,
    TIMESTAMP,
    UINT8,
    UINT32,
    UINT64,
    UTF8,
    DecimalType,
    Type,
    optional,
)
from yql_calling import HERE, aggregated

MONEY = DecimalType(22, 9)
I32 = optional(INT32)

ROWS = [
    ("COUNT", [I32], [1, None, 3], "Uint64", 2),
    ("COUNT", [I32], [], "Uint64", 0),
    ("SUM", [INT32], [1, 2, 3], "Int64", 6),
    ("SUM", [I32], [1, None, 3], "Int64?", 4),
    ("SUM", [I32], [None], "Int64?", None),
    ("SUM", [I32], [], "Int64?", None),
    ("SUM", [UINT8], [200, 100], "Uint64", 300),
    ("SUM", [INT64], [2**63 - 1, 1], "Int64", -(2**63)),
    ("SUM", [UINT64], [2**64 - 1, 2], "Uint64", 1),
    ("SUM", [FLOAT], [1.5, 2.0], "Double", 3.5),
    ("SUM", [MONEY], [1_500_000_000, 500_000_000], "Decimal(35,9)", 2_000_000_000),
    ("SUM", [INTERVAL], [5, 6], "Interval", 11),
    ("AVG", [INT32], [1, 2], "Double", 1.5),
    ("AVG", [I32], [1, None, 2], "Double?", 1.5),
    ("AVG", [I32], [], "Double?", None),
    ("AVG", [MONEY], [1_000_000_000, 2_000_000_000], "Decimal(22,9)", 1_500_000_000),
    ("AVG", [INTERVAL], [5, 6], "Interval", 5),
    ("AVG", [INTERVAL], [-5, -6], "Interval", -5),
    ("MIN", [optional(UTF8)], ["b", None, "a"], "Utf8?", "a"),
    ("MAX", [TIMESTAMP], [5, 9, 7], "Timestamp", 9),
    ("MAX", [optional(DATE)], [None], "Date?", None),
    ("SOME", [I32], [None, 4, 5], "Int32?", 4),
    ("AGGREGATE_LIST", [I32], [1, None, 1], "List<Int32>", [1, 1]),
    ("AggregateList", [I32], [], "List<Int32>", []),
    ("AGG_LIST_DISTINCT", [STRING], [b"a", b"b", b"a"], "List<String>", [b"a", b"b"]),
    ("COUNT_IF", [optional(BOOL)], [True, None, False, True], "Uint64", 2),
    ("BOOL_AND", [optional(BOOL)], [True, None, True], "Bool?", None),
    ("BOOL_AND", [optional(BOOL)], [True, None, False], "Bool?", False),
    ("BOOL_AND", [optional(BOOL)], [None], "Bool?", None),
    ("BOOL_AND", [optional(BOOL)], [], "Bool?", None),
    ("BOOL_AND", [BOOL], [True, True], "Bool", True),
    ("BOOL_OR", [optional(BOOL)], [False, None], "Bool?", None),
    ("BOOL_OR", [optional(BOOL)], [False, None, True], "Bool?", True),
    ("BOOL_XOR", [optional(BOOL)], [True, None], "Bool?", None),
    ("BOOL_OR", [BOOL], [False, False], "Bool", False),
    ("BOOL_XOR", [BOOL], [True, True, True], "Bool", True),
    ("BIT_AND", [UINT32], [7, 5], "Uint32", 5),
    ("BIT_OR", [UINT32], [1, 4], "Uint32", 5),
    ("BIT_XOR", [UINT32], [7, 5], "Uint32", 2),
]


@pytest.mark.parametrize(("name", "kinds", "values", "kind", "expected"), ROWS)
def test_one_column(name: Any, kinds: Any, values: Any, kind: Any, expected: Any) -> None:
    assert aggregated(name, kinds, [(each,) for each in values]) == (kind, expected)


PAIRS = [
    ("SUM_IF", [INT32, BOOL], [(1, True), (2, False), (4, True)], (), "Int64?", 5),
    ("SUM_IF", [INT32, BOOL], [(1, False)], (), "Int64?", None),
    ("AVG_IF", [INT32, optional(BOOL)], [(1, True), (2, None), (4, True)], (), "Double?", 2.5),
    ("MIN_BY", [STRING, I32], [(b"a", 3), (b"b", 1), (b"c", None)], (), "String?", b"b"),
    ("MAX_BY", [STRING, INT32], [(b"a", 3), (b"b", 1)], (), "String", b"a"),
    ("MAX_BY", [STRING, INT32], [(b"a", 3), (b"b", 1), (b"c", 3), (b"d", 3)], (2,), "List<String>", [b"a", b"c"]),
    ("TOP_BY", [STRING, INT32], [(b"a", 3), (b"b", 1), (b"c", 2)], (2,), "List<String>", [b"a", b"c"]),
    ("BOTTOM_BY", [STRING, INT32], [(b"a", 3), (b"b", 1), (b"c", 2)], (1,), "List<String>", [b"b"]),
    ("TOP", [I32], [(3,), (None,), (9,), (1,)], (2,), "List<Int32>", [9, 3]),
    ("BOTTOM", [DOUBLE], [(3.0,), (9.0,), (1.0,)], (2,), "List<Double>", [1.0, 3.0]),
    ("AGGREGATE_LIST", [INT32], [(3,), (9,), (1,)], (2,), "List<Int32>", [3, 9]),
    ("COUNT", [], [(), ()], (), "Uint64", 2),
]


@pytest.mark.parametrize(("name", "kinds", "rows", "constants", "kind", "expected"), PAIRS)
def test_several_operands(name: Any, kinds: Any, rows: Any, constants: Any, kind: Any, expected: Any) -> None:
    assert aggregated(name, kinds, rows, *constants) == (kind, expected)


@pytest.mark.parametrize(
    ("name", "kinds"),
    [("SUM", [STRING]), ("MIN", [JSON]), ("BOOL_AND", [INT32]), ("SUM", [INT32, INT32]), ("COUNT_IF", [INT32])],
)
def test_refused(name: Any, kinds: Any) -> None:
    with pytest.raises(Fault) as caught:
        aggregated(name, kinds, [])
    assert caught.value.issues[0].message == "Type annotation"
    assert caught.value.issues[0].issues[0].message == f"At function: {name}"


def test_top_keeps_few_of_many(chance: random.Random) -> None:
    values = [chance.randrange(10**9) for _ in range(1000)]
    assert aggregated("TOP", [INT64], [(each,) for each in values], 5)[1] == sorted(values, reverse=True)[:5]


STATISTICS = [
    ("STDDEV", [INT32], [(2,), (4,), (4,), (4,), (5,), (5,), (7,), (9,)], (), "Double", 2.138089935299395),
    ("STDDEV_POPULATION", [INT32], [(2,), (4,), (4,), (4,), (5,), (5,), (7,), (9,)], (), "Double", 2.0),
    ("VARIANCE", [I32], [(1,), (None,), (3,)], (), "Double?", 2.0),
    ("VAR_POP", [DOUBLE], [(1.0,), (3.0,)], (), "Double", 1.0),
    ("VARIANCE", [I32], [(None,)], (), "Double?", None),
    ("CORRELATION", [INT32, INT32], [(1, 2), (2, 4), (3, 6)], (), "Double", 1.0),
    ("COVARIANCE_POPULATION", [INT32, INT32], [(1, 2), (3, 6)], (), "Double", 2.0),
    ("COVARIANCE_SAMPLE", [INT32, I32], [(1, 2), (3, 6), (4, None)], (), "Double", -2 / 3),
    ("MEDIAN", [INT32], [(1,), (9,), (4,)], (), "Double", 4.0),
    ("MEDIAN", [I32], [(1,), (2,), (None,)], (), "Double?", 1.5),
    ("PERCENTILE", [INT32], [(n,) for n in range(101)], (0.9,), "Double", 90.0),
    ("PERCENTILE", [INTERVAL], [(10,), (20,)], (0.5,), "Interval", 15),
]


@pytest.mark.parametrize(("name", "kinds", "rows", "constants", "kind", "expected"), STATISTICS)
def test_statistics(name: Any, kinds: Any, rows: Any, constants: Any, kind: Any, expected: Any) -> None:
    found = aggregated(name, kinds, rows, *constants)
    assert found[0] == kind
    assert found[1] == (None if expected is None else pytest.approx(expected))


FOLDED = ["COUNT", "SUM", "AVG", "MIN", "MAX", "SOME", "BIT_AND", "BIT_OR", "BIT_XOR", "BOOL_AND", "BOOL_OR"]
VALUES: list[tuple[Type, list[Any]]] = [
    (INT32, [0, 1, -1, 7, 2**31 - 1, -(2**31)]),
    (INT64, [0, 3, 2**63 - 1, -(2**63), -5]),
    (UINT64, [0, 3, 2**64 - 1, 2**63]),
    (BOOL, [True, False]),
    (DOUBLE, [0.0, -0.0, 0.1, 1e300, -1e300, 1e-9, float("nan"), float("inf"), float("-inf")]),
    (FLOAT, [0.0, -0.0, 0.5, float("nan")]),
    (MONEY, [0, 1, -(10**21), 10**21, DECIMAL_INF, -DECIMAL_INF, DECIMAL_NAN]),
    (INTERVAL, [0, 5, -7]),
    (UTF8, ["", "a", "b", "aa"]),
    (STRING, [b"", b"a", b"\xff"]),
    (TIMESTAMP, [0, 5, 9]),
]


@pytest.mark.parametrize("name", FOLDED)
@pytest.mark.parametrize(("type", "values"), VALUES, ids=[str(type) for type, _ in VALUES])
def test_a_fold_is_the_steps_of_its_rows(name: str, type: Type, values: list[Any], chance: random.Random) -> None:
    try:
        made = functions.find_aggregate(name)(Invocation(name, (slot(optional(type), 0),), (), HERE))  # type: ignore[misc]
    except Fault:
        return
    if made.fold is None:
        assert name not in ("COUNT", "SUM", "AVG", "MIN", "MAX")
        return
    for _ in range(50):
        stepped, folded = made.start(), made.start()
        for _ in range(chance.randrange(4)):
            rows = [chance.choice([None, *values]) for _ in range(chance.randrange(6))]
            for value in rows:
                stepped = made.step(stepped, (value,))
            folded = made.fold(folded, rows)
        # The text tells apart -0.0 and 0.0, True and 1, and knows NaN.
        assert repr(made.finish(folded)) == repr(made.finish(stepped))
