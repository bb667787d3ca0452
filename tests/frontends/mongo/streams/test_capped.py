"""Capped collections: removal of the oldest documents, and tailable cursors."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from pymongo import CursorType, MongoClient
from pymongo.database import Database
from pymongo.errors import OperationFailure

Doc = dict[str, Any]
_names = count()


@pytest.fixture
def db(mongo_client: MongoClient[Doc]) -> Iterator[Database[Doc]]:
    """A database of its own."""
    name = f"capped{next(_names)}"
    yield mongo_client[name]
    mongo_client.drop_database(name)


@pytest.mark.parametrize(
    ("options", "inserted", "kept"),
    [
        ({"size": 10_000, "max": 3}, 2, [0, 1]),
        ({"size": 10_000, "max": 3}, 3, [0, 1, 2]),
        ({"size": 10_000, "max": 3}, 7, [4, 5, 6]),
        ({"size": 28}, 3, [1, 2]),
        ({"size": 27}, 3, [2]),
        ({"size": 42, "max": 1}, 3, [2]),
    ],
)
@pytest.mark.parametrize("together", [True, False])
def test_the_oldest_documents_are_removed(
    db: Database[Doc], options: Doc, inserted: int, kept: list[int], together: bool
) -> None:
    coll = db.create_collection("c", capped=True, **options)
    documents = [{"_id": n} for n in range(inserted)]
    if together:
        coll.insert_many(documents)
    else:
        for document in documents:
            coll.insert_one(document)
    assert [each["_id"] for each in coll.find()] == kept
    assert [each["_id"] for each in coll.find().sort("$natural", -1)] == kept[::-1]
    coll.delete_one({"_id": kept[0]})
    assert coll.count_documents({}) == len(kept) - 1


def test_a_document_larger_than_the_cap_is_refused(db: Database[Doc]) -> None:
    coll = db.create_collection("c", capped=True, size=20)
    coll.insert_one({"_id": 1})
    with pytest.raises(OperationFailure) as refused:
        coll.insert_one({"_id": 2, "a": "0123456789"})
    assert refused.value.code == 10003
    assert [each["_id"] for each in coll.find()] == [1]


@pytest.mark.parametrize("kind", [CursorType.TAILABLE, CursorType.TAILABLE_AWAIT])
@pytest.mark.parametrize("dropped", [True, False])
def test_a_tailable_cursor_ends_when_its_position_is_removed(db: Database[Doc], kind: int, dropped: bool) -> None:
    coll = db.create_collection("c", capped=True, size=10_000, max=3)
    coll.insert_many([{"_id": n} for n in range(3)])
    cursor = coll.find({"_id": {"$ne": 4}}, skip=1, cursor_type=kind)
    if kind == CursorType.TAILABLE_AWAIT:
        cursor.max_await_time_ms(1)
    found = [each["_id"] for each in cursor]
    assert found == [1, 2]
    assert cursor.alive
    for n in range(3, 9):
        coll.insert_one({"_id": n})
        found += [each["_id"] for each in cursor]
    assert found == [1, 2, 3, 5, 6, 7, 8]
    if dropped:
        coll.drop()
    else:
        coll.insert_many([{"_id": n} for n in range(10, 20)])
    assert list(cursor) == []
    assert not cursor.alive


def test_a_tailable_cursor_on_an_empty_collection_ends_at_once(db: Database[Doc]) -> None:
    coll = db.create_collection("c", capped=True, size=10_000)
    cursor = coll.find(cursor_type=CursorType.TAILABLE_AWAIT)
    assert list(cursor) == []
    assert not cursor.alive


@pytest.mark.parametrize(
    ("capped", "arguments", "code"),
    [
        (False, {"tailable": True}, 2),
        (True, {"awaitData": True}, 9),
        (True, {"tailable": True, "sort": {"a": 1}}, 2),
        (True, {"tailable": True, "sort": {"$natural": -1}}, 2),
        (True, {"tailable": True, "singleBatch": True}, 9),
    ],
)
def test_cursors_that_cannot_follow_are_refused(db: Database[Doc], capped: bool, arguments: Doc, code: int) -> None:
    options: Doc = {"capped": True, "size": 1000} if capped else {}
    db.command("create", "c", **options)
    with pytest.raises(OperationFailure) as refused:
        db.command("find", "c", **arguments)
    assert refused.value.code == code


def test_capped_collections_are_listed_as_such(db: Database[Doc]) -> None:
    db.create_collection("c", capped=True, size=1000, max=5)
    assert db["c"].options() == {"capped": True, "size": 1000, "max": 5}


def test_transactions_do_not_write_to_capped_collections(db: Database[Doc]) -> None:
    coll = db.create_collection("c", capped=True, size=1000)
    with db.client.start_session() as session, pytest.raises(OperationFailure) as refused, session.start_transaction():
        coll.insert_one({"_id": 1}, session=session)
    assert refused.value.code == 263
