"""Which queries, projections, pipelines and updates may run on the event loop: just within each bound, and just beyond it."""

from __future__ import annotations

from typing import Any

import pytest
from bson import Binary, Regex, encode

from mayflydb.query.mongo.cheapness import (
    MAX_CHANGES,
    MAX_CONDITIONS,
    MAX_GROWTH,
    MAX_STAGES,
    is_cheap_pipeline,
    is_cheap_projection,
    is_cheap_query,
    is_cheap_update,
    is_costly_message,
)

MAP = {"$map": {"input": "$a", "in": 1}}


def conditions(count: int) -> dict[str, Any]:
    return {"$or": [{f"a{i}": i} for i in range(count)]}


@pytest.mark.parametrize(
    ("query", "cheap"),
    [
        ({}, True),
        ({"a": 1, "b.c": {"$gt": 1, "$lt": 5}, "d": {"$in": [1, 2]}, "e": {"$not": {"$size": 2}}}, True),
        ({"a": {"$elemMatch": {"b": 1, "c": {"$ne": None}}}}, True),
        ({"a": {"$elemMatch": {"$gt": 1}}}, True),
        (conditions(MAX_CONDITIONS), True),
        (conditions(MAX_CONDITIONS + 1), False),
        ({"a": {"$all": list(range(MAX_CONDITIONS + 1))}}, False),
        ({"a": {"$regex": "^abc"}}, True),
        ({"a": {"$regex": "a+"}}, False),
        ({"a": {"$regex": "abc", "$options": "i"}}, False),
        ({"a": Regex("abc")}, True),
        ({"a": {"$in": [Regex("a|b")]}}, False),
        ({"a": {"$not": Regex("(a+)+")}}, False),
        ({"$expr": {"$gt": ["$a", "$b"]}}, True),
        ({"$expr": {"$gt": [{"$size": MAP}, 1]}}, False),
        ({"$expr": {"$in": ["$a", list(range(100))]}}, False),
        ({"$jsonSchema": {}}, False),
        ({"$text": {"$search": "a"}}, False),
        ({"$and": [{"a": 1}, {"$nor": [{"b": {"$unknown": 1}}]}]}, False),
    ],
)
def test_queries(query: dict[str, Any], cheap: bool) -> None:
    assert is_cheap_query(query) is cheap


@pytest.mark.parametrize(
    ("spec", "cheap"),
    [
        ({"a": 1, "b.c": 1, "d": {"$slice": 2}, "e": {"$elemMatch": {"x": 1}}, "f": {"$add": ["$a", 1]}}, True),
        ({f"a{i}": "$big" for i in range(MAX_GROWTH)}, True),
        ({f"a{i}": "$big" for i in range(MAX_GROWTH + 1)}, False),
        ({"a": MAP}, False),
        ({"a": {"$literal": MAP}}, True),
        ({"e": {"$elemMatch": {"x": {"$regex": "a+"}}}}, False),
    ],
)
def test_projections(spec: dict[str, Any], cheap: bool) -> None:
    assert is_cheap_projection(spec) is cheap


@pytest.mark.parametrize(
    ("stages", "cheap"),
    [
        (
            [{"$match": {"a": 1}}, {"$group": {"_id": "$a", "n": {"$sum": 1}}}, {"$sort": {"n": -1}}, {"$limit": 1}],
            True,
        ),
        ([{"$limit": 1}] * MAX_STAGES, True),
        ([{"$limit": 1}] * (MAX_STAGES + 1), False),
        # Each stage makes the documents of the one before four times as large.
        ([{"$set": {"a": ["$a"] * 4}}] * 2, True),
        ([{"$set": {"a": ["$a"] * 4}}] * 3, False),
        ([{"$group": {"_id": None, "n": {"$top": {"output": "$a", "sortBy": {"a": 1}}}}}], False),
        ([{"$sort": {"n": {"$meta": "textScore"}}}], False),
        ([{"$unwind": "$a"}], False),
        ([{"$lookup": {"from": "c", "as": "x", "pipeline": []}}], False),
        ([{"$facet": {"a": []}}], False),
        ([{"$match": {"$expr": MAP}}], False),
        ([1], False),
    ],
)
def test_pipelines(stages: list[Any], cheap: bool) -> None:
    assert is_cheap_pipeline(stages) is cheap


@pytest.mark.parametrize(
    ("updates", "filters", "cheap"),
    [
        ({"a": 1}, (), True),
        ({"$set": {"a.b": 1}, "$inc": {"n": 1}, "$push": {"l": {"$each": [1]}}}, (), True),
        ({"$set": {f"a{i}": i for i in range(MAX_CHANGES)}}, (), True),
        ({"$set": {f"a{i}": i for i in range(MAX_CHANGES + 1)}}, (), False),
        ({"$push": {"l": {"$each": [1], "$sort": 1}}}, (), False),
        ({"$set": {"a.$[].b": 1}}, (), False),
        ({"$set": {"a.b": 1}}, ({"x": 1},), False),
        ({"$pull": {"a": {"$regex": "a+"}}}, (), False),
        ([{"$set": {"a": 1}}], (), False),
    ],
)
def test_updates(updates: Any, filters: Any, cheap: bool) -> None:
    assert is_cheap_update(updates, filters) is cheap


@pytest.mark.parametrize(
    ("message", "costly"),
    [
        ({"find": "c", "filter": {"_id": 1, "n": 11, "s": "x" * 10, "t": "y" * 267}, "$db": "d"}, False),
        ({"filter": {"$or": [{"a": {"$gt": 1}}, {"$expr": {"$eq": ["$a", {"$add": [1, 2]}]}}]}}, False),
        ({"filter": {"s": {"$regex": "^plain text"}}}, False),
        ({"filter": {"s": Regex("plain")}}, False),
        ({"projection": {"l": {"$slice": 3}, "s": {"$meta": "textScore"}}}, False),
        ({"u": {"$push": {"l": {"$each": [1], "$slice": 3}}}}, False),
        ({"filter": {"s": "$range"}}, False),
        ({"filter": {"s": {"$regex": "^plain.*"}}}, True),
        ({"filter": {"s": {"$regex": "plain", "$options": "i"}}}, True),
        ({"filter": {"s": Regex("plain", "i")}}, True),
        ({"filter": {"s": Regex("(a|b)?")}}, True),
        ({"filter": {"$jsonSchema": {}}}, True),
        ({"let": {"x": {"$max": {"$range": [0, 1]}}}}, True),
        ({"pipeline": [{"$bucket": {"groupBy": "$a", "boundaries": [0, {"$pow": [2, 3]}]}}]}, True),
        ({"pipeline": [{"$set": {"a": {"$unheard": 1}}}]}, False),
        # The id of a session, whose bytes look like a pattern or an operator.
        ({"find": "c", "lsid": {"id": Binary(b"\x0b0123456789abc+\0", 4)}, "$db": "d"}, False),
        ({"find": "c", "lsid": {"id": Binary(b"\x03$range\0901234567", 4)}, "$db": "d"}, False),
        ({"find": "c", "$clusterTime": {"n": 11}, "filter": {"s": Regex("a+")}, "$db": "d"}, True),
        ({"find": "c", "$clusterTime": 1, "filter": {"$expr": {"$map": {}}}, "$db": "d"}, True),
    ],
)
def test_messages(message: Any, costly: bool) -> None:
    assert is_costly_message(encode(message)) is costly
