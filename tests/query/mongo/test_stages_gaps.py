"""`$densify` and `$fill`."""

from __future__ import annotations

from typing import Any

import pytest
from bson import DatetimeMS, Int64

from mayflydb.query.mongo.values import Document
from query.mongo.pipelines import run, run_or_code

HOUR = 3_600_000
COFFEE: list[Document] = [
    {"_id": 1, "v": "typica", "alt": 600},
    {"_id": 2, "v": "typica", "alt": 750},
    {"_id": 3, "v": "typica", "alt": 950},
    {"_id": 4, "v": "gesha", "alt": 1250},
    {"_id": 5, "v": "gesha", "alt": 1700},
]

DENSE: list[tuple[Any, Any]] = [
    ({"partitionByFields": ["v"], "range": {"bounds": "partition", "step": 200}},
     [("gesha", 1250), ("gesha", 1450), ("gesha", 1650), ("gesha", 1700),
      ("typica", 600), ("typica", 750), ("typica", 800), ("typica", 950)]),
    ({"partitionByFields": ["v"], "range": {"bounds": "full", "step": 500}},
     [("typica", 600), ("gesha", 600), ("typica", 750), ("typica", 950), ("typica", 1100), ("gesha", 1100), ("gesha", 1250),
      ("typica", 1600), ("gesha", 1600), ("gesha", 1700)]),
    ({"range": {"bounds": "full", "step": 500}},
     [("typica", 600), ("typica", 750), ("typica", 950), (None, 1100), ("gesha", 1250), (None, 1600), ("gesha", 1700)]),
    ({"range": {"bounds": [600, 1000], "step": 200}},
     [("typica", 600), ("typica", 750), (None, 800), ("typica", 950), ("gesha", 1250), ("gesha", 1700)]),
    ({"partitionByFields": ["v"], "range": {"bounds": [1700, 1900], "step": 100}},
     [("gesha", 1250), ("gesha", 1700), ("gesha", 1800), ("typica", 600), ("typica", 750), ("typica", 950), ("typica", 1700),
      ("typica", 1800)]),
    ({"range": {"bounds": "full", "step": 0}}, 5733401),
    ({"range": {"bounds": "full", "step": -1}}, 5733401),
    ({"range": {"bounds": "full", "step": "1"}}, 5733401),
    ({"range": {"bounds": "partition", "step": 1}}, 5733408),
    ({"range": {"bounds": "other", "step": 1}}, 5946802),
    ({"range": {"bounds": 1, "step": 1}}, 5733404),
    ({"range": {"bounds": [1], "step": 1}}, 5733403),
    ({"range": {"bounds": [2, 1], "step": 1}}, 5733402),
    ({"range": {"bounds": [1, 2], "step": 1, "unit": "day"}}, 5733409),
    ({"range": {"bounds": [1, "a"], "step": 1}}, 5733406),
    ({"range": {"bounds": [1, 2.0], "step": 1}}, 5876900),
    ({"range": {"bounds": [Int64(1), Int64(2)], "step": 1}}, 5876900),
    ({"range": {"bounds": [DatetimeMS(1), DatetimeMS(2)], "step": 1}}, 5733410),
    ({"range": {"bounds": [DatetimeMS(1), None], "step": 1, "unit": "day"}}, 5733402),
    ({"range": {"bounds": ["a", "b"], "step": 1}}, 5946800),
    ({"range": {"bounds": "full", "step": 1, "unit": "day"}}, 6053600),
    ({"range": {"bounds": "full", "step": 1.5, "unit": "day"}}, 6586400),
    ({"range": {"bounds": "full", "step": 1, "unit": "eon"}}, 9),
    ({"range": {"bounds": "full"}}, 40414),
    ({"range": {"step": 1}}, 40414),
    ({"range": {"step": 1, "bounds": "full", "more": 1}}, 40415),
    ({"range": 1}, 14),
    ({}, 40414),
    ({"field": 1, "range": {"bounds": "full", "step": 1}}, 14),
    ({"field": "v", "range": {"bounds": "full", "step": 1}}, 5733201),
    ({"partitionByFields": ["alt"], "range": {"bounds": "full", "step": 1}}, 8993000),
    ({"more": 1}, 40415),
    ({"range": {"bounds": [0, 600000], "step": 1}}, 5897900),
    ({"range": {"bounds": [1e20, 1e21], "step": 1.0}}, 5897900),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "expected"), DENSE)
def test_densify(spec: Any, expected: Any) -> None:
    found = run_or_code({"c": COFFEE}, [{"$densify": {"field": "alt", **spec}}])
    if isinstance(found, list):
        found = [(each.get("v"), each["alt"]) for each in found]  # type: ignore[misc]
    assert found == expected


def test_densify_of_dates() -> None:
    rows: list[Document] = [{"t": DatetimeMS(0)}, {"n": 1}, {"t": DatetimeMS(3 * HOUR), "n": 2}]
    assert run({"c": rows}, [{"$densify": {"field": "t", "range": {"bounds": "full", "step": 1, "unit": "hour"}}}]) == [
        {"n": 1},
        {"t": DatetimeMS(0)},
        {"t": DatetimeMS(HOUR)},
        {"t": DatetimeMS(2 * HOUR)},
        {"t": DatetimeMS(3 * HOUR), "n": 2},
    ]


def test_densify_of_no_documents_gives_the_range() -> None:
    stage = {"$densify": {"field": "a.b", "range": {"bounds": [1, 3], "step": 1}}}
    assert run({}, [stage]) == [{"a": {"b": 1}}, {"a": {"b": 2}}]
    assert run({}, [{"$densify": {"field": "a", "range": {"bounds": "full", "step": 1}}}]) == []


ROWS: list[Document] = [
    {"_id": 1, "p": {"q": "a"}, "t": 1, "n": 1},
    {"_id": 2, "p": {"q": "b"}, "t": 2, "n": None},
    {"_id": 3, "p": {"q": "a"}, "t": 3},
    {"_id": 4, "p": {"q": "a"}, "t": 5, "n": 5},
]

FILLED: list[tuple[Any, Any]] = [
    ({"output": {"n": {"value": 0}}}, {1: 1, 2: 0, 3: 0, 4: 5}),
    ({"output": {"n": {"value": {"$add": ["$t", 1]}}}}, {1: 1, 2: 3, 3: 4, 4: 5}),
    ({"sortBy": {"t": 1}, "output": {"n": {"method": "locf"}}}, {1: 1, 2: 1, 3: 1, 4: 5}),
    ({"sortBy": {"t": 1}, "output": {"n": {"method": "linear"}}}, {1: 1, 2: 2.0, 3: 3.0, 4: 5}),
    (
        {"sortBy": {"t": 1}, "partitionByFields": ["p.q"], "output": {"n": {"method": "locf"}}},
        {1: 1, 2: None, 3: 1, 4: 5},
    ),
    ({"sortBy": {"t": 1}, "partitionBy": "$p.q", "output": {"n": {"method": "locf"}}}, {1: 1, 2: None, 3: 1, 4: 5}),
    (1, 9),
    ({}, 40414),
    ({"output": {}}, 6050203),
    ({"output": {"n": 1}}, 6050200),
    ({"output": {"n": {}}}, 6050200),
    ({"output": {"n": {"value": 1, "method": "locf"}}}, 6050201),
    ({"output": {"n": {"method": "other"}}}, 6050202),
    ({"output": {"n": {"more": 1}}}, 40415),
    ({"output": {"n": {"value": 1}}, "more": 1}, 40415),
    ({"output": {"n": {"method": "locf"}}, "partitionBy": "$a", "partitionByFields": ["a"]}, 6050204),
    ({"output": {"n": {"method": "locf"}}, "partitionByFields": 1}, 14),
    ({"output": {"n": {"method": "linear"}}}, 605001),
]


@pytest.mark.parametrize(("spec", "expected"), FILLED)
def test_fill(spec: Any, expected: Any) -> None:
    found = run_or_code({"c": ROWS}, [{"$fill": spec}])
    assert ({each["_id"]: each["n"] for each in found} if isinstance(found, list) else found) == expected
