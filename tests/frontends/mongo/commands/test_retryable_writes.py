"""Stored answers of a retryable write: runs of statements with equal answers."""

from __future__ import annotations

from itertools import count
from random import Random
from typing import Any

import pytest
from bson import Int64
from pymongo import MongoClient

from mayflydb.embedded import RunningServer

COUNT = 300
NUMBERS = count(1)


@pytest.fixture
def retryable(mongo_client: MongoClient[dict[str, Any]]) -> Any:
    """A function that inserts documents with these ids, always under the same transaction number."""
    database = mongo_client["retryable"]
    database.drop_collection("c")
    database.create_collection("c")
    number = next(NUMBERS)  # Of a session that comes from a pool.
    with mongo_client.start_session() as session:

        def insert(*ids: int) -> Any:
            documents = [{"_id": id} for id in ids]
            command = {"insert": "c", "documents": documents, "stmtIds": list(ids), "ordered": False}
            return database.command({**command, "txnNumber": Int64(number)}, session=session)

        yield insert


@pytest.mark.parametrize(
    ("first", "again", "retried"),
    [
        ((0, 1, 2), (0, 1, 2), [0, 1, 2]),
        ((0, 1, 2), (2, 3), [2]),
        ((5, 6), (4, 5, 6, 7), [5, 6]),
        ((3,), (1, 3, 5), [3]),
        ((9, 4, 0), (0, 4, 5, 9), [0, 4, 9]),
        ((0, 2, 1), (1, 2, 3), [1, 2]),
    ],
)
def test_executed_statements_are_not_executed_again(retryable: Any, first: Any, again: Any, retried: list[int]) -> None:
    assert retryable(*first)["n"] == len(first)
    answer = retryable(*again)
    assert (answer["n"], answer.get("retriedStmtIds"), answer.get("writeErrors")) == (len(again), retried, None)


def test_statements_are_stored_in_any_order_and_number(retryable: Any, chance: Random) -> None:
    ids = list(range(COUNT))
    chance.shuffle(ids)
    for at in range(0, COUNT, 100):
        retryable(*ids[at : at + 100])
    assert retryable(*range(COUNT))["retriedStmtIds"] == list(range(COUNT))


@pytest.mark.parametrize("name", ["insert", "update"])
def test_the_document_of_a_session_shows_its_last_write(
    mongo_server: RunningServer, mongo_client: MongoClient[dict[str, Any]], name: str
) -> None:
    kept, number = mongo_client["config"]["transactions"], Int64(1 << 40)
    mongo_client["retryable"]["shown"].drop()
    mongo_client["retryable"].command({"insert": "shown", "documents": [{"_id": 1}]})
    statements: dict[str, Any] = {
        "insert": {"documents": [{"_id": 2}, {"_id": 3}]},
        "update": {"updates": [{"q": {"_id": 1}, "u": {"$set": {"a": 1}}}]},
    }
    answers = {"insert": [[0, 2, None]], "update": [[0, 1, {"matched": 1, "modified": 1}]]}
    # A client of its own, whose session has had no writes with other numbers.
    with mongo_server.mongo.client() as client, client.start_session() as session:
        client["retryable"].command({name: "shown", **statements[name], "txnNumber": number}, session=session)
        found = kept.find_one({"_id.id": session.session_id["id"]})
        assert found is not None
        # It is found by its identity, too.
        assert kept.find_one({"_id": found["_id"]}) == found
    assert list(found) == ["_id", "txnNum", "lastWriteDate", "done"]
    assert (found["txnNum"], found["done"]) == (number, answers[name])
    assert found["lastWriteDate"] == mongo_client["admin"].command("hello")["localTime"]
