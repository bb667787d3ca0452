"""Change streams through pymongo: the event of each change, the order of events, and resuming."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest
from bson import Timestamp
from pymongo import MongoClient, UpdateOne
from pymongo.collection import Collection
from pymongo.errors import OperationFailure

from mayflydb.embedded import RunningServer

Doc = dict[str, Any]


@pytest.fixture
def coll(mongo_client: MongoClient[Doc], request: pytest.FixtureRequest) -> Iterator[Collection[Doc]]:
    """A collection in a database of its own."""
    name = f"db{abs(hash(request.node.name)) % 10**10}"
    mongo_client.drop_database(name)
    yield mongo_client[name]["coll"]
    mongo_client.drop_database(name)


def drained(stream: Any, limit: int = 99) -> list[Doc]:
    """The events that the stream has now."""
    found: list[Doc] = []
    while len(found) < limit and stream.alive:
        event = stream.try_next()
        if event is None:
            break
        found.append(event)
    return found


def kinds(events: list[Doc]) -> list[str]:
    return [event["operationType"] for event in events]


@pytest.mark.parametrize("scope", ["collection", "database", "client"])
@pytest.mark.parametrize("exists", [True, False])
def test_each_change_is_shown_once_in_order(coll: Collection[Doc], scope: str, exists: bool) -> None:
    if exists:
        coll.insert_one({"_id": 0})
    watched: Any = {"collection": coll, "database": coll.database, "client": coll.database.client}[scope]
    with watched.watch(max_await_time_ms=1) as stream:
        assert stream.try_next() is None
        coll.insert_one({"_id": 1, "a": [1, 2, 3] * 9, "b": {"c": 1}})
        coll.update_one({"_id": 1}, {"$set": {"b.c": 2}, "$unset": {"x": 1}})
        coll.update_one({"_id": 1}, {"$unset": {"b": 1}})
        coll.update_one({"_id": 1}, {"$set": {"a": [1, 2, 3] * 8}})
        coll.update_one({"_id": 1}, {"$set": {"a": [1, 2, 3] * 8}})
        coll.replace_one({"_id": 1}, {"z": 1})
        coll.delete_one({"_id": 1})
        events = drained(stream)
    ns = {"db": coll.database.name, "coll": coll.name}
    told = [
        {name: value for name, value in event.items() if name not in ("_id", "clusterTime", "wallTime")}
        for event in events
    ]
    key = {"ns": ns, "documentKey": {"_id": 1}}

    def update(updated: Doc, removed: list[str], truncated: list[Doc]) -> Doc:
        change = {"updatedFields": updated, "removedFields": removed, "truncatedArrays": truncated}
        return {"operationType": "update", **key, "updateDescription": change}

    assert told == [
        {"operationType": "insert", "fullDocument": {"_id": 1, "a": [1, 2, 3] * 9, "b": {"c": 1}}, **key},
        update({"b.c": 2}, [], []),
        update({}, ["b"], []),
        update({}, [], [{"field": "a", "newSize": 24}]),
        {"operationType": "replace", "fullDocument": {"_id": 1, "z": 1}, **key},
        {"operationType": "delete", **key},
    ]
    assert all(isinstance(event["clusterTime"], Timestamp) for event in events)
    assert [event["_id"]["_data"] for event in events] == sorted(event["_id"]["_data"] for event in events)


def test_changes_of_several_collections_come_in_their_order(coll: Collection[Doc]) -> None:
    db = coll.database
    with db.watch(max_await_time_ms=1) as stream:
        for n in range(10):
            db[f"c{n % 3}"].insert_one({"_id": n})
        assert [event["documentKey"]["_id"] for event in drained(stream)] == list(range(10))


def test_a_stream_resumes_after_any_event(coll: Collection[Doc]) -> None:
    db = coll.database
    with db.watch(max_await_time_ms=1) as stream:
        start = stream.resume_token
        for n in range(6):
            db[f"c{n % 2}"].insert_one({"_id": n})
        events = drained(stream)
    for n, token in enumerate([start, *[event["_id"] for event in events]]):
        for how in ("resume_after", "start_after"):
            with db.watch(**{how: token}, max_await_time_ms=1) as again:
                assert [event["documentKey"]["_id"] for event in drained(again)] == list(range(n, 6))


def test_a_stream_begins_at_an_operation_time(coll: Collection[Doc], mongo_server: RunningServer) -> None:
    coll.insert_one({"_id": 0})
    mongo_server.clock.advance(seconds=10)
    with coll.watch(max_await_time_ms=1) as stream:
        coll.insert_one({"_id": 1})
        mongo_server.clock.advance(seconds=10)
        coll.insert_one({"_id": 2})
        times = [event["clusterTime"] for event in drained(stream)]
    for time, ids in ((times[0], [1, 2]), (times[1], [2]), (Timestamp(times[1].time + 5, 1), [])):
        with coll.watch(start_at_operation_time=time, max_await_time_ms=1) as again:
            assert [event["documentKey"]["_id"] for event in drained(again)] == ids
    with pytest.raises(OperationFailure) as refused, coll.watch(start_at_operation_time=Timestamp(1, 1)):
        pass
    assert refused.value.code == 286


Doing = Callable[[Collection[Doc]], object]


@pytest.mark.parametrize("scope", ["collection", "database", "client"])
@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("drop", {"collection": ["drop", "invalidate"], "database": ["drop"], "client": ["drop"]}),
        (
            "dropDatabase",
            {
                "collection": ["drop", "invalidate"],
                "database": ["drop", "dropDatabase", "invalidate"],
                "client": ["drop", "dropDatabase"],
            },
        ),
    ],
)
def test_the_end_of_a_collection(coll: Collection[Doc], scope: str, what: str, expected: dict[str, list[str]]) -> None:
    watched: Any = {"collection": coll, "database": coll.database, "client": coll.database.client}[scope]
    with watched.watch(max_await_time_ms=1) as stream:
        coll.insert_one({"_id": 1})
        if what == "drop":
            coll.drop()
        else:
            coll.database.client.drop_database(coll.database.name)
        coll.insert_one({"_id": 2})
        events = drained(stream)
        ends = expected[scope]
        lives = ends[-1] != "invalidate"
        assert kinds(events) == ["insert", *ends, *(["insert"] if lives else [])]
        assert stream.alive == lives
    tokens = [event["_id"] for event in events]
    with watched.watch(start_after=tokens[len(ends)], max_await_time_ms=1) as again:
        assert kinds(drained(again)) == ["insert"]
    with watched.watch(resume_after=tokens[0], max_await_time_ms=1) as again:
        assert kinds(drained(again)) == kinds(events)[1:]
    if not lives:
        with watched.watch(resume_after=tokens[len(ends) - 1], max_await_time_ms=1) as again:
            assert kinds(drained(again)) == ["invalidate"]
        with pytest.raises(OperationFailure) as refused, watched.watch(resume_after=tokens[len(ends)]):
            pass
        assert refused.value.code == 260


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        ({"resumeAfter": {"_data": "82"}}, 260),
        ({"resumeAfter": {"_data": "nothing"}}, 260),
        ({"resumeAfter": {"x": 1}}, 40647),
        ({"resumeAfter": {"_data": 5}}, 40647),
        (5, 6188500),
        ([], 6188500),
        ({"resumeAfter": 1}, 14),
        ({"fullDocument": "never"}, 2),
        ({"fullDocumentBeforeChange": "default"}, 2),
        ({"startAtOperationTime": 5}, 14),
        ({"unknown": 5}, 40415),
        ({"showExpandedEvents": 5}, 14),
        ({"allChangesForCluster": True}, 72),
    ],
)
def test_invalid_arguments_are_refused(coll: Collection[Doc], spec: Doc, code: int) -> None:
    with pytest.raises(OperationFailure) as refused:
        coll.database.command("aggregate", coll.name, pipeline=[{"$changeStream": spec}], cursor={})
    assert refused.value.code == code


@pytest.mark.parametrize(
    ("stages", "code"),
    [
        ([{"$sort": {"a": 1}}], 20),
        ([{"$group": {"_id": 1}}], 20),
        ([{"$nothing": 1}], 40324),
        ([{"$changeStream": {}}], 40602),
    ],
)
def test_stages_that_may_not_follow_are_refused(coll: Collection[Doc], stages: list[Doc], code: int) -> None:
    with pytest.raises(OperationFailure) as refused, coll.watch(stages):
        pass
    assert refused.value.code == code


def test_further_stages_see_events(coll: Collection[Doc]) -> None:
    stages: list[Doc] = [{"$match": {"fullDocument.a": {"$gt": 1}}}, {"$project": {"a": "$fullDocument.a"}}]
    with coll.watch(stages, max_await_time_ms=1) as stream:
        before = stream.resume_token
        coll.insert_many([{"a": 1}, {"a": 2}, {"a": 3}])
        assert [event["a"] for event in drained(stream)] == [2, 3]
        coll.insert_one({"a": 0})
        assert drained(stream) == []
        assert stream.resume_token != before
    with coll.watch([{"$project": {"_id": 0}}], max_await_time_ms=1) as stream:
        coll.insert_one({"a": 1})
        with pytest.raises(OperationFailure) as refused:
            stream.next()
    assert refused.value.code == 280


def test_a_document_is_looked_up_as_it_is_now(coll: Collection[Doc]) -> None:
    with coll.watch(full_document="updateLookup", max_await_time_ms=1) as stream:
        coll.insert_many([{"_id": 1}, {"_id": 2}])
        coll.bulk_write([UpdateOne({"_id": 1}, {"$set": {"a": 1}}), UpdateOne({"_id": 2}, {"$set": {"a": 1}})])
        coll.update_one({"_id": 1}, {"$set": {"a": 2}})
        coll.delete_one({"_id": 2})
        found = [(event["operationType"], event.get("fullDocument")) for event in drained(stream)]
    now = {"_id": 1, "a": 2}
    told = [("insert", {"_id": 1}), ("insert", {"_id": 2}), ("update", now), ("update", None), ("update", now)]
    assert found == [*told, ("delete", None)]


def test_an_expiry_is_shown_once_by_its_purge(coll: Collection[Doc], mongo_server: RunningServer) -> None:
    coll.create_index("at", expireAfterSeconds=0)
    start = mongo_server.clock.now()
    with coll.watch(max_await_time_ms=1) as stream:
        coll.insert_many([{"_id": 5.5, "at": start}, {"_id": "b", "at": datetime(2100, 1, 1, tzinfo=UTC)}])
        assert kinds(drained(stream)) == ["insert", "insert"]
        token = stream.resume_token
        mongo_server.clock.advance(minutes=5)
        (event,) = drained(stream)
        assert (event["operationType"], event["documentKey"]) == ("delete", {"_id": 5.5})
        assert event["wallTime"].replace(tzinfo=UTC) > start
    with coll.watch(resume_after=token, max_await_time_ms=1) as again:
        assert [each["documentKey"] for each in drained(again)] == [{"_id": 5.5}]


def test_an_insert_over_a_hidden_document_shows_a_delete_and_an_insert(
    coll: Collection[Doc], mongo_server: RunningServer
) -> None:
    coll.create_index("_ts", expireAfterSeconds=10)
    with coll.watch(max_await_time_ms=1) as stream:
        coll.insert_one({"_id": 1})
        mongo_server.clock.advance(seconds=11, sweep="none")
        coll.insert_one({"_id": 1, "again": True})
        assert kinds(drained(stream)) == ["insert", "delete", "insert"]
        mongo_server.clock.advance(seconds=5)
        assert drained(stream) == []


def test_resuming_after_the_retention_is_an_error(coll: Collection[Doc], mongo_server: RunningServer) -> None:
    with coll.watch(max_await_time_ms=1) as stream:
        token = stream.resume_token
        coll.insert_one({"_id": 1})
    mongo_server.clock.advance(hours=25)
    with pytest.raises(OperationFailure) as refused, coll.watch(resume_after=token, max_await_time_ms=1):
        pass
    assert refused.value.code == 286
    assert refused.value.has_error_label("NonResumableChangeStreamError")


def test_a_database_without_collections_is_not_listed(coll: Collection[Doc]) -> None:
    with coll.watch(max_await_time_ms=1):
        assert coll.database.name not in coll.database.client.list_database_names()


def test_replies_have_a_resume_token(coll: Collection[Doc]) -> None:
    answer = coll.database.command("aggregate", coll.name, pipeline=[{"$changeStream": {}}], cursor={"batchSize": 0})
    assert set(answer["cursor"]) == {"firstBatch", "id", "ns", "postBatchResumeToken"}
    assert isinstance(answer["operationTime"], Timestamp)
    coll.insert_many([{"_id": 1}, {"_id": 2}])
    more: Doc = {"collection": coll.name, "maxTimeMS": 1, "batchSize": 1}
    first = coll.database.command("getMore", answer["cursor"]["id"], **more)["cursor"]
    assert first["postBatchResumeToken"] == first["nextBatch"][0]["_id"]
    second = coll.database.command("getMore", answer["cursor"]["id"], **more)["cursor"]
    assert second["postBatchResumeToken"] == second["nextBatch"][0]["_id"]
    third = coll.database.command("getMore", answer["cursor"]["id"], **more)["cursor"]
    assert third["nextBatch"] == []
    assert third["postBatchResumeToken"]["_data"] >= second["postBatchResumeToken"]["_data"]


def test_expanded_events_tell_of_collections_and_indexes(coll: Collection[Doc]) -> None:
    db = coll.database
    with db.watch(max_await_time_ms=1, show_expanded_events=True) as stream:
        db.create_collection("made", validator={"a": 1})
        coll.create_index("x")
        coll.create_index("x")
        coll.drop_index("x_1")
        db.command("collMod", "made", validator={})
        coll.insert_one({"_id": 1, "a": [{"1": 1}], "b": [1]})
        coll.update_one({"_id": 1}, {"$set": {"a.0.1": 2, "b.0": 2}})
        coll.rename("made", dropTarget=True)
        events = drained(stream)
    told = [(event["operationType"], event["ns"].get("coll")) for event in events]
    here = ["create", "createIndexes", "dropIndexes"]
    assert told == [
        ("create", "made"),
        *[(kind, "coll") for kind in here],
        ("modify", "made"),
        ("insert", "coll"),
        ("update", "coll"),
        ("rename", "coll"),
    ]
    assert [index["name"] for index in events[2]["operationDescription"]["indexes"]] == ["x_1"]
    assert events[3]["operationDescription"] == events[2]["operationDescription"]
    assert events[6]["updateDescription"]["disambiguatedPaths"] == {"a.0.1": ["a", 0, "1"]}
    assert events[7]["operationDescription"] == {
        "to": {"db": db.name, "coll": "made"},
        "dropTarget": events[0]["collectionUUID"],
    }
    assert len({bytes(event["collectionUUID"]) for event in events if event["ns"]["coll"] == "coll"}) == 1


@pytest.mark.parametrize(
    ("watched", "kinds_told"), [("coll", ["rename", "invalidate"]), ("other", ["rename", "invalidate"])]
)
@pytest.mark.parametrize("exists", [True, False])
def test_a_rename_ends_streams_on_both_names(
    coll: Collection[Doc], watched: str, kinds_told: list[str], exists: bool
) -> None:
    db = coll.database
    coll.insert_one({"_id": 1})
    if exists:
        db["other"].insert_one({"_id": 2})
    with db[watched].watch(max_await_time_ms=1) as stream, db.watch(max_await_time_ms=1) as above:
        coll.rename("other", dropTarget=exists)
        db["other"].insert_one({"_id": 3})
        events = drained(stream)
        assert kinds(events) == kinds_told
        assert (events[0]["ns"]["coll"], events[0]["to"]["coll"]) == ("coll", "other")
        assert [(event["operationType"], event["ns"]["coll"]) for event in drained(above)] == [
            ("rename", "coll"),
            ("insert", "other"),
        ]


@pytest.mark.parametrize(
    ("enabled", "wanted", "images"),
    [
        (True, "required", [{"_id": 1}, {"_id": 1, "a": 1}, {"_id": 1, "b": 1}]),
        (True, "whenAvailable", [{"_id": 1}, {"_id": 1, "a": 1}, {"_id": 1, "b": 1}]),
        (False, "whenAvailable", [None, None, None]),
        (False, "required", None),
    ],
)
def test_documents_before_a_change(coll: Collection[Doc], enabled: bool, wanted: str, images: list[Any] | None) -> None:
    db = coll.database
    db.create_collection(coll.name, changeStreamPreAndPostImages={"enabled": enabled})
    coll.insert_one({"_id": 1})
    with coll.watch(full_document_before_change=wanted, full_document=wanted, max_await_time_ms=1) as stream:
        coll.update_one({"_id": 1}, {"$set": {"a": 1}})
        coll.replace_one({"_id": 1}, {"b": 1})
        coll.delete_one({"_id": 1})
        if images is None:
            with pytest.raises(OperationFailure) as refused:
                stream.next()
            assert refused.value.code == 280
            return
        events = drained(stream)
    assert [event["fullDocumentBeforeChange"] for event in events] == images
    assert events[0]["fullDocument"] == ({"_id": 1, "a": 1} if enabled else None)


def test_a_stream_that_waits_is_woken_by_a_change_and_by_its_end(
    coll: Collection[Doc], mongo_server: RunningServer
) -> None:
    with ThreadPoolExecutor(1) as thread, mongo_server.mongo.client() as other:
        patient = other[coll.database.name][coll.name].watch(max_await_time_ms=60_000)
        waiting = thread.submit(patient.next)
        coll.insert_one({"_id": 1})
        assert waiting.result(30)["documentKey"] == {"_id": 1}
        coll.create_index("at", expireAfterSeconds=0)
        coll.insert_one({"_id": 2, "at": mongo_server.clock.now()})
        assert patient.next()["operationType"] == "insert"
        waiting = thread.submit(patient.next)
        mongo_server.clock.advance(minutes=2)
        assert waiting.result(30)["operationType"] == "delete"
        waiting = thread.submit(patient.next)
        coll.drop()
        assert waiting.result(30)["operationType"] == "drop"
        patient.close()


def test_events_of_a_transaction_are_shown_together_in_order(coll: Collection[Doc]) -> None:
    db = coll.database
    db["other"].insert_one({"_id": 0})
    coll.insert_one({"_id": 0})
    with db.watch(max_await_time_ms=1) as stream, db.client.start_session() as session:
        with session.start_transaction():
            coll.insert_one({"_id": 1}, session=session)
            db["other"].insert_one({"_id": 2}, session=session)
            coll.update_one({"_id": 1}, {"$set": {"a": 1}}, session=session)
            assert drained(stream) == []
        events = drained(stream)
        told = [(event["operationType"], event["ns"]["coll"], event["documentKey"]["_id"]) for event in events]
        assert told == [("insert", "coll", 1), ("insert", "other", 2), ("update", "coll", 1)]
        with session.start_transaction():
            coll.insert_one({"_id": 3}, session=session)
            session.abort_transaction()
        assert drained(stream) == []


@pytest.mark.parametrize(
    ("target", "told"),
    [("{0}.coll", ["drop", "invalidate"]), ("{0}", ["drop", "invalidate"])],
    ids=["collection", "database"],
)
def test_drops_by_the_admin_api_are_shown(
    coll: Collection[Doc], mongo_server: RunningServer, target: str, told: list[str]
) -> None:
    coll.insert_one({})
    with coll.watch(max_await_time_ms=1) as stream:
        assert stream.try_next() is None
        mongo_server.reset("mongo:" + target.format(coll.database.name))
        assert kinds(drained(stream)) == told


def test_a_lost_history_of_a_dropped_collection_is_an_error(coll: Collection[Doc], mongo_server: RunningServer) -> None:
    engine = mongo_server._admin.engine

    async def tidy() -> None:
        await engine.ordered_histories.forget_old(await engine.now())

    with coll.database.watch(max_await_time_ms=1) as stream:
        assert stream.try_next() is None
        coll.insert_one({})
        assert kinds([stream.next()]) == ["insert"]
        token = stream.resume_token
    coll.insert_one({})
    coll.drop()
    mongo_server.clock.advance("3d")
    mongo_server._home.call(tidy())
    with (
        pytest.raises(OperationFailure) as refused,
        coll.database.watch(resume_after=token, max_await_time_ms=1) as again,
    ):
        again.try_next()
    assert refused.value.code == 286
