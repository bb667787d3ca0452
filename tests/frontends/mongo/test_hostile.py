"""Requests that would compute for minutes: each gets the protocol's answer in time, and others do not wait for it."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from bson import SON, encode
from pymongo import MongoClient
from pymongo.errors import CursorNotFound, OperationFailure, PyMongoError, WriteError

from mayflydb.embedded import RunningServer, serve

# A stop may arrive within a weak reference's callback, where Python reports it and goes on; the next one comes soon.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

LIMIT_SECONDS = 0.5
PROBE_SECONDS = 0.6
"""The longest wait of another client: generous, since the tests share the machine. Before, it was many seconds."""

NUMBERS = list(range(60))
STEPS = {"$range": [0, 5000]}
ENDLESS = {
    "$reduce": {
        "input": STEPS,
        "initialValue": 0,
        "in": {"$reduce": {"input": STEPS, "initialValue": "$$value", "in": {"$add": ["$$value", "$$this"]}}},
    }
}
LONG_CONSTANT = {"$setUnion": [{"$range": [0, 3_000_000]}, {"$range": [0, 3_000_000]}]}
JOIN = {"$lookup": {"from": "c", "localField": "a", "foreignField": "a", "as": "x"}}

Client = MongoClient[dict[str, Any]]
Request = Callable[[Any], Any]


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with serve(memory=True, port=0, mongo_port=0, query_time_limit=f"{int(LIMIT_SECONDS * 1000)}ms") as running:
        with running.mongo.client() as client:
            # In pieces: on a busy machine one command for all of them exceeds the limit.
            for first in range(0, 3000, 100):
                client.t.c.insert_many(
                    {"_id": i, "a": i % 7, "s": "a" * 41, "k": NUMBERS} for i in range(first, first + 100)
                )
            assert client.t.c.find_one({"$expr": {"$gt": [{"$sum": {"$map": {"input": [1], "in": 1}}}, 0]}})
            client.t.big.insert_one({"_id": 1, "v": [{"i": i, "s": "x" * 50} for i in range(15_000)]})
        yield running


@pytest.fixture
def client(server: RunningServer) -> Iterator[Client]:
    with server.mongo.client() as made:
        yield made


@pytest.fixture
def probe(server: RunningServer) -> Iterator[list[float]]:
    """The seconds that each read of another client took, while the test runs."""
    waits: list[float] = []
    over = threading.Event()

    def read() -> None:
        with server.mongo.client() as other:
            while not over.is_set():
                began = time.perf_counter()
                other.t.c.find_one({"_id": 5})
                waits.append(time.perf_counter() - began)
                over.wait(0.005)

    thread = threading.Thread(target=read)
    thread.start()
    while not waits and thread.is_alive():
        over.wait(0.001)
    yield waits
    over.set()
    thread.join()
    assert max(waits) < PROBE_SECONDS, "another client waited"


def aggregate(*stages: dict[str, Any]) -> Request:
    return lambda db: list(db.c.aggregate(list(stages)))


def update(change: Any, query: Any = None) -> Request:
    return lambda db: db.c.update_many(query or {}, change)


NESTED_MAP = {"$map": {"input": "$k", "in": {"$map": {"input": "$k", "in": {"$map": {"input": "$k", "in": 1}}}}}}
REACH = {"from": "c", "startWith": "$a", "connectFromField": "k", "connectToField": "_id", "as": "g"}

HOSTILE: list[tuple[str, Request, set[int]]] = [
    ("joins", aggregate(JOIN, {"$unwind": "$x"}, JOIN, {"$unwind": "$x"}, {"$count": "n"}), {50, 292}),
    (
        "range",
        aggregate({"$project": {"r": {"$range": [0, 3_000_000]}}}, {"$unwind": "$r"}, {"$group": {"_id": "$r"}}),
        {50, 292},
    ),
    ("nested maps", aggregate({"$project": {"x": NESTED_MAP}}), {50, 292}),
    ("reduce", aggregate({"$project": {"x": ENDLESS}}), {50, 292}),
    ("graph", aggregate({"$graphLookup": REACH}, {"$count": "n"}), {50, 292}),
    ("a value many times", aggregate({"$project": {"x": ["$s"] * 50, "y": [["$k"] * 300] * 300}}), {50, 10334}),
    ("a document in itself", aggregate(*[{"$set": {"x": ["$$ROOT"] * 20}}] * 6), {50, 10334}),
    ("a value many times in a projection", lambda db: list(db.c.find({}, {"y": [["$k"] * 300] * 300})), {50, 10334}),
    ("a value many times in an update", update([{"$set": {"y": [["$k"] * 300] * 300}}]), {50, 10334}),
    (
        "facet",
        aggregate({"$facet": {f"f{i}": [{"$unwind": "$k"}, {"$sortByCount": "$k"}] for i in range(50)}}),
        {50, 292},
    ),
    ("backtracking", lambda db: list(db.c.find({"s": {"$regex": "^(a|a)+$b"}})), {50, 51156}),
    ("expression", lambda db: list(db.c.find({"$expr": {"$gt": [ENDLESS, 0]}})), {50}),
    ("projection by id", lambda db: db.c.find_one({"_id": 1}, {"x": {"$add": ["$a", ENDLESS]}}), {50}),
    ("count", lambda db: db.c.count_documents({"$expr": {"$gt": [ENDLESS, 0]}}), {50}),
    ("distinct", lambda db: db.c.distinct("k", {"$expr": {"$gt": [ENDLESS, 0]}}), {50}),
    ("update", update([{"$set": {"z": {"$add": ["$a", ENDLESS]}}}]), {50}),
    ("update of one", lambda db: db.c.update_one({"_id": 1}, [{"$set": {"z": {"$add": ["$a", ENDLESS]}}}]), {50}),
    (
        "find and modify",
        lambda db: db.c.find_one_and_update({"_id": 1}, [{"$set": {"z": {"$add": ["$a", ENDLESS]}}}]),
        {50},
    ),
    (
        "upsert",
        lambda db: db.c.update_one({"_id": -1}, [{"$set": {"z": {"$add": ["$_id", ENDLESS]}}}], upsert=True),
        {50},
    ),
    ("delete", lambda db: db.c.delete_many({"$expr": {"$gt": [ENDLESS, 0]}}), {50}),
    ("out", aggregate({"$project": {"x": ENDLESS}}, {"$out": "o"}), {50}),
    (
        "merge",
        aggregate(
            {"$limit": 1},
            {"$merge": {"into": "c", "whenMatched": [{"$set": {"z": {"$add": ["$a", ENDLESS]}}}]}},
        ),
        {50},
    ),
    ("time limit", lambda db: list(db.c.aggregate([JOIN, JOIN, {"$project": {"x": ENDLESS}}], maxTimeMS=100)), {50}),
    ("let", lambda db: db.command("find", "c", let={"x": ENDLESS}), {50}),
    ("let of a pipeline", lambda db: list(db.none.aggregate([], let={"x": ENDLESS})), {50}),
    ("let of an update", lambda db: db.none.update_one({"_id": 1}, {"$set": {"a": 1}}, let={"x": ENDLESS}), {50}),
    ("let of a delete", lambda db: db.c.delete_one({"_id": 1}, let={"x": ENDLESS}), {50}),
    ("fields", lambda db: db.c.find_one_and_update({"_id": 1}, {"$set": {"a": 1}}, {"x": ENDLESS}), {50}),
    (
        "a pattern that is written out",
        lambda db: list(db.c.find({"s": {"$regex": "((((ab){50}){50}){50}){50}"}})),
        {51091},
    ),
    ("list of collections", lambda db: list(db.list_collections(filter={"$expr": {"$gt": [ENDLESS, 0]}})), {50}),
]


@pytest.mark.parametrize(("request_", "codes"), [row[1:] for row in HOSTILE], ids=[row[0] for row in HOSTILE])
def test_a_hostile_request_ends_and_nobody_waits(
    client: Client, probe: list[float], request_: Request, codes: set[int]
) -> None:
    with pytest.raises(PyMongoError) as refusal:
        request_(client.t)
    assert getattr(refusal.value, "code", None) in codes, refusal.value
    # The connection and the server go on.
    assert client.t.c.count_documents({"_id": {"$lt": 3}}) == 3
    assert "o" not in client.t.list_collection_names()
    assert not [name for name in client.t.list_collection_names() if name.startswith("tmp.")]


LARGE: list[tuple[str, Request]] = [
    ("insert", lambda db: db.large.insert_one({"v": [{"i": i, "s": "x" * 50} for i in range(100_000)]})),
    ("read", lambda db: db.big.find_one({"v.i": 7})),
    ("update", lambda db: db.big.update_one({"_id": 1}, {"$set": {"v.5.i": 6}})),
    ("update by a filter", lambda db: db.big.update_one({"v.i": 7}, {"$inc": {"v.8.i": 0}})),
    ("find and modify", lambda db: db.big.find_one_and_update({"_id": 1}, {"$inc": {"n": 1}})),
    ("many ids", lambda db: list(db.c.find({"_id": {"$in": list(range(50_000))}}))),
    ("a constant of a query", lambda db: db.none.count_documents({"$expr": {"$gt": [LONG_CONSTANT, 0]}})),
    ("a constant of a projection", lambda db: list(db.none.find({}, {"x": LONG_CONSTANT}))),
    ("a constant of an update", lambda db: db.none.update_one({}, [{"$set": {"x": LONG_CONSTANT}}])),
    ("a constant of a pipeline", aggregate({"$set": {"x": LONG_CONSTANT}})),
    ("a constant of a validator", lambda db: db.create_collection("v", validator={"$expr": LONG_CONSTANT})),
    (
        "a constant of a view",
        lambda db: db.create_collection("v", viewOn="c", pipeline=[{"$set": {"x": LONG_CONSTANT}}]),
    ),
    (
        "a constant of explain",
        lambda db: db.command("explain", {"find": "c", "filter": {"$expr": LONG_CONSTANT}}),
    ),
]


@pytest.mark.parametrize("request_", [row[1] for row in LARGE], ids=[row[0] for row in LARGE])
def test_nobody_waits_for_large_documents(client: Client, probe: list[float], request_: Request) -> None:
    # On a slow machine the server's limit may end it.
    with contextlib.suppress(PyMongoError):
        request_(client.t)


def test_what_was_prepared_counts_only_for_the_same_document(client: Client) -> None:
    """Updates that are computed outside of the writer lose nothing when they meet."""
    client.t.n.insert_one({"_id": 1, "n": 0})
    step = [{"$set": {"n": {"$reduce": {"input": [1], "initialValue": "$n", "in": {"$add": ["$$value", 1]}}}}}]

    def count_up() -> None:
        for _ in range(20):
            client.t.n.update_one(
                {"n": {"$gte": 0}, "$expr": {"$gte": [{"$sum": {"$map": {"input": [1], "in": 1}}}, 1]}}, step
            )

    threads = [threading.Thread(target=count_up) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert client.t.n.find_one({"_id": 1}) == {"_id": 1, "n": 80}


def test_heavy_updates_give_the_results_of_light_ones(client: Client) -> None:
    heavy = {"$reduce": {"input": [1, 2], "initialValue": "$_id", "in": {"$add": ["$$value", "$$this"]}}}
    client.t.h.insert_many({"_id": i} for i in range(200))
    done = client.t.h.update_many({"_id": {"$lt": 150}}, [{"$set": {"x": heavy}}])
    assert (done.matched_count, done.modified_count) == (150, 150)
    assert client.t.h.count_documents({"$expr": {"$eq": ["$x", {"$add": ["$_id", 3]}]}}) == 150
    again = client.t.h.update_many({"_id": {"$lt": 150}}, [{"$set": {"x": heavy}}])
    assert (again.matched_count, again.modified_count) == (150, 0)
    made = client.t.h.update_one({"_id": 999}, [{"$set": {"x": heavy}}], upsert=True)
    assert made.upserted_id == 999
    assert client.t.h.find_one({"_id": 999}) == {"_id": 999, "x": 1002}
    gone = client.t.h.delete_many({"$expr": {"$gte": [heavy, 153]}, "x": {"$exists": False}})
    assert gone.deleted_count == 50
    with pytest.raises(WriteError) as refusal:
        client.t.h.update_one({"_id": 1}, [{"$set": {"x": {"$add": ["a", heavy]}}}])
    assert refusal.value.code == 14


# --- ends ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def patient_server() -> Iterator[RunningServer]:
    with serve(memory=True, port=0, mongo_port=0) as running:
        with running.mongo.client() as client:
            client.t.c.insert_many({"_id": i} for i in range(300))
        yield running


def compute_until_killed(client: Client, codes: list[int | None], session: Any = None) -> threading.Thread:
    """Begin an endless aggregation on a thread; the code of its error goes to `codes`."""

    def run() -> None:
        try:
            list(
                client.t.c.aggregate(
                    [{"$project": {"x": {"$add": ["$_id", ENDLESS]}}}], session=session, comment="endless"
                )
            )
        except OperationFailure as failure:
            codes.append(failure.code)
        except PyMongoError:
            codes.append(None)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def find_operation(client: Client) -> dict[str, Any]:
    for _ in range(20_000):
        found = list_endless(client)
        if found:
            return found[0]
    raise AssertionError("the operation is not listed")


def list_endless(client: Client) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.admin.command(SON([("currentOp", 1), ("command.comment", "endless")]))[
        "inprog"
    ]
    return found


def test_kill_op_ends_an_operation(patient_server: RunningServer) -> None:
    codes: list[int | None] = []
    with patient_server.mongo.client() as client, patient_server.mongo.client() as killer:
        thread = compute_until_killed(client, codes)
        operation = find_operation(killer)
        assert (operation["ns"], operation["op"], operation["active"]) == ("t.c", "command", True)
        assert operation["microsecs_running"] > 0
        listed = killer.admin.aggregate([{"$currentOp": {"allUsers": True}}, {"$match": {"ns": "t.c"}}])
        assert [each["opid"] for each in listed] == [operation["opid"]]
        assert killer.admin.command("killOp", op=operation["opid"])["info"] == "attempting to kill op"
        thread.join(10)
        assert codes == [11601]
        # One that is over is no error.
        killer.admin.command("killOp", op=operation["opid"])
        for wrong, code in (("x", 14), (3.14, 2)):
            with pytest.raises(OperationFailure) as refusal:
                killer.admin.command("killOp", op=wrong)
            assert refusal.value.code == code


def test_kill_sessions_ends_their_operations(patient_server: RunningServer) -> None:
    codes: list[int | None] = []
    with patient_server.mongo.client() as client, patient_server.mongo.client() as killer:
        with client.start_session() as session:
            thread = compute_until_killed(client, codes, session)
            find_operation(killer)
            killer.admin.command("killSessions", [session.session_id])
            thread.join(10)
        assert codes == [11601]


def test_a_client_that_leaves_ends_its_operation(patient_server: RunningServer) -> None:
    stages = [{"$project": {"x": {"$add": ["$_id", ENDLESS]}}}]
    command = {"aggregate": "c", "pipeline": stages, "cursor": {}, "comment": "endless", "$db": "t"}
    body = b"\0" * 5 + encode(command)
    with patient_server.mongo.client() as watcher:
        address = watcher.address
        assert address is not None
        with socket.create_connection(address) as leaving:
            leaving.sendall(struct.pack("<iiii", 16 + len(body), 1, 0, 2013) + body)
            find_operation(watcher)
        assert any(not list_endless(watcher) for _ in range(20_000))


def test_the_time_limit_of_a_cursor_counts_all_its_batches(patient_server: RunningServer) -> None:
    with patient_server.mongo.client() as client:
        slow = {"$reduce": {"input": {"$range": [0, 20_000]}, "initialValue": 0, "in": {"$add": ["$$value", "$_id"]}}}
        with pytest.raises((OperationFailure, CursorNotFound)) as refusal:
            list(client.t.c.find({"$expr": {"$gte": [slow, 0]}}, batch_size=2, max_time_ms=300))
        assert refusal.value.code == 50
