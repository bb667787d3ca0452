"""`operationTime`, `$clusterTime` and `recoveryToken` in replies, and change streams that begin at such a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from bson import Timestamp
from pymongo import MongoClient
from pymongo.change_stream import ChangeStream
from pymongo.client_session import ClientSession
from pymongo.collection import Collection
from pymongo.errors import OperationFailure

from mayflydb.embedded import RunningServer, serve
from stores import STORES

pytestmark = pytest.mark.parametrize("mongo_server", STORES, indirect=True, scope="module")

Client = MongoClient[dict[str, Any]]
Things = Collection[dict[str, Any]]


@pytest.fixture
def things(mongo_client: Client) -> Things:
    mongo_client.drop_database("gossip")
    return mongo_client.gossip.things


@pytest.fixture
def session(mongo_client: Client) -> Iterator[ClientSession]:
    with mongo_client.start_session() as session:
        yield session


def time_of(session: ClientSession) -> Timestamp:
    assert session.operation_time is not None
    return session.operation_time


def ids(stream: ChangeStream[dict[str, Any]]) -> list[Any]:
    """Of all events that are there."""
    found = []
    while (event := stream.try_next()) is not None:
        found.append(event["documentKey"]["_id"])
    return found


def test_every_reply_tells_the_time(mongo_client: Client, things: Things) -> None:
    things.insert_one({"_id": 1})
    commands: list[dict[str, Any]] = [
        {"ping": 1},
        {"hello": 1},
        {"find": "things"},
        {"insert": "things", "documents": [{}]},
    ]
    for command in commands:
        reply = things.database.command(command)
        assert type(reply["operationTime"]) is Timestamp
        cluster = reply["$clusterTime"]
        assert cluster["clusterTime"] == reply["operationTime"]
        assert set(cluster["signature"]) == {"hash", "keyId"}
    with pytest.raises(OperationFailure) as refusal:
        things.database.command("nope")
    assert refusal.value.details is not None
    assert type(refusal.value.details["operationTime"]) is Timestamp


def test_time_only_rises_and_rises_by_writes(mongo_server: RunningServer, things: Things) -> None:
    things.insert_one({"_id": 0})
    before = things.database.command("ping")["operationTime"]
    mongo_server.clock.advance(seconds=5)
    assert things.database.command("ping")["operationTime"] == before
    for n in range(1, 4):
        mongo_server.clock.advance(seconds=5)
        after = things.database.command("insert", "things", documents=[{"_id": n}])["operationTime"]
        assert after > before
        before = things.database.command("find", "things")["operationTime"]
        assert before == after


def test_a_first_stream_begins_at_the_time_of_a_session(
    mongo_server: RunningServer, things: Things, session: ClientSession
) -> None:
    things.insert_one({"_id": 0})
    mongo_server.clock.advance(seconds=5)
    things.insert_one({"_id": 1}, session=session)
    mongo_server.clock.advance(seconds=5)
    with things.watch(start_at_operation_time=time_of(session), max_await_time_ms=1) as stream:
        things.insert_many([{"_id": 2}, {"_id": 3}])
        assert ids(stream) == [2, 3]


def test_a_stream_tells_of_the_last_write_and_of_all_that_follow_once(
    mongo_server: RunningServer, things: Things, session: ClientSession
) -> None:
    things.insert_one({"_id": 0})
    with things.watch(max_await_time_ms=1):
        pass
    times = []
    for n in range(1, 6):
        mongo_server.clock.advance(seconds=1)
        things.insert_one({"_id": n}, session=session)
        times.append(time_of(session))
    for n, time in enumerate(times, 1):
        with things.watch(start_at_operation_time=time, max_await_time_ms=1) as stream:
            assert ids(stream) == list(range(n, 6))
        with things.watch(start_at_operation_time=Timestamp(time.time, time.inc + 1), max_await_time_ms=1) as stream:
            assert ids(stream) == list(range(n + 1, 6))
    with things.watch(start_at_operation_time=times[0], max_await_time_ms=1) as stream:
        told = [stream.next()["clusterTime"] for _ in times]
    assert told == times


def test_a_stream_cannot_start_before_its_history(
    mongo_server: RunningServer, things: Things, session: ClientSession
) -> None:
    things.insert_one({"_id": 1}, session=session)
    mongo_server.clock.advance(seconds=5)
    things.insert_one({"_id": 2})
    with pytest.raises(OperationFailure) as refusal:
        things.watch(start_at_operation_time=time_of(session))
    assert refusal.value.code == 286


def test_a_router_gives_a_token_for_each_transaction(mongo_client: Client, things: Things) -> None:
    things.insert_one({"_id": 1})
    with mongo_client.start_session() as session:
        session.start_transaction()
        reply = things.database.command("find", "things", session=session)
        assert reply["recoveryToken"]
        session.commit_transaction()
    assert "recoveryToken" not in things.database.command("find", "things")


@pytest.mark.parametrize(("topology", "times"), [("replicaset:rs", True), ("standalone", False)])
def test_other_topologies_return_no_recovery_token(mongo_server: RunningServer, topology: str, times: bool) -> None:
    options = {"mongo_advertise": "127.0.0.1:1"} if times else {}
    with (
        serve(memory=True, port=0, mongo_topology=topology, **options) as server,
        server.mongo.client(directConnection=True) as client,
    ):
        reply = client.gossip.command("ping")
        assert ("operationTime" in reply, "$clusterTime" in reply) == (times, times)
        if times:
            with client.start_session() as session, session.start_transaction():
                assert "recoveryToken" not in client.gossip.command("find", "things", session=session)
