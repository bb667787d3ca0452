"""Retryable writes: a repeated write executes nothing twice, and returns the answer of the first attempt."""

from __future__ import annotations

import uuid
from contextlib import closing
from typing import Any

import pytest
from bson import Binary, Int64
from pymongo import MongoClient
from pymongo.collection import Collection

from frontends.mongo.sessions.conftest import HostTime
from frontends.mongo.wire.test_server import Wire
from mayflydb.embedded import RunningServer
from stores import STORES

pytestmark = pytest.mark.parametrize("mongo_server", STORES, indirect=True, scope="module")

Client = MongoClient[dict[str, Any]]
Things = Collection[dict[str, Any]]


class Sender:
    """Sends commands of one session, each on a connection of its own."""

    def __init__(self, server: RunningServer, name: str) -> None:
        self.server = server
        self.name = name
        self.lsid = {"id": Binary(uuid.uuid4().bytes, 4)}

    def __call__(self, command: dict[str, Any], number: int = 1, listen: bool = True, **fields: Any) -> dict[str, Any]:
        """Send a command and return the answer; without `listen`, close the connection before the answer comes."""
        given = {"lsid": self.lsid, "txnNumber": Int64(number), **fields, "$db": "shop"}
        with closing(Wire(self.server)) as wire:
            wire.send({**self.named(command), **{name: value for name, value in given.items() if value is not None}})
            answer = wire.receive() if listen else {}
            assert answer is not None
            return answer

    def named(self, command: dict[str, Any]) -> dict[str, Any]:
        return {next(iter(command)): self.name, **dict(list(command.items())[1:])}


@pytest.fixture
def send(mongo_server: RunningServer, things: Things) -> Sender:
    return Sender(mongo_server, things.name)


def update(query: dict[str, Any], change: Any, **rest: Any) -> dict[str, Any]:
    return {"update": 1, "updates": [{"q": query, "u": change, **rest}]}


def delete(*queries: dict[str, Any], limit: int = 1) -> dict[str, Any]:
    return {"delete": 1, "deletes": [{"q": query, "limit": limit} for query in queries]}


def modify(name: str = "findAndModify", **rest: Any) -> dict[str, Any]:
    return {name: 1, "query": {"v": {"$gte": 10}}, "sort": {"v": 1}, **rest}


INC = {"$inc": {"v": 1}}

WRITES: list[tuple[dict[str, Any], list[int] | None]] = [
    # A write, and which of its statements a second try finds done; None: nothing was noted, and the same is done again.
    ({"insert": 1, "documents": [{"_id": 4}, {"_id": 5}]}, [0, 1]),
    ({"insert": 1, "documents": [{"_id": 4}, {"_id": 1}, {"_id": 5}]}, [0]),
    ({"insert": 1, "documents": [{"_id": 4}, {"_id": 1}, {"_id": 5}], "ordered": False}, [0, 2]),
    ({"insert": 1, "documents": [{"_id": n} for n in range(4, 304)]}, list(range(300))),
    ({"insert": 1, "documents": [{"_id": 4}, {"_id": 5}], "stmtIds": [7, 9]}, [7, 9]),
    ({"insert": 1, "documents": [{"_id": 4}], "stmtId": 3}, [3]),
    (update({"_id": 1}, INC), [0]),
    (update({"v": {"$gt": 10}}, INC), [0]),
    (update({"_id": 9}, INC), None),
    (update({"v": 99}, INC), [0]),
    (update({"_id": 9}, INC, upsert=True), [0]),
    (update({"v": 99}, {"$set": {"w": 1}}, upsert=True), [0]),
    (update({"_id": 1}, {"$set": {"v": 10}}), [0]),
    (update({"_id": 1}, [{"$set": {"v": {"$add": ["$v", 1]}}}]), [0]),
    ({"update": 1, "updates": [{"q": {"_id": n}, "u": INC} for n in (1, 1, 2)]}, [0, 1, 2]),
    (delete({"v": {"$gt": 10}}), [0]),
    (delete({"_id": 1}, {"_id": 9}, {"_id": 2}), [0, 2]),
    (modify(update=INC), [0]),
    (modify(update=INC, new=True, fields={"v": 1, "_id": 0}), [0]),
    (modify("findandmodify", update=INC, new=True), [0]),
    (modify(remove=True), [0]),
    (modify(query={"_id": 9}, update=INC, upsert=True, new=True), [0]),
]


@pytest.mark.parametrize("number", range(len(WRITES)))
def test_a_repeated_write_returns_the_stored_answer(send: Sender, things: Things, number: int) -> None:
    command, done = WRITES[number]
    first = send(command)
    stored = list(things.find(sort=[("_id", 1)]))
    again = send(command)
    assert again.pop("retriedStmtIds", None) == done
    assert again == first
    assert list(things.find(sort=[("_id", 1)])) == stored


@pytest.mark.parametrize("number", [0, 3, 14, 17, 21])
def test_a_write_whose_answer_was_lost_is_executed_once(send: Sender, things: Things, number: int) -> None:
    """The first attempt or the repetition may come first."""
    command, done = WRITES[number]
    send(command, listen=False)
    again = send(command)
    again.pop("retriedStmtIds", None)
    third = send(command)
    assert third.pop("retriedStmtIds") == done
    assert third == again


REFUSED: list[tuple[dict[str, Any], dict[str, Any], int]] = [
    (update({}, INC, multi=True), {}, 72),
    (delete({}, limit=0), {}, 72),
    (update({"_id": 1}, INC), {"txnNumber": Int64(0)}, 225),
    (update({"_id": 1}, INC), {"txnNumber": "1"}, 14),
    (update({"_id": 1}, INC), {"txnNumber": Int64(-1)}, 72),
    (update({"_id": 1}, INC), {"lsid": None}, 72),
    (update({"_id": 1}, INC), {"stmtIds": [1, 2]}, 72),
    (update({"_id": 1}, INC), {"stmtIds": [1], "stmtId": 1}, 72),
    ({"find": 1}, {}, 50768),
]


@pytest.mark.parametrize(("command", "fields", "code"), REFUSED)
def test_invalid_numbers_are_refused(
    send: Sender, things: Things, command: dict[str, Any], fields: dict[str, Any], code: int
) -> None:
    assert send({"insert": 1, "documents": [{"_id": 4}]})["n"] == 1
    answer = send(command, 2, **fields)
    assert (answer["writeErrors"][0] if "writeErrors" in answer else answer)["code"] == code
    assert things.find_one({"_id": 1}) == {"_id": 1, "v": 10}


def test_a_refused_statement_may_be_tried_again(send: Sender, things: Things) -> None:
    command = {"insert": 1, "documents": [{"_id": 4}, {"_id": 1}]}
    assert send(command)["writeErrors"][0]["code"] == 11000
    things.delete_one({"_id": 1})
    answer = send(command)
    assert (answer["n"], answer["retriedStmtIds"]) == (2, [0])


def test_each_session_has_numbers_of_its_own(mongo_server: RunningServer, send: Sender, things: Things) -> None:
    other = Sender(mongo_server, things.name)
    for sender in (send, other, send, other):
        sender(update({"_id": 1}, INC))
    assert things.find_one({"_id": 1}) == {"_id": 1, "v": 12}


def test_stored_answers_are_removed_with_their_session(client: Client, send: Sender) -> None:
    send(update({"_id": 1}, INC))
    kept = client.config.transactions
    assert kept.count_documents({"_id.id": send.lsid["id"]}) == 1
    client.admin.command("endSessions", [send.lsid])
    assert kept.count_documents({"_id.id": send.lsid["id"]}) == 0


def test_stored_answers_of_idle_sessions_are_removed(
    mongo_server: RunningServer, host_time: HostTime, client: Client, send: Sender, things: Things
) -> None:
    """Host time counts, not the virtual clock. Answers of sessions that write stay."""
    busy = Sender(mongo_server, things.name)
    send(update({"_id": 1}, INC))
    mongo_server.clock.advance(days=30)
    assert send(update({"_id": 1}, INC))["retriedStmtIds"] == [0]
    for number in range(1, 8):
        host_time.pass_seconds(600)
        busy(update({"_id": 2}, INC), number)
    found = {each["_id"]["id"] for each in client.config.transactions.find()}
    assert (send.lsid["id"] in found, busy.lsid["id"] in found) == (False, True)
