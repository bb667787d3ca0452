"""Text indexes, and searches by find, count and pipelines, on every store."""

from __future__ import annotations

from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.collection import Collection
from pymongo.errors import OperationFailure, WriteError

from stores import STORES

Client = MongoClient[dict[str, Any]]
Texts = Collection[dict[str, Any]]

pytestmark = pytest.mark.parametrize("mongo_server", STORES, indirect=True, scope="module")

FOUND = {"$text": {"$search": "running"}}
SCORE = {"$meta": "textScore"}


@pytest.fixture
def texts(mongo_client: Client) -> Texts:
    mongo_client.drop_database("texts")
    mongo_client.texts.c.create_index([("title", "text"), ("body", "text")], weights={"title": 10})
    mongo_client.texts.c.insert_many(
        [
            {"_id": 1, "title": "The dogs", "body": "run and run"},
            {"_id": 2, "title": "Runs", "body": "cats"},
            {"_id": 3, "title": "cats", "body": "sleep"},
            {"_id": 4, "title": "corriendo", "language": "spanish"},
        ]
    )
    return mongo_client.texts.c


def test_an_english_index_is_what_is_made_by_default(texts: Texts) -> None:
    listed = texts.index_information()["title_text_body_text"]
    assert (listed["default_language"], listed["language_override"], listed["textIndexVersion"]) == (
        "english",
        "language",
        3,
    )
    assert dict(listed["weights"]) == {"title": 10, "body": 1}
    command = {"key": {"_fts": "text", "_ftsx": 1}, "name": "title_text_body_text"}
    for options in ({}, {"default_language": "english"}, {"language_override": "language", "textIndexVersion": 3}):
        given = {**command, "weights": {"title": 10, "body": 1}, **options}
        reply = texts.database.command("createIndexes", "c", indexes=[given])
        assert (reply["numIndexesAfter"], reply["note"]) == (2, "all indexes already exist")
    with pytest.raises(OperationFailure) as refusal:
        texts.create_index([("title", "text"), ("body", "text")], weights={"title": 10}, default_language="none")
    assert refusal.value.code == 85


@pytest.mark.parametrize(
    ("search", "ids"),
    [
        ({"$search": "running"}, [1, 2]),
        ({"$search": "the"}, []),
        ({"$search": "cat -sleeping"}, [2]),
        ({"$search": "correr", "$language": "spanish"}, [4]),
        ({"$search": "running", "$language": "none"}, []),
        ({"$search": "Runs", "$caseSensitive": True}, [2]),
    ],
    ids=str,
)
def test_a_search_finds_the_same_everywhere(texts: Texts, search: dict[str, Any], ids: list[int]) -> None:
    query = {"$text": search}
    assert sorted(each["_id"] for each in texts.find(query)) == ids
    assert sorted(each["_id"] for each in texts.aggregate([{"$match": query}])) == ids
    assert texts.count_documents(query) == len(ids)
    assert texts.database.command("count", "c", query=query)["n"] == len(ids)
    assert sorted(texts.distinct("_id", query)) == ids
    assert texts.count_documents({"$and": [query, {"_id": {"$lt": 9}}]}) == len(ids)
    assert texts.count_documents({"$and": [{"_id": {"$lt": 9}}, query]}) == len(ids)
    assert texts.update_many(query, {"$set": {"seen": 1}}).matched_count == len(ids)


def test_pipelines_know_the_scores_of_find(texts: Texts) -> None:
    scores = {each["_id"]: each["s"] for each in texts.find(FOUND, {"s": SCORE})}
    assert scores[2] > scores[1] > 0
    pipelines: list[list[dict[str, Any]]] = [
        [{"$match": FOUND}, {"$project": {"s": SCORE}}],
        [{"$match": FOUND}, {"$addFields": {"s": SCORE}}],
        [{"$match": FOUND}, {"$sort": {"x": SCORE}}, {"$set": {"s": SCORE}}],
        [{"$match": {"$and": [FOUND, {"_id": {"$gt": 0}}]}}, {"$limit": 5}, {"$set": {"s": SCORE}}],
    ]
    for stages in pipelines:
        assert {each["_id"]: each["s"] for each in texts.aggregate(stages)} == scores
    by_score = texts.aggregate([{"$match": FOUND}, {"$sort": {"s": SCORE}}])
    assert [each["_id"] for each in by_score] == [2, 1]
    grouped = texts.aggregate([{"$match": FOUND}, {"$group": {"_id": None, "s": {"$sum": SCORE}}}])
    assert [each["s"] for each in grouped] == [pytest.approx(sum(scores.values()))]


def test_views_are_searched_where_they_stand(texts: Texts) -> None:
    texts.database.command("create", "plain", viewOn="c", pipeline=[])
    texts.database.command("create", "found", viewOn="c", pipeline=[{"$match": FOUND}])
    assert texts.database.plain.count_documents(FOUND) == 2
    assert texts.database.found.count_documents({}) == 2
    assert sorted(each["_id"] for each in texts.database.found.find({"_id": 2})) == [2]


@pytest.mark.parametrize("name", ["find", "aggregate", "count"])
def test_what_is_not_there_is_searched_in_vain_and_what_has_no_index_not_at_all(texts: Texts, name: str) -> None:
    database = texts.database
    database.bare.insert_one({"title": "running"})

    def number(collection: Texts) -> int:
        if name == "aggregate":
            return len(list(collection.aggregate([{"$match": FOUND}])))
        return len(list(collection.find(FOUND))) if name == "find" else collection.count_documents(FOUND)

    assert number(database.none) == 0
    with pytest.raises(OperationFailure) as refusal:
        number(database.bare)
    assert refusal.value.code == 27


@pytest.mark.parametrize(
    ("options", "code"),
    [({"hint": "_id_"}, 2), ({"sort": {"$natural": 1}}, 2), ({"sort": {"s": SCORE}}, 0), ({"hint": {}}, 0)],
    ids=str,
)
def test_a_search_goes_by_its_index(texts: Texts, options: dict[str, Any], code: int) -> None:
    command = {"find": "c", "filter": FOUND, **options}
    if not code:
        assert len(texts.database.command(command)["cursor"]["firstBatch"]) == 2
        return
    with pytest.raises(OperationFailure) as refusal:
        texts.database.command(command)
    assert refusal.value.code == code


@pytest.mark.parametrize(("language", "code"), [("klingon", 17262), (5, 17261)])
def test_a_document_of_a_language_there_is_not_is_refused(texts: Texts, language: Any, code: int) -> None:
    with pytest.raises(WriteError) as refusal:
        texts.insert_one({"title": "x", "language": language})
    assert refusal.value.code == code


def test_an_index_without_a_language_takes_words_as_they_are(mongo_client: Client) -> None:
    mongo_client.drop_database("texts")
    texts = mongo_client.texts.c
    texts.create_index([("t", "text")], default_language="none")
    texts.insert_many([{"_id": 1, "t": "the running", "language": "js"}, {"_id": 2, "t": "run"}])
    found = [
        sorted(each["_id"] for each in texts.find({"$text": {"$search": word}})) for word in ("running", "run", "the")
    ]
    assert found == [[1], [2], [1]]


def test_a_collation_has_no_text_index(mongo_client: Client) -> None:
    mongo_client.drop_database("texts")
    texts = mongo_client.texts.create_collection("c", collation={"locale": "en"})
    with pytest.raises(OperationFailure) as refusal:
        texts.create_index([("t", "text")])
    assert refusal.value.code == 67
    texts.create_index([("t", "text")], collation={"locale": "simple"})
