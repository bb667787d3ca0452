"""Accumulators: the results of groups of documents."""

from __future__ import annotations

from typing import Any

import pytest
from bson import Decimal128, Int64

from evaluating import typed
from mayflydb.query.mongo.accumulators import NAMES, compile_accumulator
from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.expressions import frame_of
from mayflydb.query.mongo.faults import MqlError

ENV = Env(now=0)
PLAYERS = [
    {"name": "Ann", "score": 5, "o": {"x": 1}},
    {"name": "Bob", "score": 9, "o": {"y": 2}},
    {"name": "Cy", "score": None},
    {"name": "Di"},
    {"name": "Ed", "score": 5, "o": {"x": 3}},
]


def accumulate(name: str, spec: Any, documents: Any = PLAYERS, key: Any = None) -> Any:
    accumulator = compile_accumulator(name, spec, ENV)(key)
    for document in documents:
        accumulator.add(frame_of(document, ENV))
    return accumulator.result()


RESULTS = [
    ("$sum", "$score", 19),
    ("$sum", 1, 5),
    ("$sum", {"$multiply": ["$score", 2]}, 38),
    ("$sum", ["$score"], 19),
    ("$sum", [1.5], 7.5),
    ("$sum", "$name", 0),
    ("$sum", Int64(1), Int64(5)),
    ("$sum", Decimal128("0.1"), Decimal128("0.5")),
    ("$avg", "$score", 19 / 3),
    ("$avg", "$none", None),
    ("$min", "$score", 5),
    ("$max", "$score", 9),
    ("$max", "$name", "Ed"),
    ("$min", "$none", None),
    ("$first", "$name", "Ann"),
    ("$last", "$name", "Ed"),
    ("$first", "$none", None),
    ("$push", "$score", [5, 9, None, 5]),
    ("$push", {"s": "$score"}, [{"s": 5}, {"s": 9}, {"s": None}, {}, {"s": 5}]),
    ("$addToSet", "$score", [5, 9, None]),
    ("$count", {}, 5),
    ("$mergeObjects", "$o", {"x": 3, "y": 2}),
    ("$stdDevPop", "$score", 1.8856180831641267),
    ("$stdDevSamp", "$score", 2.309401076758503),
    ("$stdDevSamp", "$none", None),
    ("$firstN", {"n": 2, "input": "$name"}, ["Ann", "Bob"]),
    ("$lastN", {"n": 2, "input": "$score"}, [None, 5]),
    ("$minN", {"n": 2, "input": "$score"}, [5, 5]),
    ("$maxN", {"n": 9, "input": "$score"}, [9, 5, 5]),
    ("$top", {"sortBy": {"score": -1}, "output": "$name"}, "Bob"),
    ("$top", {"sortBy": {"score": 1, "name": -1}, "output": ["$name", "$score"]}, ["Di", None]),
    ("$bottom", {"sortBy": {"score": 1}, "output": "$name"}, "Bob"),
    ("$topN", {"n": 2, "sortBy": {"score": -1}, "output": "$name"}, ["Bob", "Ann"]),
    ("$topN", {"n": 9, "sortBy": {"name": -1}, "output": "$score"}, [5, None, None, 9, 5]),
    ("$bottomN", {"n": 2, "sortBy": {"name": 1}, "output": "$name"}, ["Di", "Ed"]),
    ("$median", {"input": "$score", "method": "approximate"}, 5.0),
    ("$percentile", {"input": "$score", "p": [0.5, 1.0], "method": "approximate"}, [5.0, 9.0]),
]


@pytest.mark.parametrize(("name", "spec", "expected"), RESULTS)
def test_the_result_of_a_group(name: str, spec: Any, expected: Any) -> None:
    assert typed(accumulate(name, spec)) == typed(expected)


ARRAYS = [{"a": [1, [2]]}, {}, {"a": []}, {"a": [1.0, "x", None]}]


def test_arrays_are_joined() -> None:
    """A missing value adds nothing."""
    assert typed(accumulate("$concatArrays", "$a", ARRAYS)) == typed([1, [2], 1.0, "x", None])
    assert typed(accumulate("$setUnion", "$a", ARRAYS)) == typed([1, [2], "x", None])
    assert typed(accumulate("$setUnion", {"$literal": [1, 1]}, ARRAYS)) == typed([1])


EMPTY: list[tuple[str, Any, Any]] = [
    ("$sum", 1, 0),
    ("$avg", 1, None),
    ("$min", 1, None),
    ("$first", 1, None),
    ("$push", 1, []),
    ("$addToSet", 1, []),
    ("$count", {}, 0),
    ("$mergeObjects", "$o", {}),
    ("$concatArrays", "$o", []),
    ("$setUnion", "$o", []),
    ("$top", {"sortBy": {"a": 1}, "output": 1}, None),
    ("$topN", {"n": 1, "sortBy": {"a": 1}, "output": 1}, []),
    ("$firstN", {"n": 1, "input": 1}, []),
    ("$stdDevPop", 1, None),
]


@pytest.mark.parametrize(("name", "spec", "expected"), EMPTY)
def test_the_result_of_an_empty_group(name: str, spec: Any, expected: Any) -> None:
    assert typed(accumulate(name, spec, [])) == typed(expected)


REFUSED = [
    ("$frob", 1, 15952),
    ("$accumulator", {}, 238),
    ("$sum", [1, 2], 40237),
    ("$sum", "$$nobody", 17276),
    ("$count", 1, 9),
    ("$mergeObjects", "$name", 40400),
    ("$concatArrays", "$name", 14),
    ("$concatArrays", "$score", 14),
    ("$setUnion", None, 14),
    ("$setUnion", ["$a"], 40237),
    ("$concatArrays", [], 40237),
    ("$firstN", {"n": 0, "input": 1}, 5787908),
    ("$firstN", {"n": "x", "input": 1}, 5787902),
    ("$firstN", {"input": 1}, 5787906),
    ("$firstN", {"n": 1}, 5787907),
    ("$firstN", 1, 5787900),
    ("$firstN", {"n": 1, "input": 1, "x": 1}, 5787901),
    ("$top", {"sortBy": {"a": 2}, "output": 1}, 15975),
    ("$top", {"sortBy": {}, "output": 1}, 15976),
    ("$top", {"sortBy": 1, "output": 1}, 10065),
    ("$top", {"sortBy": {"a": 1}}, 5788004),
    ("$top", {"output": 1}, 5788005),
    ("$topN", {"sortBy": {"a": 1}, "output": 1}, 5788003),
    ("$percentile", {"input": 1, "p": [], "method": "approximate"}, 7750301),
]


@pytest.mark.parametrize(("name", "spec", "code"), REFUSED)
def test_a_wrong_accumulator_is_refused(name: str, spec: Any, code: int) -> None:
    with pytest.raises(MqlError) as refusal:
        accumulate(name, spec)
    assert refusal.value.code == code


def test_n_may_depend_on_the_key_of_the_group() -> None:
    spec = {"n": {"$cond": [{"$eq": ["$game", "G2"]}, 1, 3]}, "input": "$name"}
    assert accumulate("$firstN", spec, key={"game": "G2"}) == ["Ann"]
    assert accumulate("$firstN", spec, key={"game": "G1"}) == ["Ann", "Bob", "Cy"]


def test_a_result_may_be_read_before_the_group_is_complete() -> None:
    for name, spec in (("$push", "$a"), ("$sum", "$a"), ("$mergeObjects", "$$ROOT")):
        accumulator = compile_accumulator(name, spec, ENV)()
        accumulator.add(frame_of({"a": 1}, ENV))
        early = accumulator.result()
        kept = typed(early)
        accumulator.add(frame_of({"a": 2}, ENV))
        assert typed(early) == kept != typed(accumulator.result())


def test_top_equals_a_sort_of_all_documents() -> None:
    documents = [{"k": (index * 7919) % 1009, "i": index} for index in range(1000)]
    spec = {"n": 5, "sortBy": {"k": -1}, "output": "$i"}
    wanted = [each["i"] for each in sorted(documents, key=lambda each: -each["k"])[:5]]
    assert accumulate("$topN", spec, documents) == wanted


def test_all_documented_accumulators_exist() -> None:
    contract = (
        "sum avg min max first last push addToSet count mergeObjects stdDevPop stdDevSamp top bottom topN bottomN "
        "firstN lastN minN maxN"
    )
    assert {f"${name}" for name in contract.split()} <= NAMES
