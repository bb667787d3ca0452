"""The documents that projections give."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest
from bson import Binary, Code, DatetimeMS, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp

from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.filter import compile_filter
from mayflydb.query.mongo.projection import compile_projection
from mayflydb.query.mongo.raw import MAX_SELECTED
from mayflydb.query.mongo.values import decode, encode

ENV = Env(now=0)
VALUES: list[Any] = [
    *(
        None,
        1,
        Int64(1),
        1.5,
        "a",
        "",
        b"x",
        Binary(b"x" * 16, 4),
        {"a": 1},
        {},
        [1, {"b": 2}],
        [],
        True,
        ObjectId(b"x" * 12),
    ),
    *(
        DatetimeMS(1),
        Timestamp(1, 2),
        Decimal128("1.5"),
        Regex("^a", "i"),
        Code("a"),
        Code("a", {"b": 1}),
        MinKey(),
        MaxKey(),
    ),
]
ABC = {"_id": 1, "a": 2, "b": 3, "c": 4}
NESTED = {"_id": 1, "a": {"b": 1, "c": 2}, "d": [{"b": 1, "c": 2}, 5, [{"b": 3, "c": 4}], {"c": 6}]}
ARRAY = {"_id": 1, "a": [1, 2, 3, 4, 5], "b": 2}


@pytest.mark.parametrize(
    ("spec", "document", "expected"),
    [
        ({}, ABC, ABC),
        ({"a": 1}, ABC, {"_id": 1, "a": 2}),
        ({"a": True}, ABC, {"_id": 1, "a": 2}),
        ({"a": 5.5}, ABC, {"_id": 1, "a": 2}),
        ({"a": 1, "_id": 0}, ABC, {"a": 2}),
        ({"c": 1, "a": 1}, ABC, {"_id": 1, "a": 2, "c": 4}),
        ({"x": 1}, ABC, {"_id": 1}),
        ({"_id": 1}, ABC, {"_id": 1}),
        ({"_id": 0}, ABC, {"a": 2, "b": 3, "c": 4}),
        ({"a": 0}, ABC, {"_id": 1, "b": 3, "c": 4}),
        ({"a": 0, "_id": 1}, ABC, {"_id": 1, "b": 3, "c": 4}),
        ({"a": False, "b": 0.0}, ABC, {"_id": 1, "c": 4}),
        ({"a.b": 1}, NESTED, {"_id": 1, "a": {"b": 1}}),
        ({"a": {"b": 1}}, NESTED, {"_id": 1, "a": {"b": 1}}),
        ({"a.b": 0}, NESTED, {"_id": 1, "a": {"c": 2}, "d": NESTED["d"]}),
        ({"d.b": 1}, NESTED, {"_id": 1, "d": [{"b": 1}, [{"b": 3}], {}]}),
        ({"d.b": 0, "a": 0}, NESTED, {"_id": 1, "d": [{"c": 2}, 5, [{"c": 4}], {"c": 6}]}),
        ({"a.b": 1, "a.c": 1}, NESTED, {"_id": 1, "a": {"b": 1, "c": 2}}),
        ({"a.x": 1}, {"_id": 1, "a": 5}, {"_id": 1}),
        ({"a.x": 0}, {"_id": 1, "a": 5}, {"_id": 1, "a": 5}),
        ({"a.0": 1}, {"_id": 1, "a": [1, 2]}, {"_id": 1, "a": []}),
        ({"_id.x": 1}, {"_id": {"x": 1, "y": 2}, "a": 1}, {"_id": {"x": 1}}),
        ({"a": {"$slice": 2}}, ARRAY, {"_id": 1, "a": [1, 2], "b": 2}),
        ({"a": {"$slice": -2}}, ARRAY, {"_id": 1, "a": [4, 5], "b": 2}),
        ({"a": {"$slice": 0}}, ARRAY, {"_id": 1, "a": [], "b": 2}),
        ({"a": {"$slice": [1, 2]}}, ARRAY, {"_id": 1, "a": [2, 3], "b": 2}),
        ({"a": {"$slice": [-2, 1]}}, ARRAY, {"_id": 1, "a": [4], "b": 2}),
        ({"a": {"$slice": [-9, 2]}}, ARRAY, {"_id": 1, "a": [1, 2], "b": 2}),
        ({"a": {"$slice": [9, 2]}}, ARRAY, {"_id": 1, "a": [], "b": 2}),
        ({"a": {"$slice": 1}, "_id": 0}, ARRAY, {"a": [1], "b": 2}),
        ({"a": {"$slice": 1}, "_id": 1}, ARRAY, {"_id": 1, "a": [1]}),
        ({"a": {"$slice": 1}, "b": 1}, {**ARRAY, "c": 1}, {"_id": 1, "a": [1], "b": 2}),
        ({"a": {"$slice": 1}, "b": 0}, {**ARRAY, "c": 1}, {"_id": 1, "a": [1], "c": 1}),
        ({"x.a": {"$slice": 1}}, {"_id": 1, "x": {"a": [1, 2]}}, {"_id": 1, "x": {"a": [1]}}),
        ({"b": {"$slice": 1}}, ARRAY, ARRAY),
        ({"a": {"$elemMatch": {"$gt": 2}}}, ARRAY, {"_id": 1, "a": [3]}),
        ({"a": {"$elemMatch": {"$gt": 9}}}, ARRAY, {"_id": 1}),
        (
            {"a": {"$elemMatch": {"x": 1}}, "b": 1},
            {"_id": 1, "a": [{"x": 1, "y": 2}], "b": 2},
            {"_id": 1, "b": 2, "a": [{"x": 1, "y": 2}]},
        ),
        ({"a": {"$elemMatch": {"$gt": 2}}, "_id": 0}, ARRAY, {"a": [3]}),
        ({"a": {"$elemMatch": {"$gt": 2}}, "b": 0}, ARRAY, {"_id": 1, "a": [3]}),
    ],
)
def test_a_projection_gives(spec: dict[str, Any], document: dict[str, Any], expected: dict[str, Any]) -> None:
    projection = compile_projection(spec, ENV)
    for result in (projection.apply(document), decode(projection.encode(encode(document)))):
        assert result == expected
        assert list(result) == list(expected)


def test_whole_fields_of_encoded_documents_are_selected_without_decoding(chance: random.Random) -> None:
    """Of all types and of many fields; the bytes of a field are those of before."""
    selected = 0
    for _ in range(300):
        names = chance.sample(
            [f"f{n}" for n in range(80)], chance.choice([0, 1, 5, 20, MAX_SELECTED, MAX_SELECTED + 9])
        )
        raw = encode({name: chance.choice(VALUES) for name in names})
        some = chance.sample([*names, "other", "_id"], chance.randrange(1, len(names) + 3))
        projection = compile_projection(dict.fromkeys(some, chance.randrange(2)), ENV)
        assert projection.select is not None
        found = projection.select(raw)
        assert (found is None) == (len(names) >= MAX_SELECTED)
        selected += found is not None
        assert projection.encode(raw) == encode(projection.apply(decode(raw)))
    assert selected > 100


@pytest.mark.parametrize(
    ("query", "spec", "document", "expected"),
    [
        ({"a": {"$gt": 2}}, {"a.$": 1}, ARRAY, {"_id": 1, "a": [3]}),
        (
            {"a": {"$elemMatch": {"x": 2}}},
            {"a.$": 1},
            {"_id": 1, "a": [{"x": 1}, {"x": 2}]},
            {"_id": 1, "a": [{"x": 2}]},
        ),
        (
            {"a.x": 2},
            {"a.$": 1, "b": 1},
            {"_id": 1, "a": [{"x": 1}, {"x": 2}], "b": 3},
            {"_id": 1, "a": [{"x": 2}], "b": 3},
        ),
        ({"x.a": 2}, {"x.a.$": 1}, {"_id": 1, "x": {"a": [1, 2], "b": 1}}, {"_id": 1, "x": {"a": [2]}}),
        ({"a": 2}, {"a.$": 1}, {"_id": 1, "a": 2}, {"_id": 1, "a": 2}),
        ({"$and": [{"b": 2}, {"a": {"$gte": 4}}]}, {"a.$": 1}, ARRAY, {"_id": 1, "a": [4]}),
        ({"$and": [{"a": {"$gt": 1}}, {"a": {"$lt": 5}}]}, {"a.$": 1}, ARRAY, {"_id": 1, "a": [2]}),
        ({"$and": [{"a": {"$lt": 5}}, {"a": {"$gt": 1}}]}, {"a.$": 1}, ARRAY, {"_id": 1, "a": [2]}),
        ({"a": {"$gt": 1, "$lt": 5}}, {"a.$": 1}, ARRAY, {"_id": 1, "a": [2]}),
        (
            {"a": {"$gt": 3}, "$and": [{"$and": [{"a": {"$in": [5, 9]}}]}, {"a": 2}]},
            {"a.$": 1},
            ARRAY,
            {"_id": 1, "a": [5]},
        ),
        ({"$and": [{"a": {"$gt": 1}}, {"a": {"$gt": 3}}]}, {"a.$": 1}, ARRAY, {"_id": 1, "a": [4]}),
        ({"$and": [{"a": 3}, {"$or": [{"a": 9}, {"a": 5}]}]}, {"a.$": 1}, ARRAY, {"_id": 1, "a": [3]}),
        ({"$or": [{"a": 9}, {"a": 4}]}, {"a.$": 1}, ARRAY, {"_id": 1, "a": [4]}),
        ({"a": {"$all": [3, 5]}}, {"a.$": 1}, ARRAY, {"_id": 1, "a": [5]}),
        ({"$and": [{"c": 5}, {"a": 2}]}, {"a.$": 1}, {"_id": 1, "a": [1, 2, 3], "c": [6, 7, 5]}, {"_id": 1, "a": [3]}),
    ],
)
def test_a_positional_projection_gives_the_element_that_matched(
    query: dict[str, Any], spec: dict[str, Any], document: dict[str, Any], expected: dict[str, Any]
) -> None:
    found = compile_filter(query, ENV)
    assert found.matches(document)
    before = repr(document)
    assert compile_projection(spec, ENV, found).apply(document) == expected
    assert repr(document) == before


def test_a_positional_projection_needs_an_element() -> None:
    projection = compile_projection({"a.$": 1}, ENV, compile_filter({"a": {"$ne": 1}}, ENV))
    with pytest.raises(MqlError, match="couldn't find a matching element") as refusal:
        projection.apply({"a": [2]})
    assert refusal.value.code == 51246


def test_a_text_score_is_given_beside_the_rest() -> None:
    projection = compile_projection({"s": {"$meta": "textScore"}}, ENV, score=lambda document: float(document["a"]))
    assert projection.apply(ABC) == {**ABC, "s": 2.0}


@pytest.mark.parametrize(
    ("spec", "code", "message"),
    [
        ({"a": 1, "b": 0}, 31254, "Cannot do exclusion on field b in inclusion projection"),
        ({"a": 0, "b": 1}, 31253, "Cannot do inclusion on field b in exclusion projection"),
        ({"a": 1, "a.b": 1}, 31249, "Path collision at a.b remaining portion b"),
        ({"a.b": 1, "a": 1}, 31250, "Path collision at a"),
        ({"": 1}, 40352, "FieldPath cannot be constructed with empty string"),
        ({"a.": 1}, 40353, "FieldPath must not end with a '.'."),
        ({"$a": 1}, 16410, "FieldPath field names may not start with '$'. Consider using $getField or $setField."),
        ({"a": {}}, 51270, "An empty sub-projection is not a valid value. Found empty object at path"),
        ({"a": {"$slice": "x"}}, 28667, "$slice only supports numbers and [skip, limit] arrays"),
        ({"a": {"$slice": [1]}}, 28667, "$slice array argument should be of form [skip, limit]"),
        ({"a": {"$slice": [1, 0]}}, 28724, "$slice limit must be positive, got 0"),
        ({"a": {"$slice": [1, "x"]}}, 28724, "$slice expects the limit argument to be a number, got string"),
        ({"a": {"$elemMatch": 1}}, 31274, "elemMatch: Invalid argument, object required, but got int"),
        ({"a.b": {"$elemMatch": {}}}, 31275, "Cannot use $elemMatch projection on a nested field."),
        ({"a.$": 1}, 51050, "Projections with a positional operator require a matcher"),
        ({"a.$": 0}, 31395, "positional projection cannot be used with exclusion"),
        ({"a.$": {"$slice": 1}}, 31271, "positional projection cannot be used with an expression or sub object"),
        ({"a.$": "x"}, 31308, "positional projection cannot be used with a literal"),
        ({"b": 0, "a": "x"}, 31310, 'Cannot use an expression a: "x" in an exclusion projection'),
        ({"b": 0, "a": {"$add": [1]}}, 31252, "Cannot use expression other than $meta in exclusion projection"),
        ({"a": {"$meta": "x"}}, 17308, "Unsupported argument to $meta: x"),
        ({"a": {"$meta": "textScore"}}, 40218, "query requires text score metadata, but it is not available"),
    ],
)
def test_invalid_projections_are_refused(spec: dict[str, Any], code: int, message: str) -> None:
    with pytest.raises(MqlError, match=f"^{re.escape(message)}$") as refusal:
        compile_projection(spec, ENV)
    assert refusal.value.code == code


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        ({"a.$": 1, "b.$": 1}, 31276),
        ({"c.$": 1}, 31277),
        ({"a.$.$": 1}, 31287),
        ({"a": {"$elemMatch": {}}, "b.$": 1}, 31256),
    ],
)
def test_invalid_positional_projections_are_refused(spec: dict[str, Any], code: int) -> None:
    with pytest.raises(MqlError) as refusal:
        compile_projection(spec, ENV, compile_filter({"a": 1, "b": 1}, ENV))
    assert refusal.value.code == code


@pytest.mark.parametrize(("spec", "code"), [({"a.$": 1}, 31324), ({"a": {"$elemMatch": {}}}, 168)])
def test_pipelines_have_no_operators_of_find(spec: dict[str, Any], code: int) -> None:
    with pytest.raises(MqlError) as refusal:
        compile_projection(spec, ENV, compile_filter({"a": 1}, ENV), find=False)
    assert refusal.value.code == code
