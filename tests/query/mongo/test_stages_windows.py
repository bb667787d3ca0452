"""`$setWindowFields`: windows, accumulators over them, functions of the order."""

from __future__ import annotations

from typing import Any

import pytest
from bson import DatetimeMS, Decimal128

from mayflydb.query.mongo.values import Document
from query.mongo.pipelines import run, run_or_code

DAY = 86_400_000
ROWS: list[Document] = [
    {"_id": 4, "p": "b", "t": 1, "n": 10},
    {"_id": 1, "p": "a", "t": 1, "n": 1},
    {"_id": 3, "p": "a", "t": 4, "n": 5},
    {"_id": 2, "p": "a", "t": 2, "n": None},
    {"_id": 5, "p": "b", "t": 2, "n": 20},
]


def compute_field(spec: Any, rows: list[Document] = ROWS) -> Any:
    """The code of the refusal, or `r` of each document by `_id`, in the order they came."""
    found = run_or_code({"c": rows}, [{"$setWindowFields": spec}])
    return found if isinstance(found, int) else [(each["_id"], each.get("r", "-")) for each in found]


def by_time(function: Document, **more: Any) -> Document:
    return {"partitionBy": "$p", "sortBy": {"t": 1}, "output": {"r": function}, **more}


WINDOWS: list[tuple[Any, Any]] = [
    ({"$sum": "$n"}, [6, 6, 6, 30, 30]),
    ({"$sum": "$n", "window": {}}, [6, 6, 6, 30, 30]),
    ({"$sum": "$n", "window": {"documents": ["unbounded", "unbounded"]}}, [6, 6, 6, 30, 30]),
    ({"$sum": "$n", "window": {"documents": ["unbounded", "current"]}}, [1, 1, 6, 10, 30]),
    ({"$sum": "$n", "window": {"documents": ["current", "unbounded"]}}, [6, 5, 5, 30, 20]),
    ({"$push": "$_id", "window": {"documents": ["unbounded", "current"]}}, [[1], [1, 2], [1, 2, 3], [4], [4, 5]]),
    ({"$push": "$_id", "window": {"documents": ["current", "unbounded"]}}, [[1, 2, 3], [2, 3], [3], [4, 5], [5]]),
    ({"$push": "$_id", "window": {"documents": [-1, 0]}}, [[1], [1, 2], [2, 3], [4], [4, 5]]),
    ({"$push": "$_id", "window": {"documents": [-1, 1]}}, [[1, 2], [1, 2, 3], [2, 3], [4, 5], [4, 5]]),
    ({"$push": "$_id", "window": {"documents": [1, 1.0]}}, [[2], [3], [], [5], []]),
    ({"$push": "$_id", "window": {"documents": [2, 5]}}, [[3], [], [], [], []]),
    ({"$push": "$_id", "window": {"documents": [-5, -2]}}, [[], [], [1], [], []]),
    ({"$push": "$_id", "window": {"documents": ["unbounded", -1]}}, [[], [1], [1, 2], [], [4]]),
    ({"$push": "$_id", "window": {"documents": [1, "unbounded"]}}, [[2, 3], [3], [], [5], []]),
    ({"$push": "$_id", "window": {"range": [-1, 0]}}, [[1], [1, 2], [3], [4], [4, 5]]),
    ({"$push": "$_id", "window": {"range": [0, 2.5]}}, [[1, 2], [2, 3], [3], [4, 5], [5]]),
    ({"$push": "$_id", "window": {"range": [-2, -1]}}, [[], [1], [2], [], [4]]),
    ({"$push": "$_id", "window": {"range": ["unbounded", "current"]}}, [[1], [1, 2], [1, 2, 3], [4], [4, 5]]),
    ({"$push": "$_id", "window": {"range": ["current", "unbounded"]}}, [[1, 2, 3], [2, 3], [3], [4, 5], [5]]),
    ({"$min": "$n", "window": {"documents": ["current", "unbounded"]}}, [1, 5, 5, 10, 20]),
    ({"$max": "$n", "window": {"documents": [-1, 0]}}, [1, 1, 5, 10, 20]),
    ({"$avg": "$n"}, [3.0, 3.0, 3.0, 15.0, 15.0]),
    ({"$count": {}, "window": {"documents": ["unbounded", "current"]}}, [1, 2, 3, 1, 2]),
    ({"$first": "$n", "window": {"documents": [-1, 0]}}, [1, 1, None, 10, 10]),
    ({"$last": "$n"}, [5, 5, 5, 20, 20]),
    ({"$first": "$n", "window": {"documents": [1, 1]}}, [None, 5, None, 20, None]),
    ({"$addToSet": "$p"}, [["a"]] * 3 + [["b"]] * 2),
    ({"$top": {"sortBy": {"n": -1}, "output": "$_id"}}, [3, 3, 3, 5, 5]),
    ({"$covariancePop": ["$n", "$t"]}, [3.0, 3.0, 3.0, 2.5, 2.5]),
    ({"$covariancePop": [{"$toDecimal": "$n"}, "$t"]}, [Decimal128("3.0")] * 3 + [Decimal128("2.5")] * 2),
    ({"$covariancePop": ["$n"]}, [None] * 5),
    ({"$covariancePop": "$n"}, [None] * 5),
    (
        {"$covarianceSamp": ["$n", "$t"], "window": {"documents": ["unbounded", "current"]}},
        [None, None, 6.0, None, 5.0],
    ),
]


@pytest.mark.parametrize(("function", "expected"), WINDOWS)
def test_accumulators_over_windows(function: Document, expected: list[Any]) -> None:
    assert compute_field(by_time(function)) == list(zip([1, 2, 3, 4, 5], expected, strict=True))


TIES: list[Document] = [{"_id": number, "s": score} for number, score in enumerate([7, 9, 9, 10, 10, 10, 12])]

RANKS: list[tuple[str, int, list[int]]] = [
    ("$rank", 1, [1, 2, 2, 4, 4, 4, 7]),
    ("$denseRank", 1, [1, 2, 2, 3, 3, 3, 4]),
    ("$documentNumber", 1, [1, 2, 3, 4, 5, 6, 7]),
    ("$rank", -1, [1, 2, 2, 2, 5, 5, 7]),
    ("$denseRank", -1, [1, 2, 2, 2, 3, 3, 4]),
]


@pytest.mark.parametrize(("name", "direction", "expected"), RANKS)
def test_ranks(name: str, direction: int, expected: list[int]) -> None:
    found = compute_field({"sortBy": {"s": direction}, "output": {"r": {name: {}}}}, TIES)
    assert [rank for _, rank in found] == expected


def at_days(*days: float) -> list[Document]:
    return [{"_id": number, "d": DatetimeMS(int(day * DAY)), "n": number * number} for number, day in enumerate(days)]


SERIES: list[Document] = [
    {"_id": 0, "t": 0, "n": 2},
    {"_id": 1, "t": 1},
    {"_id": 2, "t": 3, "n": None},
    {"_id": 3, "t": 4, "n": 10},
    {"_id": 4, "t": 5, "n": None},
]

ORDERED: list[tuple[Document, list[Document], str, list[Any]]] = [
    ({"$shift": {"output": "$n", "by": 1}}, SERIES, "t", ["-", None, 10, None, None]),
    ({"$shift": {"output": "$_id", "by": -1, "default": "none"}}, SERIES, "t", ["none", 0, 1, 2, 3]),
    ({"$shift": {"output": "$_id", "by": -2.0, "default": {"$add": [1, 1]}}}, SERIES, "t", [2, 2, 0, 1, 2]),
    ({"$shift": {"output": "$_id", "by": 0}}, SERIES, "t", [0, 1, 2, 3, 4]),
    ({"$locf": "$n"}, SERIES, "t", [2, 2, 2, 10, 10]),
    ({"$locf": "$nope"}, SERIES, "t", [None] * 5),
    ({"$linearFill": "$n"}, SERIES, "t", [2, 4.0, 8.0, 10, None]),
    ({"$expMovingAvg": {"input": "$_id", "N": 3}}, SERIES, "t", [0, 0.5, 1.25, 2.125, 3.0625]),
    ({"$expMovingAvg": {"input": "$_id", "alpha": 0.75}}, SERIES, "t", [0, 0.75, 1.6875, 2.671875, 3.66796875]),
    ({"$expMovingAvg": {"input": "$n", "N": 1}}, SERIES, "t", [2, None, None, 10.0, None]),
    ({"$derivative": {"input": "$_id"}, "window": {"documents": [-1, 0]}}, SERIES, "t", [None, 1.0, 0.5, 1.0, 1.0]),
    ({"$derivative": {"input": "$n"}, "window": {"documents": ["unbounded", "current"]}}, SERIES, "t",
     [None, None, None, 2.0, None]),
    ({"$derivative": {"input": "$n", "unit": "day"}, "window": {"documents": [-1, 0]}}, at_days(0, 1, 3), "d", [None, 1.0, 1.5]),
    ({"$derivative": {"input": "$n", "unit": "hour"}, "window": {"documents": [-1, 0]}}, at_days(0, 1), "d", [None, 1 / 24]),
    ({"$integral": {"input": "$_id"}, "window": {"documents": ["unbounded", "current"]}}, SERIES, "t", [0, 0.5, 3.5, 6.0, 9.5]),
    ({"$integral": {"input": "$n", "unit": "day"}}, at_days(0, 1, 3), "d", [5.5, 5.5, 5.5]),
    ({"$push": "$_id", "window": {"range": [-1, 0], "unit": "day"}}, at_days(0, 0.5, 1, 2.5), "d", [[0], [0, 1], [0, 1, 2], [3]]),
    ({"$push": "$_id", "window": {"range": [-1, "current"], "unit": "month"}}, at_days(0, 30, 31, 59), "d",
     [[0], [0, 1], [0, 1, 2], [2, 3]]),
    ({"$push": "$_id", "window": {"range": [0, 1], "unit": "week"}}, at_days(0, 7, 14.1), "d", [[0, 1], [1], [2]]),
]  # fmt: skip


@pytest.mark.parametrize(("function", "rows", "field", "expected"), ORDERED)
def test_functions_of_the_order(function: Document, rows: list[Document], field: str, expected: list[Any]) -> None:
    found = compute_field({"sortBy": {field: 1}, "output": {"r": function}}, rows)
    assert found == list(enumerate(expected))


def test_decimals_remain_decimals() -> None:
    rows = [{"_id": number, "n": Decimal128(str(number))} for number in range(2)]
    spec = {"sortBy": {"_id": 1}, "output": {"r": {"$expMovingAvg": {"input": "$n", "alpha": Decimal128("0.5")}}}}
    assert compute_field(spec, rows) == [(0, Decimal128("0")), (1, Decimal128("0.5"))]


def test_outputs_see_the_documents_as_they_were_and_go_where_they_say() -> None:
    output = {"n": {"$sum": "$n"}, "x.total": {"$sum": "$n"}}
    assert run({"c": [{"n": 1, "x": {"y": 0}}, {"n": 2}]}, [{"$setWindowFields": {"output": output}}]) == [
        {"n": 3, "x": {"y": 0, "total": 3}},
        {"n": 3, "x": {"total": 3}},
    ]


def test_partitions_come_in_their_order_with_missing_as_null() -> None:
    rows: list[Document] = [
        {"_id": 1, "p": 2},
        {"_id": 2},
        {"_id": 3, "p": 1},
        {"_id": 4, "p": None},
        {"_id": 5, "p": 2.0},
    ]
    found = compute_field({"partitionBy": "$p", "output": {"r": {"$push": "$_id"}}}, rows)
    assert found == [(2, [2, 4]), (4, [2, 4]), (3, [3]), (1, [1, 5]), (5, [1, 5])]


REFUSED: list[tuple[Any, int]] = [
    (1, 9),
    ({}, 40414),
    ({"output": 1}, 14),
    ({"output": {}, "sortBy": 1}, 14),
    ({"output": {}, "more": 1}, 40415),
    ({"output": {"a": {"$sum": 1}, "a.b": {"$sum": 1}}}, 6307900),
    ({"output": {"a": 1}}, 9),
    ({"output": {"a": {}}}, 9),
    ({"output": {"a": {"x": 1}}}, 9),
    ({"output": {"a": {"$nope": 1}}}, 9),
    ({"output": {"a": {"$sum": 1, "more": 1}}}, 9),
    ({"output": {"a": {"$count": 1}}}, 9),
    ({"output": {"$a": {"$sum": 1}}}, 16410),
    ({"output": {"a": {"$rank": {}}}}, 5371602),
    ({"output": {"a": {"$documentNumber": {}}}}, 5371602),
    ({"output": {"a": {"$shift": {"output": "$a", "by": 1}}}}, 9),
    ({"output": {"a": {"$linearFill": "$a"}}}, 605001),
    ({"output": {"a": {"$expMovingAvg": {"input": "$a", "N": 1}}}}, 9),
    ({"output": {"a": {"$derivative": {"input": "$a"}, "window": {}}}}, 9),
    ({"output": {"a": {"$sum": 1, "window": {"documents": [0, 1]}}}}, 5339901),
    ({"output": {"a": {"$sum": 1, "window": {"range": [0, 1]}}}}, 5339902),
    ({"output": {}, "partitionBy": ["$a"]}, 14),
    ({"output": {}, "sortBy": {"a": 2}}, 15975),
]


@pytest.mark.parametrize(("spec", "code"), REFUSED)
def test_a_stage_is_refused(spec: Any, code: int) -> None:
    assert run_or_code({"c": [{"_id": 1, "a": 1}]}, [{"$setWindowFields": spec}]) == code


FUNCTIONS_REFUSED: list[tuple[Document, int]] = [
    ({"$rank": {}, "window": {}}, 5371601),
    ({"$rank": 1}, 5371603),
    ({"$shift": 1}, 9),
    ({"$shift": {"by": 1}}, 9),
    ({"$shift": {"output": 1}}, 9),
    ({"$shift": {"output": 1, "by": "1"}}, 9),
    ({"$shift": {"output": 1, "by": 1.5}}, 9),
    ({"$shift": {"output": 1, "by": 1, "more": 1}}, 9),
    ({"$shift": {"output": 1, "by": 1}, "window": {}}, 9),
    ({"$locf": "$a", "window": {}}, 9),
    ({"$linearFill": "$a", "window": {}}, 9),
    ({"$linearFill": "text"}, 6050201),
    ({"$expMovingAvg": 1}, 9),
    ({"$expMovingAvg": {"input": 1}}, 9),
    ({"$expMovingAvg": {"input": 1, "N": 0}}, 9),
    ({"$expMovingAvg": {"input": 1, "N": 1.5}}, 9),
    ({"$expMovingAvg": {"input": 1, "N": "1"}}, 9),
    ({"$expMovingAvg": {"input": 1, "alpha": 0}}, 9),
    ({"$expMovingAvg": {"input": 1, "alpha": 1}}, 9),
    ({"$expMovingAvg": {"input": 1, "alpha": "1"}}, 9),
    ({"$derivative": {"input": 1}}, 9),
    ({"$derivative": {}, "window": {}}, 9),
    ({"$derivative": {"input": 1, "unit": "eon"}, "window": {}}, 9),
    ({"$derivative": {"input": 1, "unit": "month"}, "window": {}}, 5490704),
    ({"$derivative": {"input": 1, "unit": "day"}, "window": {}}, 5624900),
    ({"$derivative": {"input": "text"}, "window": {}}, 5624903),
    ({"$integral": {"input": "text"}}, 5624903),
    ({"$sum": 1, "window": 1}, 9),
    ({"$sum": 1, "window": {"more": 1}}, 9),
    ({"$sum": 1, "window": {"documents": [0, 1], "range": [0, 1]}}, 9),
    ({"$sum": 1, "window": {"documents": [0, 1], "unit": "day"}}, 9),
    ({"$sum": 1, "window": {"documents": [0, 1], "more": 1}}, 9),
    ({"$sum": 1, "window": {"documents": [0]}}, 9),
    ({"$sum": 1, "window": {"documents": 1}}, 9),
    ({"$sum": 1, "window": {"documents": [0, "soon"]}}, 9),
    ({"$sum": 1, "window": {"documents": [0, 1.5]}}, 9),
    ({"$sum": 1, "window": {"documents": [0, "$a"]}}, 9),
    ({"$sum": 1, "window": {"documents": [1, 0]}}, 5339900),
    ({"$sum": 1, "window": {"documents": ["current", -1]}}, 5339900),
    ({"$sum": 1, "window": {"range": [1, 0]}}, 5339900),
    ({"$sum": 1, "window": {"range": [0, "1"]}}, 9),
    ({"$sum": 1, "window": {"range": [0, None]}}, 9),
    ({"$sum": 1, "window": {"range": [0, 1.5], "unit": "day"}}, 9),
    ({"$sum": 1, "window": {"range": [0, 1], "unit": 1}}, 9),
    ({"$sum": 1, "window": {"range": [0, 1], "unit": "eon"}}, 9),
    ({"$sum": 1, "window": {"range": [0, 1], "more": 1}}, 9),
    ({"$sum": 1, "window": {"range": [0, 1], "unit": "day"}}, 5429513),
]


@pytest.mark.parametrize(("function", "code"), FUNCTIONS_REFUSED)
def test_a_function_is_refused(function: Document, code: int) -> None:
    assert run_or_code({"c": ROWS}, [{"$setWindowFields": by_time(function)}]) == code


SORTS_REFUSED: list[tuple[Document, Document, int]] = [
    ({"t": -1}, {"$sum": 1, "window": {"range": [0, 1]}}, 8947401),
    ({"t": 1, "n": 1}, {"$sum": 1, "window": {"range": [0, 1]}}, 5339902),
    ({"t": 1, "n": 1}, {"$rank": {}}, 5371602),
    ({"t": 1, "n": 1}, {"$linearFill": "$n"}, 605001),
    ({"p": 1}, {"$sum": 1, "window": {"range": [0, 1]}}, 5429413),
    ({"p": 1}, {"$integral": {"input": "$n"}}, 5624902),
    ({"t": 1}, {"$linearFill": "$n"}, 6050106),
    ({"p": 1}, {"$linearFill": "$n"}, 6050105),
]


@pytest.mark.parametrize(("sort_by", "function", "code"), SORTS_REFUSED)
def test_an_order_is_refused(sort_by: Document, function: Document, code: int) -> None:
    assert run_or_code({"c": ROWS}, [{"$setWindowFields": {"sortBy": sort_by, "output": {"r": function}}}]) == code
