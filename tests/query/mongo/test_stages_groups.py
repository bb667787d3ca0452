"""Stages that put documents together: `$group`, `$sortByCount`, `$bucket`, `$bucketAuto`."""

from __future__ import annotations

from typing import Any

import pytest
from bson import Decimal128, Int64, ObjectId

from mayflydb.query.mongo.values import Document
from query.mongo.pipelines import run, run_or_code

SALES: list[Document] = [
    {"_id": 1, "item": "a", "n": 2, "price": 10},
    {"_id": 2, "item": "b", "n": 1, "price": 20},
    {"_id": 3, "item": "a", "n": 5, "price": 10.0},
    {"_id": 4, "item": None, "n": 1, "price": 5},
    {"_id": 5, "n": 3, "price": Int64(5)},
    {"_id": 6, "item": ["a"], "n": 4},
]

GROUPED: list[tuple[Any, Any]] = [
    ({"_id": "$item"}, [{"_id": "a"}, {"_id": "b"}, {"_id": None}, {"_id": ["a"]}]),
    ({"_id": "$item", "n": {"$sum": "$n"}},
     [{"_id": "a", "n": 7}, {"_id": "b", "n": 1}, {"_id": None, "n": 4}, {"_id": ["a"], "n": 4}]),
    ({"_id": "$price", "n": {"$count": {}}},
     [{"_id": 10, "n": 2}, {"_id": 20, "n": 1}, {"_id": 5, "n": 2}, {"_id": None, "n": 1}]),
    ({"_id": None, "least": {"$min": "$n"}, "most": {"$max": "$n"}}, [{"_id": None, "least": 1, "most": 5}]),
    ({"_id": {"i": "$item"}, "n": {"$sum": 1}},
     [{"_id": {"i": "a"}, "n": 2}, {"_id": {"i": "b"}, "n": 1}, {"_id": {"i": None}, "n": 1}, {"_id": {}, "n": 1},
      {"_id": {"i": ["a"]}, "n": 1}]),
    ({"_id": {"$gt": ["$n", 2]}, "all": {"$push": "$_id"}}, [{"_id": False, "all": [1, 2, 4]}, {"_id": True, "all": [3, 5, 6]}]),
    ({"_id": 1, "set": {"$addToSet": "$n"}, "first": {"$first": "$n"}, "last": {"$last": "$n"}},
     [{"_id": 1, "set": [2, 1, 5, 3, 4], "first": 2, "last": 4}]),
    ({"_id": {}}, [{"_id": {}}]),
    (1, 15947),
    ({}, 15955),
    ({"n": {"$sum": 1}}, 15955),
    ({"_id": 1, "n": 1}, 40234),
    ({"_id": 1, "n": {}}, 40234),
    ({"_id": 1, "n": {"a": 1}}, 40234),
    ({"_id": 1, "a.b": {"$sum": 1}}, 40235),
    ({"_id": 1, "$n": {"$sum": 1}}, 40236),
    ({"_id": 1, "n": {"$sum": [1, 2]}}, 40237),
    ({"_id": 1, "n": {"$sum": 1, "$min": 1}}, 40238),
    ({"_id": 1, "n": {"$nope": 1}}, 15952),
    ({"_id": {"$nope": 1}}, 168),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "expected"), GROUPED)
def test_group(spec: Any, expected: Any) -> None:
    assert run_or_code({"c": SALES}, [{"$group": spec}]) == expected


def test_no_documents_give_no_groups() -> None:
    assert run({}, [{"$group": {"_id": None, "n": {"$sum": 1}}}]) == []


KEYS: list[tuple[list[Any], int]] = [
    ([1, 1.0, Int64(1), Decimal128("1.0")], 1),
    ([0.0, -0.0, False], 2),
    ([float("nan"), Decimal128("NaN")], 1),
    (["1", 1, ObjectId(b"111111111111"), b"1"], 4),
    ([{"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 1.0, "b": 2}], 2),
    ([[1, 2], [2, 1], [1.0, 2]], 2),
    ([None, None], 1),
]


@pytest.mark.parametrize(("values", "groups"), KEYS)
def test_values_that_are_equal_share_a_group(values: list[Any], groups: int) -> None:
    found = run({"c": [{"v": value} for value in values]}, [{"$group": {"_id": "$v", "n": {"$sum": 1}}}])
    assert len(found) == groups
    assert sum(each["n"] for each in found) == len(values)


COUNTS: list[tuple[Any, Any]] = [
    (
        "$item",
        [{"_id": "a", "count": 2}, {"_id": None, "count": 2}, {"_id": "b", "count": 1}, {"_id": ["a"], "count": 1}],
    ),
    ({"$gte": ["$n", 2]}, [{"_id": True, "count": 4}, {"_id": False, "count": 2}]),
    ({"a": 1}, 40147),
    ({}, 40147),
    ("item", 40148),
    (1, 40149),
]


@pytest.mark.parametrize(("spec", "expected"), COUNTS)
def test_sort_by_count(spec: Any, expected: Any) -> None:
    assert run_or_code({"c": SALES}, [{"$sortByCount": spec}]) == expected


BUCKETS: list[tuple[Any, Any]] = [
    ({"groupBy": "$n", "boundaries": [1, 2, 4, 6]}, [{"_id": 1, "count": 2}, {"_id": 2, "count": 2}, {"_id": 4, "count": 2}]),
    ({"groupBy": "$n", "boundaries": [0, 100, 200]}, [{"_id": 0, "count": 6}]),
    ({"groupBy": "$n", "boundaries": [1, 3], "default": "more"}, [{"_id": 1, "count": 3}, {"_id": "more", "count": 3}]),
    ({"groupBy": "$price", "boundaries": [5, 20], "default": 0, "output": {"ids": {"$push": "$_id"}}},
     [{"_id": 0, "ids": [2, 6]}, {"_id": 5, "ids": [1, 3, 4, 5]}]),
    ({"groupBy": {"$multiply": ["$n", 10]}, "boundaries": [{"$add": [5, 5]}, 60]}, [{"_id": 10, "count": 6}]),
    ({"groupBy": "$n", "boundaries": [1, 3]}, 40066),
    (1, 40201),
    ({"groupBy": "n", "boundaries": [1, 2]}, 40202),
    ({"groupBy": {"n": 1}, "boundaries": [1, 2]}, 40202),
    ({"groupBy": "$n", "boundaries": 1}, 40200),
    ({"groupBy": "$n", "boundaries": [1, "$n"]}, 40191),
    ({"groupBy": "$n", "boundaries": [1]}, 40192),
    ({"groupBy": "$n", "boundaries": [1, "a"]}, 40193),
    ({"groupBy": "$n", "boundaries": [1, 1]}, 40194),
    ({"groupBy": "$n", "boundaries": [2, 1]}, 40194),
    ({"groupBy": "$n", "boundaries": [1, 2], "default": "$n"}, 40195),
    ({"groupBy": "$n", "boundaries": [1, 2], "output": 1}, 40196),
    ({"groupBy": "$n", "boundaries": [1, 2], "more": 1}, 40197),
    ({"groupBy": "$n"}, 40198),
    ({"boundaries": [1, 2]}, 40198),
    ({"groupBy": "$n", "boundaries": [1, 3], "default": 1}, 40199),
    ({"groupBy": "$n", "boundaries": [1, 6], "default": 6}, [{"_id": 1, "count": 6}]),
    ({"groupBy": "$n", "boundaries": [1, 2], "output": {"a": {"$nope": 1}}}, 15952),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "expected"), BUCKETS)
def test_bucket(spec: Any, expected: Any) -> None:
    assert run_or_code({"c": SALES}, [{"$bucket": spec}]) == expected


AUTO: list[tuple[list[Any], Any, Any]] = [
    ([1, 2, 3, 4], 2, [(1, 3, 2), (3, 4, 2)]),
    ([4, 3, 2, 1, 0], 2, [(0, 3, 3), (3, 4, 2)]),
    ([1, 1, 1, 2], 2, [(1, 2, 3), (2, 2, 1)]),
    ([1, 2, 2, 2, 2], 3, [(1, 2, 5)]),
    ([1, 2, 3], 10, [(1, 2, 1), (2, 3, 1), (3, 3, 1)]),
    ([1], 1, [(1, 1, 1)]),
    ([], 3, []),
    ([None, 1, "a"], 3, [(None, 1, 1), (1, "a", 1), ("a", "a", 1)]),
    ([1], 0, 40243),
    ([1], -1, 40243),
    ([1], "2", 40241),
    ([1], 1.5, 40242),
    ([1], 1e10, 40242),
]


@pytest.mark.parametrize(("values", "buckets", "expected"), AUTO)
def test_bucket_auto_makes_even_buckets(values: list[Any], buckets: Any, expected: Any) -> None:
    found = run_or_code(
        {"c": [{"v": value} for value in values]}, [{"$bucketAuto": {"groupBy": "$v", "buckets": buckets}}]
    )
    if isinstance(found, list):
        found = [(each["_id"]["min"], each["_id"]["max"], each["count"]) for each in found]  # type: ignore[misc]
    assert found == expected


GRANULAR: list[tuple[list[Any], int, str, Any]] = [
    ([1, 10, 100, 1000], 3, "R5", [(0.63, 1.6, 1), (1.6, 16.0, 1), (16.0, 1600.0, 2)]),
    ([1, 10, 100, 1000], 3, "1-2-5", [(0.5, 2.0, 1), (2.0, 20.0, 1), (20.0, 2000.0, 2)]),
    ([1, 10, 100, 1000], 3, "POWERSOF2", [(0.5, 2, 1), (2, 16, 1), (16, 1024, 2)]),
    ([3, 4, 5], 1, "POWERSOF2", [(2, 8, 3)]),
    # The bound of a bucket takes later numbers in that lie below it.
    ([1, 1.5, 2], 3, "R5", [(0.63, 1.6, 2), (1.6, 2.5, 1)]),
    # Nothing is larger than 0 by a ratio: the next number, rounded down, ends the bucket.
    ([0, 0, 5], 2, "R5", [(0, 4.0, 2), (4.0, 6.3, 1)]),
    ([0, 0], 1, "E24", [(0, 0, 2)]),
    ([9.1], 1, "E24", [(8.2, 10.0, 1)]),
    ([9.19], 1, "E192", [(9.09, 9.2, 1)]),
    ([Decimal128("1.0")], 1, "R80", [(Decimal128("0.975"), Decimal128("1.03"), 1)]),
]


@pytest.mark.parametrize(("values", "buckets", "granularity", "expected"), GRANULAR)
def test_bucket_auto_rounds_bounds(values: list[Any], buckets: int, granularity: str, expected: Any) -> None:
    spec = {"groupBy": "$v", "buckets": buckets, "granularity": granularity}
    found: Any = run_or_code({"c": [{"v": value} for value in values]}, [{"$bucketAuto": spec}])
    bounds = [(each["_id"]["min"], each["_id"]["max"], each["count"]) for each in found]
    assert [tuple(map(repr, each)) for each in bounds] == [tuple(map(repr, each)) for each in expected]


AUTO_SPECS: list[tuple[Any, Any]] = [
    ({"groupBy": "$n", "buckets": 1, "output": {"s": {"$sum": "$n"}}}, [{"_id": {"min": 1, "max": 5}, "s": 16}]),
    ({"groupBy": "$n", "buckets": 1, "output": {}}, [{"_id": {"min": 1, "max": 5}, "count": 6}]),
    (1, 40240),
    ({"groupBy": "n", "buckets": 1}, 40239),
    ({"groupBy": "$n", "buckets": 1, "output": 1}, 40244),
    ({"groupBy": "$n", "buckets": 1, "more": 1}, 40245),
    ({"groupBy": "$n"}, 40246),
    ({"groupBy": "$n", "buckets": 1, "granularity": 1}, 40261),
    ({"groupBy": "$n", "buckets": 1, "granularity": "R7"}, 40257),
    ({"groupBy": "$n", "buckets": 1, "granularity": ""}, 40257),
    ({"groupBy": "$item", "buckets": 1, "granularity": "R5"}, 40258),
    ({"groupBy": {"$literal": float("nan")}, "buckets": 1, "granularity": "R5"}, 40259),
    ({"groupBy": {"$literal": -1}, "buckets": 1, "granularity": "R5"}, 40260),
]


@pytest.mark.parametrize(("spec", "expected"), AUTO_SPECS)
def test_bucket_auto(spec: Any, expected: Any) -> None:
    assert run_or_code({"c": SALES}, [{"$bucketAuto": spec}]) == expected
