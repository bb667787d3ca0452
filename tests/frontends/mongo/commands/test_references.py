"""Database references (`$ref`, `$id`, `$db`) are documents like any other, for queries, pipelines and updates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from bson import Code, DBRef, encode
from pymongo import MongoClient

from mayflydb.query.mongo.values import decode

Client = MongoClient[dict[str, Any]]

ONE, TWO = {"$ref": "people", "$id": 1}, {"$ref": "people", "$id": 2, "$db": "d"}


@pytest.fixture
def client(mongo_client: Client) -> Client:
    """Three documents, two of which refer to one of `people`."""
    mongo_client.drop_database("refs")
    mongo_client.refs.c.insert_many(
        [
            {"_id": 1, "s": DBRef("people", 1), "all": [DBRef("people", 1), DBRef("people", 2, "d")]},
            {"_id": 2, "s": DBRef("people", 2, "d"), "all": []},
            {"_id": 3, "s": {"x": 1}},
        ]
    )
    mongo_client.refs.people.insert_many([{"_id": 1, "name": "Ada"}, {"_id": 2, "name": "Bo"}])
    return mongo_client


@pytest.mark.parametrize(
    "document",
    [
        {"a": {"x": 1, "$ref": "c", "$id": 2}},
        {"a": {"$ref": "c", "$id": 2, "$db": None}},
        {"a": [{"$ref": "c", "$id": {"$ref": "d", "$id": 1}}], "b": 1},
        {"$ref": "c", "$id": 1},
        {"a": {"$ref": 5, "$id": 1}},
        {"b": 5, "a": [[{"b": {"$ref": "c", "$id": 1}}]], "c": 6},
        {"a": b"\x02$ref\0", "b": "x\x02$ref\0"},
    ],
    ids=str,
)
def test_a_decoded_reference_is_the_document_that_was_sent(document: dict[str, Any]) -> None:
    assert encode(decode(encode(document))) == encode(document)
    assert not any(map(_is_reference, decode(encode(document)).values()))


def _is_reference(value: Any) -> bool:
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return isinstance(value, DBRef) or any(map(_is_reference, inner))


def test_a_reference_in_the_scope_of_code_is_a_document() -> None:
    code = Code("x", {"a": {"x": 1, "$ref": "c", "$id": 2}})
    decoded = decode(encode({"b": code}))["b"]
    assert decoded.scope == code.scope
    assert type(decoded.scope["a"]) is dict


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ({"s": DBRef("people", 1)}, [1]),
        ({"s.$id": 2}, [2]),
        ({"s.$db": {"$exists": True}}, [2]),
        ({"all": DBRef("people", 1)}, [1]),
        ({"all": {"$elemMatch": {"$ref": "people", "$id": 2}}}, [1]),
        ({"all": {"$elemMatch": {"$id": 2}}}, [1]),
        ({"all": {"$elemMatch": {"$id": 3}}}, []),
        ({"all": {"$elemMatch": {"$ref": "people", "$id": 1, "$db": "d"}}}, []),
        ({"all": {"$in": [DBRef("people", 2, "d")]}}, [1]),
        ({"s": {"$type": "object"}}, [1, 2, 3]),
    ],
    ids=str,
)
def test_queries_find_references(client: Client, query: dict[str, Any], ids: list[int]) -> None:
    assert client.refs.c.distinct("_id", query) == ids
    client.refs.c.create_index("all")
    client.refs.c.create_index("s.$id")
    assert client.refs.c.distinct("_id", query) == ids


@pytest.mark.parametrize(
    ("stages", "found"),
    [
        ([{"$set": {"x": {"$objectToArray": "$s"}}}], {"x": [{"k": "$ref", "v": "people"}, {"k": "$id", "v": 1}]}),
        ([{"$set": {"x": {"$mergeObjects": ["$s", {"y": 1}]}}}], {"x": {**ONE, "y": 1}}),
        ([{"$set": {"x": {"$getField": {"field": {"$literal": "$id"}, "input": "$s"}}}}], {"x": 1}),
        ([{"$set": {"x": "$s.$id"}}], {"x": 1}),
        ([{"$project": {"s.$id": 1}}], {"s": {"$id": 1}}),
        ([{"$project": {"s.$ref": 0}}, {"$unset": "all"}], {"s": {"$id": 1}}),
        ([{"$replaceWith": "$s"}], ONE),
        ([{"$unwind": "$all"}, {"$skip": 1}, {"$replaceRoot": {"newRoot": "$all"}}], TWO),
        (
            [{"$lookup": {"from": "people", "localField": "s.$id", "foreignField": "_id", "as": "x"}}],
            {"x": [{"_id": 1, "name": "Ada"}]},
        ),
        (
            [{"$sort": {"s.$id": -1}}, {"$set": {"x": "$s.$id"}}],
            {"_id": 2, "x": 2},
        ),
        ([{"$group": {"_id": "$s.$ref", "n": {"$sum": 1}}}, {"$match": {"_id": "people"}}], {"_id": "people", "n": 2}),
    ],
    ids=str,
)
def test_pipelines_look_into_references(client: Client, stages: list[dict[str, Any]], found: dict[str, Any]) -> None:
    # A driver takes a whole document that is a reference for one, too.
    plain = decode(encode({"first": next(client.refs.c.aggregate(stages))}))["first"]
    assert {name: plain[name] for name in found} == found


def test_a_lookup_finds_documents_that_refer_to_another(client: Client) -> None:
    stage = {"$lookup": {"from": "c", "localField": "_id", "foreignField": "s.$id", "as": "by"}}
    found = client.refs.people.aggregate([stage, {"$sort": {"_id": 1}}])
    assert [[each["_id"] for each in person["by"]] for person in found] == [[1], [2]]


def test_find_sorts_and_projects_by_parts_of_references(client: Client) -> None:
    found = list(client.refs.c.find({"s.$id": {"$gt": 0}}, {"s.$id": 1}).sort("s.$id", -1))
    assert found == [{"_id": 2, "s": {"$id": 2}}, {"_id": 1, "s": {"$id": 1}}]


@pytest.mark.parametrize(
    ("update", "expected"),
    [
        ({"$pull": {"all": DBRef("people", 1)}}, [TWO]),
        ({"$pull": {"all": {"$id": 2}}}, [ONE]),
        ({"$pullAll": {"all": [DBRef("people", 2, "d")]}}, [ONE]),
        ({"$addToSet": {"all": DBRef("people", 1)}}, [ONE, TWO]),
        ({"$push": {"all": DBRef("people", 3)}}, [ONE, TWO, {"$ref": "people", "$id": 3}]),
        ({"$set": {"all.0.$id": 7}}, [{"$ref": "people", "$id": 7}, TWO]),
        ([{"$set": {"all": ["$s"]}}], [ONE]),
    ],
    ids=str,
)
def test_updates_change_references(client: Client, update: Any, expected: list[Any]) -> None:
    client.refs.c.update_one({"_id": 1}, update)
    found = client.refs.c.find_one({"_id": 1})
    assert found is not None
    assert decode(encode(found))["all"] == expected
