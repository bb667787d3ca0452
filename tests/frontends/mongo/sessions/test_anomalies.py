"""Isolation between transactions on every store: snapshot isolation, without its excluded anomalies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.client_session import ClientSession
from pymongo.collection import Collection
from pymongo.errors import OperationFailure, PyMongoError

from stores import STORES

pytestmark = pytest.mark.parametrize("mongo_server", STORES, indirect=True, scope="module")

Things = Collection[dict[str, Any]]
Step = Callable[["Two"], Any]

CONFLICT = "conflict"


class Two:
    """Two sessions, each with an open transaction that has read everything, and a client without a transaction."""

    def __init__(self, things: Things, a: ClientSession, b: ClientSession) -> None:
        self.things = things
        self.a, self.b = a, b
        for session in (a, b):
            session.start_transaction()
            things.count_documents({}, session=session)

    def values(self, session: ClientSession | None = None, query: dict[str, Any] | None = None) -> dict[int, int]:
        return {each["_id"]: each["v"] for each in self.things.find(query or {}, session=session)}

    def add(self, session: ClientSession | None, id: int, amount: int) -> int:
        return self.things.update_one({"_id": id}, {"$inc": {"v": amount}}, session=session).modified_count


BEGUN = {1: 10, 2: 20, 3: 30}

SCENARIOS: dict[str, list[tuple[Step, Any]]] = {
    "lost update": [
        (lambda t: t.add(t.a, 1, 1), 1),
        (lambda t: t.a.commit_transaction(), None),
        (lambda t: t.add(t.b, 1, 5), CONFLICT),
        (lambda t: t.values(), {**BEGUN, 1: 11}),
    ],
    "the second to write is told at once": [
        (lambda t: t.add(t.a, 1, 1), 1),
        (lambda t: t.add(t.b, 1, 5), CONFLICT),
        (lambda t: t.a.commit_transaction(), None),
        (lambda t: t.values(), {**BEGUN, 1: 11}),
    ],
    "a write outside comes first": [
        (lambda t: t.add(None, 1, 5), 1),
        (lambda t: t.add(t.a, 1, 1), CONFLICT),
        (lambda t: t.values(), {**BEGUN, 1: 15}),
    ],
    "write skew is allowed": [
        (lambda t: t.add(t.a, 1, t.values(t.a)[2]), 1),
        (lambda t: t.add(t.b, 2, t.values(t.b)[1]), 1),
        (lambda t: t.a.commit_transaction(), None),
        (lambda t: t.b.commit_transaction(), None),
        (lambda t: t.values(), {1: 30, 2: 30, 3: 30}),
    ],
    "dirty read": [
        (lambda t: t.add(t.a, 1, 1), 1),
        (lambda t: t.values(t.b), BEGUN),
        (lambda t: t.values(), BEGUN),
        (lambda t: t.values(t.a), {**BEGUN, 1: 11}),
        (lambda t: t.a.abort_transaction(), None),
        (lambda t: t.values(), BEGUN),
    ],
    "non-repeatable read": [
        (lambda t: t.add(None, 1, 1), 1),
        (lambda t: t.things.delete_one({"_id": 2}).deleted_count, 1),
        (lambda t: t.things.insert_one({"_id": 4, "v": 40}).inserted_id, 4),
        (lambda t: t.values(t.a), BEGUN),
        (lambda t: t.values(t.a, {"_id": {"$in": [1, 2, 4]}}), {1: 10, 2: 20}),
        (lambda t: t.values(t.a, {"v": {"$lte": 20}}), {1: 10, 2: 20}),
        (lambda t: t.values(t.a, {"v": {"$in": [11, 40]}}), {}),
        (lambda t: t.values(), {1: 11, 3: 30, 4: 40}),
    ],
    "read skew": [
        (lambda t: t.values(t.b, {"_id": 1}), {1: 10}),
        (lambda t: t.add(t.a, 1, -5) + t.add(t.a, 2, 5), 2),
        (lambda t: t.a.commit_transaction(), None),
        (lambda t: t.values(t.b, {"_id": 2}), {2: 20}),
        (lambda t: t.b.commit_transaction(), None),
    ],
    "what was removed by another is not there to be changed": [
        (lambda t: t.things.delete_one({"_id": 1}).deleted_count, 1),
        (lambda t: t.add(t.a, 1, 1), CONFLICT),
        (lambda t: t.values(), {2: 20, 3: 30}),
    ],
    "two make the same": [
        (lambda t: t.things.insert_one({"_id": 4, "v": 1}, session=t.a).inserted_id, 4),
        (lambda t: t.things.insert_one({"_id": 4, "v": 2}, session=t.b).inserted_id, CONFLICT),
        (lambda t: t.a.commit_transaction(), None),
        (lambda t: t.values(), {**BEGUN, 4: 1}),
    ],
    "aggregate and distinct see the same": [
        (lambda t: t.add(None, 1, 1), 1),
        (lambda t: t.things.distinct("v", session=t.a), [10, 20, 30]),
        (lambda t: sum(each["v"] for each in t.things.aggregate([{"$match": {"v": {"$lt": 25}}}], session=t.a)), 30),
        (lambda t: t.things.find_one_and_update({"_id": 2}, {"$set": {"v": 0}}, session=t.a), {"_id": 2, "v": 20}),
        (lambda t: t.things.distinct("v", session=t.a), [0, 10, 30]),
        (lambda t: t.a.commit_transaction(), None),
        (lambda t: t.things.distinct("v"), [0, 11, 30]),
    ],
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_anomalies(client: MongoClient[dict[str, Any]], things: Things, name: str) -> None:
    with client.start_session() as a, client.start_session() as b:
        two = Two(things, a, b)
        for number, (step, expected) in enumerate(SCENARIOS[name]):
            assert outcome(step, two) == expected, f"step {number}"


def outcome(step: Step, two: Two) -> Any:
    try:
        found = step(two)
    except OperationFailure as error:
        return CONFLICT if error.code == 112 and error.has_error_label("TransientTransactionError") else error
    return sorted(found) if isinstance(found, list) else found


def test_with_transaction_retries_a_write_conflict(client: MongoClient[dict[str, Any]], things: Things) -> None:
    runs: list[int] = []

    def double(session: ClientSession) -> None:
        found = things.find_one({"_id": 1}, session=session)
        assert found is not None
        if not runs:
            things.update_one({"_id": 1}, {"$inc": {"v": 1}})
        runs.append(found["v"])
        things.update_one({"_id": 1}, {"$set": {"v": 2 * found["v"]}}, session=session)

    with client.start_session() as session:
        session.with_transaction(double)
    assert runs == [10, 11]
    assert things.find_one({"_id": 1}) == {"_id": 1, "v": 22}


def test_all_or_nothing(client: MongoClient[dict[str, Any]], things: Things) -> None:
    """The transaction writes to two databases and to new collections."""
    other = client.bank[things.name]
    with client.start_session() as session:
        for ends in (session.abort_transaction, session.commit_transaction):
            session.start_transaction()
            other.insert_one({"_id": 1}, session=session)
            things.delete_many({"v": {"$gte": 20}}, session=session)
            assert [each["_id"] for each in things.find(session=session)] == [1]
            assert (other.find_one(), things.estimated_document_count()) == (None, 3)
            ends()
    assert (other.find_one(), things.estimated_document_count()) == ({"_id": 1}, 1)


def test_a_repeated_commit_is_confirmed(client: MongoClient[dict[str, Any]], things: Things) -> None:
    """The stored marker answers, since another client asks with the same session and number."""
    with client.start_session() as session:
        session.start_transaction()
        things.insert_one({"_id": 4}, session=session)
        session.commit_transaction()
        record = client.config.transactions.find_one({"_id.id": session.session_id["id"]})
        assert record is not None
        assert record["state"] == "committed"
        session.start_transaction()
        things.insert_one({"_id": 5}, session=session)
        session.abort_transaction()
        with pytest.raises(PyMongoError):
            session.commit_transaction()
