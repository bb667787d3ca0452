"""Begin, commands and end of transactions: as drivers send them, and in orders and forms that no driver sends."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from threading import Event
from typing import Any

import pytest
from bson import Binary, Int64
from pymongo import InsertOne, MongoClient, ReturnDocument
from pymongo.client_session import ClientSession
from pymongo.collection import Collection
from pymongo.errors import BulkWriteError, DuplicateKeyError, ExecutionTimeout, OperationFailure
from pymongo.write_concern import WriteConcern

from frontends.mongo.sessions.conftest import HostTime
from frontends.mongo.wire.test_server import Wire
from mayflydb.embedded import RunningServer, serve
from mayflydb.engine.snapshot import Snapshot
from mayflydb.frontends.mongo.collections import Collections
from mayflydb.frontends.mongo.sessions import work
from mayflydb.frontends.mongo.sessions.transactions import Transactions
from mayflydb.model.errors import OutcomeUnknown, Unavailable

Client = MongoClient[dict[str, Any]]
Things = Collection[dict[str, Any]]

TRANSIENT = "TransientTransactionError"


class Raw:
    """A session without a driver: every argument is sent as given."""

    def __init__(self, wire: Wire, things: Things) -> None:
        self.wire = wire
        self.lsid = {"id": Binary(uuid.uuid4().bytes, 4)}
        self.name = things.name

    def run(self, command: dict[str, Any], number: int = 1, db: str = "shop", **fields: Any) -> dict[str, Any]:
        """The answer, which may be an error."""
        given = {"lsid": self.lsid, "txnNumber": Int64(number), "autocommit": False, **fields, "$db": db}
        kept = {name: value for name, value in given.items() if value is not None}
        self.wire.send({**command, **kept})
        answer = self.wire.receive()
        assert answer is not None
        return answer

    def code(self, command: dict[str, Any], number: int = 1, db: str = "shop", **fields: Any) -> Any:
        return self.run(command, number, db, **fields).get("code")

    def start(self, number: int = 1) -> None:
        assert self.run(self.insert(100 + number), number, startTransaction=True)["ok"] == 1

    def insert(self, id: int) -> dict[str, Any]:
        return {"insert": self.name, "documents": [{"_id": id}]}

    def find(self) -> dict[str, Any]:
        return {"find": self.name}

    def end(self, how: str, number: int = 1, **fields: Any) -> Any:
        return self.code({f"{how}Transaction": 1}, number, "admin", **fields)


@pytest.fixture
def raw(mongo_server: RunningServer, things: Things) -> Iterator[Raw]:
    with closing(Wire(mongo_server)) as wire:
        yield Raw(wire, things)


@pytest.fixture
def session(client: Client) -> Iterator[ClientSession]:
    with client.start_session() as session:
        yield session


# --- arguments -------------------------------------------------------------------------------------------------------

ARGUMENTS: list[tuple[dict[str, Any], Any]] = [
    ({"startTransaction": True}, None),
    ({}, 251),
    ({"startTransaction": True, "autocommit": None}, 72),
    ({"startTransaction": False}, 72),
    ({"autocommit": True, "startTransaction": True}, 72),
    ({"autocommit": 0, "startTransaction": True}, 14),
    ({"startTransaction": True, "txnNumber": None}, 72),
    ({"startTransaction": True, "txnNumber": "1"}, 14),
    ({"startTransaction": True, "txnNumber": Int64(-1)}, 72),
    ({"startTransaction": True, "readConcern": {"level": "snapshot"}}, None),
    ({"startTransaction": True, "readConcern": {"level": "linearizable"}}, 72),
    ({"startTransaction": True, "readConcern": 1}, 14),
    ({"startTransaction": True, "writeConcern": {"w": 1}}, 72),
    ({"autocommit": None}, 50768),
]


@pytest.mark.parametrize(("fields", "code"), ARGUMENTS)
def test_arguments_of_a_first_command(raw: Raw, fields: dict[str, Any], code: Any) -> None:
    assert raw.code(raw.find(), **fields) == code


COMMANDS: list[tuple[dict[str, Any], str, Any]] = [
    ({"count": "things"}, "shop", 263),
    ({"create": "things"}, "shop", 263),
    ({"drop": "things"}, "shop", 263),
    ({"createIndexes": "things", "indexes": [{"key": {"a": 1}, "name": "a"}]}, "shop", 263),
    ({"listIndexes": "things"}, "shop", 263),
    ({"listCollections": 1}, "shop", 263),
    ({"ping": 1}, "shop", 263),
    ({"find": "things"}, "config", 263),
    ({"insert": "things", "documents": [{}]}, "admin", 263),
    ({"aggregate": "things", "pipeline": [{"$out": "others"}], "cursor": {}}, "shop", 263),
    ({"aggregate": "things", "pipeline": [{"$merge": "others"}], "cursor": {}}, "shop", 263),
    ({"aggregate": "things", "pipeline": [{"$indexStats": {}}], "cursor": {}}, "shop", 263),
    ({"aggregate": "things", "pipeline": [{"$changeStream": {}}], "cursor": {}}, "shop", 263),
    ({"find": "things", "readConcern": {"level": "local"}}, "shop", 72),
    ({"find": "things", "writeConcern": {"w": 1}}, "shop", 72),
    ({"find": "things", "startTransaction": True}, "shop", 50911),
    ({"find": "things", "filter": {"$nonsense": 1}}, "shop", 2),
    ({"find": "things"}, "shop", None),
    ({"distinct": "things", "key": "v"}, "shop", None),
]


@pytest.mark.parametrize(("command", "db", "code"), COMMANDS)
def test_what_may_be_part_of_a_transaction(raw: Raw, command: dict[str, Any], db: str, code: Any) -> None:
    """A command that may not be part of a transaction aborts it."""
    raw.start()
    assert raw.code(command, db=db) == code
    assert raw.end("commit") == (None if code in (None, 50911) else 251)


# --- numbers ---------------------------------------------------------------------------------------------------------


def test_numbers_only_rise(raw: Raw) -> None:
    raw.start(5)
    assert raw.code(raw.find(), 4) == 225
    assert raw.code(raw.find(), 4, startTransaction=True) == 225
    assert raw.code(raw.find(), 6) == 251
    raw.start(7)  # The one before is over.
    assert raw.end("commit", 5) == 225
    assert raw.end("commit", 7) is None
    assert [each["_id"] for each in raw.run({"find": raw.name}, 8, startTransaction=True)["cursor"]["firstBatch"]] == [
        1,
        2,
        3,
        107,
    ]


def test_a_retryable_write_aborts_the_transaction_before_it(raw: Raw) -> None:
    raw.start(1)
    assert raw.run(raw.insert(50), 2, autocommit=None)["n"] == 1
    assert raw.code(raw.find(), 1) == 251
    assert raw.code(raw.find(), 2, startTransaction=True) == 50911
    assert raw.code(raw.find(), 1, startTransaction=True) == 225
    raw.start(3)
    assert raw.code(raw.insert(51), 3, autocommit=None) == 225
    assert raw.end("commit", 3) is None
    assert raw.code(raw.insert(51), 3, autocommit=None) == 225


# --- ends ------------------------------------------------------------------------------------------------------------

ENDS: list[tuple[list[str], list[Any]]] = [
    (["commit", "commit", "abort", "statement"], [None, None, 256, 256]),
    (["abort", "abort", "commit", "statement"], [None, 251, 251, 251]),
]


@pytest.mark.parametrize(("ends", "codes"), ENDS)
def test_ends(raw: Raw, ends: list[str], codes: list[Any]) -> None:
    raw.start()
    assert [raw.code(raw.find()) if end == "statement" else raw.end(end) for end in ends] == codes


def test_an_abort_during_the_preparation_of_a_commit_wins(
    mongo_server: RunningServer, raw: Raw, things: Things, monkeypatch: pytest.MonkeyPatch
) -> None:
    ensure = Collections.ensure
    begun, go_on = Event(), Event()

    async def slow(self: Collections, database: str, name: str, now: int) -> Any:
        if database == "config":
            begun.set()
            await asyncio.to_thread(go_on.wait)
        return await ensure(self, database, name, now)

    raw.start()
    with closing(Wire(mongo_server)) as wire, ThreadPoolExecutor(1) as pool, monkeypatch.context() as patch:
        other = Raw(wire, things)
        other.lsid = raw.lsid
        patch.setattr(Collections, "ensure", slow)
        commit = pool.submit(raw.end, "commit")
        try:
            assert begun.wait(60)
            assert other.end("abort") is None
        finally:
            go_on.set()
        assert commit.result(60) == 251
    assert things.count_documents({"_id": 101}) == 0


def test_commit_and_abort_without_a_transaction_are_refused(raw: Raw) -> None:
    assert raw.end("commit") == 251
    assert raw.end("abort") == 251
    assert raw.end("commit", startTransaction=True) == 263
    assert raw.end("commit", autocommit=None) == 125
    raw.start()
    assert raw.code({"commitTransaction": 1}, db="shop") == 13
    assert raw.run({"commitTransaction": 1}, 9, "admin")["errorLabels"] == [TRANSIENT]


def test_concerns_of_a_commit(client: Client, things: Things, session: ClientSession) -> None:
    session.start_transaction(write_concern=WriteConcern(w=3))
    things.insert_one({"_id": 4}, session=session)
    with pytest.raises(OperationFailure) as caught:
        session.commit_transaction()
    assert caught.value.code == 100
    assert things.count_documents({"_id": 4}) == 1


UNKNOWN: list[tuple[bool, type[Exception]]] = [(True, OutcomeUnknown), (False, OutcomeUnknown), (False, Unavailable)]


@pytest.mark.parametrize(("happens", "kind"), UNKNOWN)
def test_a_commit_with_an_unknown_outcome_is_repeated_by_the_driver(
    things: Things, session: ClientSession, monkeypatch: pytest.MonkeyPatch, happens: bool, kind: type[Exception]
) -> None:
    """The driver repeats the commit, which has its effect once."""
    calls = []
    commit = Snapshot.commit

    async def failing(self: Snapshot, *given: Any) -> Any:
        calls.append(1)
        if len(calls) > 1:
            return await commit(self, *given)
        if happens:
            await commit(self, *given)
        raise kind("who knows")

    monkeypatch.setattr(Snapshot, "commit", failing)
    session.start_transaction()
    things.update_one({"_id": 1}, {"$inc": {"v": 1}}, session=session)
    session.commit_transaction()
    assert things.find_one({"_id": 1}) == {"_id": 1, "v": 11}
    assert len(calls) == 2


def test_only_a_commit_may_follow_an_unknown_outcome(raw: Raw, monkeypatch: pytest.MonkeyPatch) -> None:
    async def failing(self: Snapshot, *given: Any) -> Any:
        raise OutcomeUnknown("who knows")

    raw.start()
    with monkeypatch.context() as patch:
        patch.setattr(Snapshot, "commit", failing)
        answer = raw.run({"commitTransaction": 1}, db="admin")
    assert (answer["code"], answer["errorLabels"]) == (6, ["RetryableWriteError"])
    assert (raw.code(raw.find()), raw.end("abort"), raw.end("commit")) == (256, 256, None)


Failing = Callable[[Things, ClientSession], Any]

FAILURES: list[tuple[Failing, int]] = [
    (lambda things, session: things.insert_one({"_id": 1}, session=session), 11000),
    (lambda things, session: things.insert_many([{"_id": 9}, {"_id": 1}], ordered=False, session=session), 11000),
    (lambda things, session: things.update_one({"_id": 1}, {"$set": {"_id": 2}}, session=session), 66),
    (lambda things, session: things.update_many({}, {"$push": {"v": 2}}, session=session), 2),
    (lambda things, session: things.find_one({"$x": 1}, session=session), 2),
    (lambda things, session: list(things.aggregate([{"$x": 1}], session=session)), 40324),
]


@pytest.mark.parametrize(("failing", "code"), FAILURES)
def test_an_error_aborts_the_transaction(things: Things, session: ClientSession, failing: Failing, code: int) -> None:
    session.start_transaction()
    things.update_one({"_id": 3}, {"$inc": {"v": 1}}, session=session)
    with pytest.raises((OperationFailure, BulkWriteError)) as caught:
        failing(things, session)
    details = caught.value.details or {}
    assert (details["writeErrors"][0] if "writeErrors" in details else details)["code"] == code
    with pytest.raises(OperationFailure) as after:
        things.find_one({}, session=session)
    assert (after.value.code, after.value.has_error_label(TRANSIENT)) == (251, True)
    session.abort_transaction()
    assert things.find_one({"_id": 3}) == {"_id": 3, "v": 30}


# --- time ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("limit", "seconds", "code"), [(60, 59, None), (60, 61, 251), (90, 61, None), (1, 2, 251)])
def test_the_lifetime_is_counted_in_host_time(
    client: Client, raw: Raw, host_time: HostTime, limit: int, seconds: float, code: Any
) -> None:
    name = "transactionLifetimeLimitSeconds"
    client.admin.command({"setParameter": 1, name: limit})
    raw.start()
    host_time.pass_seconds(seconds)
    assert raw.end("commit") == code
    assert client.admin.command({"setParameter": 1, name: 60})["was"] == limit
    assert client.admin.command({"getParameter": 1, name: 1})[name] == 60
    with pytest.raises(OperationFailure):
        client.admin.command({"setParameter": 1, name: 0})


def test_an_abandoned_transaction_releases_its_snapshot(
    client: Client, raw: Raw, host_time: HostTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[Snapshot] = []
    close = Snapshot.close

    def noted(snapshot: Snapshot) -> None:
        closed.append(snapshot)
        close(snapshot)

    monkeypatch.setattr(Snapshot, "close", noted)
    raw.start()
    host_time.pass_seconds(59)
    client.admin.command("ping")
    assert not closed
    host_time.pass_seconds(2)
    client.admin.command("ping")
    assert closed


def _add(things: Things) -> int:
    return things.update_one({"_id": 1}, {"$inc": {"v": 1}}).modified_count


def test_a_waiting_write_runs_when_the_lifetime_of_the_transaction_ends(
    client: Client, things: Things, session: ClientSession, host_time: HostTime
) -> None:
    session.start_transaction()
    things.update_one({"_id": 1}, {"$set": {"v": 0}}, session=session)
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(_add, things)
        host_time.pass_seconds(59)
        client.admin.command("ping")
        assert not future.done()
        host_time.pass_seconds(2)
        client.admin.command("ping")
        assert future.result(30) == 1
    assert things.find_one({"_id": 1}) == {"_id": 1, "v": 11}


def test_a_timer_ends_a_transaction_without_a_command(client: Client, things: Things, session: ClientSession) -> None:
    client.admin.command({"setParameter": 1, "transactionLifetimeLimitSeconds": 1})
    session.start_transaction()
    things.update_one({"_id": 1}, {"$set": {"v": 0}}, session=session)
    client.admin.command({"setParameter": 1, "transactionLifetimeLimitSeconds": 60})
    assert _add(things) == 1
    assert things.find_one({"_id": 1}) == {"_id": 1, "v": 11}


def test_the_timer_ends_a_later_transaction_with_a_shorter_lifetime_first(
    client: Client, things: Things, session: ClientSession, raw: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def leave(transactions: Transactions) -> None:
        """Heartbeats of the client are commands too: they would end the transaction without a timer."""

    monkeypatch.setattr(Transactions, "end_overdue_each_second", leave)
    raw.start()
    client.admin.command({"setParameter": 1, "transactionLifetimeLimitSeconds": 1})
    session.start_transaction()
    things.update_one({"_id": 1}, {"$set": {"v": 0}}, session=session)
    client.admin.command({"setParameter": 1, "transactionLifetimeLimitSeconds": 60})
    statement = {"q": {"_id": 1}, "u": {"$inc": {"v": 1}}}
    assert things.database.command({"update": things.name, "updates": [statement], "maxTimeMS": 10_000})["n"] == 1
    assert things.find_one({"_id": 1}) == {"_id": 1, "v": 11}
    assert raw.end("commit") is None


def test_a_client_that_disconnects_ends_its_waits_for_locks(
    mongo_server: RunningServer, client: Client, things: Things, session: ClientSession
) -> None:
    session.start_transaction()
    things.update_one({"_id": 1}, {"$set": {"v": 0}}, session=session)

    def status() -> tuple[int, int]:
        found = client.admin.command("serverStatus")
        return found["metrics"]["operation"]["writeConflicts"], found["connections"]["current"]

    before = status()
    with closing(Wire(mongo_server)) as wire:
        wire.send({"delete": things.name, "deletes": [{"q": {"_id": 1}, "limit": 1}], "$db": "shop"})
        while (during := status())[0] == before[0]:
            pass
    while status()[1] >= during[1]:
        pass
    session.commit_transaction()
    assert things.find_one({"_id": 1}) == {"_id": 1, "v": 0}


def test_a_commit_whose_client_has_left_releases_its_locks(
    client: Client, raw: Raw, things: Things, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = Snapshot.commit
    begun, go_on = Event(), Event()

    async def slow(self: Snapshot, *given: Any) -> Any:
        begun.set()
        await asyncio.to_thread(go_on.wait)
        return await commit(self, *given)

    raw.run({"delete": things.name, "deletes": [{"q": {"_id": 1}, "limit": 1}]}, startTransaction=True)
    with monkeypatch.context() as patch:
        patch.setattr(Snapshot, "commit", slow)
        assert raw.end("commit", maxTimeMS=5) == 50
        assert begun.is_set()
    go_on.set()
    assert things.replace_one({"_id": 1}, {"v": 1}, upsert=True).upserted_id == 1


def test_a_virtual_clock_does_not_end_a_transaction(
    mongo_server: RunningServer, things: Things, session: ClientSession
) -> None:
    """A transaction has one instant; its writes count from the commit on."""
    session.start_transaction()
    before = next(things.aggregate([{"$limit": 1}, {"$project": {"at": "$$NOW"}}], session=session))["at"]
    mongo_server.clock.advance(days=1)
    now = next(things.aggregate([{"$limit": 1}, {"$project": {"at": "$$NOW"}}], session=session))["at"]
    assert now == before
    things.insert_one({"_id": 4}, session=session)
    session.commit_transaction()
    assert things.count_documents({}) == 4


def test_the_lifetime_under_cosmos_rules_is_5_seconds(
    raw: Raw, host_time: HostTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "has_cosmos_rules", lambda services, call: True)
    raw.start()
    host_time.pass_seconds(4)
    raw.run(raw.find())
    host_time.pass_seconds(2)
    answer = raw.run(raw.find())
    assert (answer["code"], answer["errmsg"]) == (2, "Transaction isn't active")
    assert raw.end("commit") == 2


def test_expiry_during_a_transaction(mongo_server: RunningServer, client: Client, session: ClientSession) -> None:
    """A document that the transaction has changed before its deadline lives on. A transaction that has only read the document
    commits, whether the document is purged or not.
    """
    for purged in (False, True):
        tokens = client.shop[f"tokens{purged}"]
        tokens.create_index("_ts", expireAfterSeconds=-1)
        tokens.insert_many([{"_id": 1, "ttl": 10}, {"_id": 2}])
        session.start_transaction()
        assert tokens.count_documents({}, session=session) == 2
        mongo_server.clock.advance(seconds=11)
        if purged:
            mongo_server.purge()
        assert tokens.count_documents({}) == 1
        tokens.update_one({"_id": 2}, {"$set": {"v": 1}}, session=session)
        session.commit_transaction()
        tokens.insert_one({"_id": 3, "ttl": 10})
        session.start_transaction()
        tokens.update_one({"_id": 3}, {"$set": {"ttl": 1000}}, session=session)
        mongo_server.clock.advance(seconds=11)
        if purged:
            mongo_server.purge()
        assert {each["_id"] for each in tokens.find()} == {2}
        session.commit_transaction()
        assert {each["_id"] for each in tokens.find()} == {2, 3}


# --- sessions --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["endSessions", "killSessions", "killAllSessions"])
def test_the_end_of_a_session_aborts_its_transaction(client: Client, raw: Raw, command: str) -> None:
    raw.start()
    client.admin.command(command, [] if command == "killAllSessions" else [raw.lsid])
    assert raw.end("commit") == 251


def test_an_idle_session_ends(raw: Raw, host_time: HostTime) -> None:
    raw.start()
    host_time.pass_seconds(31 * 60)
    assert raw.end("commit") == 251


def test_a_transaction_belongs_to_no_connection(mongo_server: RunningServer, raw: Raw, things: Things) -> None:
    raw.start()
    with closing(Wire(mongo_server)) as other:
        here, raw.wire = raw.wire, other
        assert raw.run(raw.insert(4))["n"] == 1
        assert raw.code(raw.find(), lsid={"id": Binary(uuid.uuid4().bytes, 4)}) == 251
        raw.wire = here
    assert raw.end("commit") is None
    assert things.count_documents({}) == 5


# --- cursors ---------------------------------------------------------------------------------------------------------


def test_cursors_belong_to_their_transaction(raw: Raw) -> None:
    raw.start()
    first = raw.run({"find": raw.name, "batchSize": 2})["cursor"]
    more = {"getMore": first["id"], "collection": raw.name}
    assert raw.code(more, autocommit=None, txnNumber=None) == 50740
    assert (
        raw.run({"insert": raw.name, "documents": [{"_id": 9}]}, autocommit=None, txnNumber=None, lsid=None)["n"] == 1
    )
    second = raw.run({**more, "batchSize": 1})["cursor"]
    third = raw.run(more)["cursor"]
    assert [each["_id"] for batch in (second, third) for each in batch["nextBatch"]] == [3, 101]
    open_still = raw.run({"find": raw.name, "batchSize": 1})["cursor"]["id"]
    assert raw.end("commit") is None
    more["getMore"] = open_still
    assert raw.code(more, autocommit=None, txnNumber=None) == 43
    outside = raw.run({"find": raw.name, "batchSize": 1}, autocommit=None, txnNumber=None)["cursor"]["id"]
    raw.start(2)
    more["getMore"] = outside
    assert raw.code(more, 2) == 50739


# --- what else is different inside ---------------------------------------------------------------------------------


def test_all_kinds_of_writes(things: Things, session: ClientSession) -> None:
    session.start_transaction()
    assert things.update_many({"v": {"$gt": 10}}, {"$inc": {"v": 1}}, session=session).modified_count == 2
    assert things.replace_one({"_id": 7}, {"v": 70}, upsert=True, session=session).upserted_id == 7
    after = things.find_one_and_update(
        {"v": 70}, {"$set": {"w": 1}}, return_document=ReturnDocument.AFTER, session=session
    )
    assert after == {"_id": 7, "v": 70, "w": 1}
    assert things.find_one_and_delete({"v": {"$gte": 10}}, sort=[("v", 1)], session=session) == {"_id": 1, "v": 10}
    assert things.delete_many({"v": 31}, session=session).deleted_count == 1
    assert [each["_id"] for each in things.find(sort=[("v", -1)], session=session)] == [7, 2]
    assert [each["_id"] for each in things.find({"$or": [{"v": 21}, {"v": 70}]}, session=session)] == [2, 7]
    session.commit_transaction()
    assert list(things.find(sort=[("_id", 1)])) == [{"_id": 2, "v": 21}, after]


def test_unique_indexes_in_a_transaction(things: Things, session: ClientSession) -> None:
    things.create_index("w", unique=True, sparse=True)
    things.insert_one({"_id": 4, "w": 1})
    session.start_transaction()
    things.delete_one({"_id": 4}, session=session)
    things.insert_one({"_id": 5, "w": 1}, session=session)
    session.commit_transaction()
    session.start_transaction()
    things.insert_one({"_id": 6, "w": 2}, session=session)
    with pytest.raises(ExecutionTimeout):
        things.database.command("insert", things.name, documents=[{"_id": 7, "w": 2}], maxTimeMS=50)
    session.commit_transaction()
    with pytest.raises(DuplicateKeyError):
        things.insert_one({"_id": 7, "w": 2})


def test_a_connection_that_is_lost_before_a_command_changes_nothing(
    client: Client, things: Things, session: ClientSession
) -> None:
    data = {"failCommands": ["commitTransaction"], "closeConnection": True}
    client.admin.command("configureFailPoint", "failCommand", mode={"times": 1}, data=data)
    session.start_transaction()
    things.insert_one({"_id": 4}, session=session)
    session.commit_transaction()
    assert things.count_documents({}) == 4


def test_a_standalone_server_refuses_numbers() -> None:
    with serve(memory=True, port=0, mongo_port=0, mongo_topology="standalone") as server, closing(Wire(server)) as wire:
        given = {"lsid": {"id": Binary(bytes(16), 4)}, "txnNumber": Int64(1), "$db": "shop"}
        for more in ({}, {"autocommit": False, "startTransaction": True}):
            wire.send({"insert": "things", "documents": [{}], **given, **more})
            assert (wire.receive() or {})["code"] == 20


BULKS: list[tuple[list[dict[str, Any]], bool, int]] = [
    # Operations, whether they are in order, and how many of them are tried.
    ([{"insert": 0, "document": {"_id": 4}}, {"delete": 0, "filter": {"_id": 1}}], True, 2),
    ([{"insert": 0, "document": {"_id": 1}}, {"delete": 0, "filter": {"_id": 1}}], True, 1),
    ([{"insert": 0, "document": {"_id": 1}}, {"delete": 0, "filter": {"_id": 1}}], False, 1),
    ([{"update": 0, "filter": {}, "updateMods": {"$set": {"_id": 9}}}, {"delete": 0, "filter": {}}], False, 1),
]


@pytest.mark.parametrize(("ops", "ordered", "tried"), BULKS)
def test_bulk_writes(raw: Raw, ops: list[dict[str, Any]], ordered: bool, tried: int) -> None:
    command = {"bulkWrite": 1, "ops": ops, "nsInfo": [{"ns": f"shop.{raw.name}"}], "ordered": ordered}
    lines = raw.run(command, db="admin", startTransaction=True)["cursor"]["firstBatch"]
    assert len(lines) == tried
    assert raw.end("commit") == (None if all(line["ok"] for line in lines) else 251)


def test_results_of_a_bulk_write_are_read_on_in_its_transaction(client: Client) -> None:
    operations = [InsertOne({"n": n, "text": "x" * 16_000}, namespace="bulk.c") for n in range(3)]
    with client.start_session() as session, session.start_transaction():
        command = {"bulkWrite": 1, "ops": [{"insert": 0, "document": {"n": n}} for n in range(5)]}
        rest = {"nsInfo": [{"ns": "bulk.c"}], "cursor": {"batchSize": 2}}
        reply = client.admin.command({**command, **rest}, session=session)
        more = {"getMore": Int64(reply["cursor"]["id"]), "collection": "$cmd.bulkWrite"}
        following = client.admin.command(more, session=session)
        assert [each["idx"] for each in following["cursor"]["nextBatch"]] == [2, 3, 4]
        assert client.bulk_write(operations, session=session, verbose_results=True).inserted_count == 3
    assert client.bulk.c.count_documents({}) == 8


def test_bulk_writes_stay_out_of_the_servers_own(raw: Raw) -> None:
    ops = [{"insert": 0, "document": {}}]
    command = {"bulkWrite": 1, "ops": ops, "nsInfo": [{"ns": "config.transactions"}]}
    assert raw.code(command, db="admin", startTransaction=True) == 263
