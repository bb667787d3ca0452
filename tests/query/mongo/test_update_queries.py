"""Updates with conditions on array elements: `$pull`, and `arrayFilters`."""

from __future__ import annotations

from typing import Any

import pytest
from bson import Regex

from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.update import compile_update
from mayflydb.query.mongo.values import encode

ENV = Env(0)


def outcome(before: Any, update: Any, filters: Any = ()) -> Any:
    try:
        return encode(compile_update(update, ENV, filters).apply(before, None, False))
    except MqlError as refusal:
        return refusal.code


def expected(after: Any) -> Any:
    return after if isinstance(after, int) else encode(after)


@pytest.mark.parametrize(
    ("array", "condition", "left"),
    [
        ([1, 5, 9], {"$gte": 5}, [1]),
        ([1, 5, 9], {"$gt": 1, "$lt": 9}, [1, 9]),
        ([1, 5, 9], {"$in": [1, 9]}, [5]),
        ([1, "a", None], {"$ne": 1}, [1]),
        (["ab", "b", 1], Regex("^a"), ["b", 1]),
        (["ab", "b", 1], {"$regex": "^a"}, ["b", 1]),
        ([{"x": 1}, {"x": 2}], {"x": 2}, [{"x": 1}]),
        ([{"x": 1, "y": 1}, {"x": 2}], {"x": 1}, [{"x": 2}]),
        ([{"x": 1}, {"x": 5}, 7], {"x": {"$gt": 2}}, [{"x": 1}, 7]),
        ([{"x": {"y": 1}}, {"x": {"y": 2}}], {"x.y": 1}, [{"x": {"y": 2}}]),
        ([{"x": [1, 2]}, {"x": [3]}], {"x": 2}, [{"x": [3]}]),
        ([{"x": 1}, {"x": 2}, {"x": 3}], {"$or": [{"x": 1}, {"x": 3}]}, [{"x": 2}]),
        ([{"x": 1, "y": 2}, {"x": 1, "y": 3}], {"x": 1, "y": 2}, [{"x": 1, "y": 3}]),
        ([{}, {"x": 1}, 5], {}, [5]),
        ([{"x": None}, {}, {"x": 1}], {"x": None}, [{"x": 1}]),
        ([{"x": 1}, {"y": 1}], {"x": {"$exists": False}}, [{"x": 1}]),
        ([1, 2], {"$gt": 5}, [1, 2]),
    ],
    ids=repr,
)
def test_pull_removes_elements_that_meet_a_condition(array: Any, condition: Any, left: Any) -> None:
    assert outcome({"a": array}, {"$pull": {"a": condition}}) == encode({"a": left})


def test_pull_refuses_an_unknown_operator() -> None:
    assert outcome({"a": [1]}, {"$pull": {"a": {"$nope": 1}}}) == 2


@pytest.mark.parametrize(
    ("before", "update", "filters", "after"),
    [
        ({"a": [1, 5, 9]}, {"$set": {"a.$[x]": 0}}, [{"x": {"$gte": 5}}], {"a": [1, 0, 0]}),
        ({"a": [1, 5]}, {"$inc": {"a.$[x]": 1}}, [{"x": 5}], {"a": [1, 6]}),
        ({"a": [1, 5]}, {"$inc": {"a.$[x]": 1}}, [{"x": 7}], {"a": [1, 5]}),
        ({"a": [1, 5]}, {"$unset": {"a.$[x]": 1}}, [{"x": 5}], {"a": [1, None]}),
        ({"a": [{"k": 1}, {"k": 2}]}, {"$set": {"a.$[e].v": 9}}, [{"e.k": 2}], {"a": [{"k": 1}, {"k": 2, "v": 9}]}),
        (
            {"a": [{"k": 1, "b": [1, 2]}, {"k": 2, "b": [2, 3]}]},
            {"$mul": {"a.$[i].b.$[j]": 10}},
            [{"i.k": 2}, {"j": {"$gt": 2}}],
            {"a": [{"k": 1, "b": [1, 2]}, {"k": 2, "b": [2, 30]}]},
        ),
        ({"a": [1, 2, 3]}, {"$set": {"a.$[i]": 7}}, [{"$or": [{"i": 1}, {"i": 3}]}], {"a": [7, 2, 7]}),
        ({"a": [{"b": 1, "c": 1}]}, {"$inc": {"a.$[i].b": 1, "a.$[].c": 1}}, [{"i.b": 1}], {"a": [{"b": 2, "c": 2}]}),
        (
            {"a": [{"b": 1}, {"b": 2}]},
            {"$inc": {"a.$[i].b": 1, "a.$[j].b": 2}},
            [{"i.b": 1}, {"j.b": 2}],
            {"a": [{"b": 2}, {"b": 4}]},
        ),
        ({"a": [{"b": 1}]}, {"$inc": {"a.$[i].b": 1, "a.$[j].b": 2}}, [{"i.b": 1}, {"j.b": 1}], 40),
        ({"a": [{"b": 1}]}, {"$inc": {"a.$[i].b": 1, "a.$[].b": 2}}, [{"i.b": 1}], 40),
        ({"a": [1]}, {"$set": {"a.$[i]": 1, "a.0": 2}}, [{"i": 1}], 40),
        ({"a": [1]}, {"$set": {"a.$[i]": 1}}, [{"i": 1}, {"j": 1}], 9),
        ({"a": [1]}, {"$set": {"a.$[i]": 1}}, [{"i": 1}, {"i": 2}], 9),
        ({"a": [1]}, {"$set": {"a.$[i]": 1}}, [{"i": 1, "j": 2}], 9),
        ({"a": [1]}, {"$set": {"a.$[i]": 1}}, [{"$and": [{"i": 1}, {"j": 2}]}], 9),
        ({"a": [1]}, {"$set": {"a.$[i]": 1}}, [{"i": 1, "i.b": 2}], {"a": [1]}),
        ({"a": [1]}, {"$set": {"a.$[i]": 1}}, [{}], 9),
        ({"a": [1]}, {"$set": {"a.$[I]": 1}}, [{"I": 1}], 2),
        ({"a": [1]}, {"$set": {"a.$[1]": 1}}, [{"1": 1}], 2),
        ({"a": [1]}, {"$set": {"a.$[i_]": 1}}, [{"i_": 1}], 2),
        ({"a": [1]}, {"$set": {"a.$[i]": 1}}, [5], 14),
        ({"a": [1]}, {"$set": {"a.$[i]": 1}}, [{"$expr": True}], 224),
        ({"a": [1]}, {"$set": {"a.$[k]": 1}}, [{"i": 1}], 2),
        ({"a": 1}, {"$set": {"a.$[i]": 1}}, [{"i": 1}], 2),
        ({}, {"$set": {"a.$[i]": 1}}, [{"i": 1}], 2),
        ({"a": [1]}, {"b": 1}, [{"i": 1}], 9),
        ({"a": [1]}, [{"$set": {"a": 1}}], [{"i": 1}], 9),
    ],
    ids=repr,
)
def test_array_filters_choose_elements(before: Any, update: Any, filters: Any, after: Any) -> None:
    assert outcome(before, update, filters) == expected(after)


@pytest.mark.parametrize(
    ("filters", "text"),
    [
        ([{}], "Cannot use an expression without a top-level field name in arrayFilters"),
        ([{"x": 1}, {"x": 2}], "Found multiple array filters with the same top-level field name x"),
        (
            [{"x": 1}, {"y": 1}],
            "The array filter for identifier 'y' was not used in the update { $set: { a.$[x]: 5 } }",
        ),
    ],
    ids=repr,
)
def test_an_array_filter_is_refused_in_the_servers_words(filters: Any, text: str) -> None:
    with pytest.raises(MqlError) as refusal:
        compile_update({"$set": {"a.$[x]": 5}}, ENV, filters)
    assert str(refusal.value) == text
