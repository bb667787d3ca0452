"""What is kept of the statements of a numbered write: runs of those that were answered alike."""

from __future__ import annotations

from itertools import count
from random import Random
from typing import Any

import pytest
from bson import Int64
from pymongo import MongoClient

COUNT = 300
NUMBERS = count(1)


@pytest.fixture
def numbered(mongo_client: MongoClient[dict[str, Any]]) -> Any:
    """Runs an insert of the documents with these numbers under the same transaction number each time."""
    database = mongo_client["numbered"]
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
def test_what_was_done_is_not_done_again(numbered: Any, first: Any, again: Any, retried: list[int]) -> None:
    assert numbered(*first)["n"] == len(first)
    answer = numbered(*again)
    assert (answer["n"], answer.get("retriedStmtIds"), answer.get("writeErrors")) == (len(again), retried, None)


def test_statements_in_any_order_and_number_are_remembered(numbered: Any, chance: Random) -> None:
    ids = list(range(COUNT))
    chance.shuffle(ids)
    for at in range(0, COUNT, 100):
        numbered(*ids[at : at + 100])
    assert numbered(*range(COUNT))["retriedStmtIds"] == list(range(COUNT))
