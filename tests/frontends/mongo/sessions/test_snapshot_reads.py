"""Reads of a snapshot outside of transactions: what they see, for how long, and what they refuse.

https://github.com/mongodb/specifications/blob/master/source/sessions/snapshot-sessions.md
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from bson import Timestamp
from pymongo import MongoClient
from pymongo.collection import Collection
from pymongo.errors import OperationFailure

from frontends.mongo.sessions.conftest import HostTime
from mayflydb.frontends.mongo.sessions.snapshot_reads import MAX_SNAPSHOTS

Client = MongoClient[dict[str, Any]]
Things = Collection[dict[str, Any]]
Read = Callable[[Things, Any], Any]


def ids(found: Any) -> list[Any]:
    return [each["_id"] for each in found]


READS: dict[str, Read] = {
    "find": lambda things, session: ids(things.find({}, session=session)),
    "find by _id": lambda things, session: ids(
        each for n in (1, 2, 3, 4) for each in things.find({"_id": n}, session=session)
    ),
    "find by an index": lambda things, session: ids(things.find({"v": {"$gt": 0}}, session=session)),
    "find in batches": lambda things, session: ids(things.find({}, session=session, batch_size=1)),
    "aggregate": lambda things, session: ids(things.aggregate([{"$sort": {"_id": 1}}], session=session)),
    "distinct": lambda things, session: things.distinct("_id", session=session),
    "count": lambda things, session: list(range(1, things.count_documents({}, session=session) + 1)),
}
AFTER = {"count": [1, 2, 3], "find by an index": [1, 4]}


def change(things: Things) -> None:
    things.insert_one({"_id": 4, "v": 40})
    things.delete_one({"_id": 2})
    things.update_one({"_id": 3}, {"$set": {"v": -1}})


def read(things: Things, level: dict[str, Any]) -> dict[str, Any]:
    return things.database.command("find", things.name, readConcern={"level": "snapshot", **level})


@pytest.mark.everywhere
@pytest.mark.parametrize("name", READS)
def test_reads_of_a_snapshot_see_its_state(client: Client, things: Things, name: str) -> None:
    with client.start_session(snapshot=True) as session:
        assert sorted(READS[name](things, session)) == [1, 2, 3]
        change(things)
        assert sorted(READS[name](things, session)) == [1, 2, 3]
    with client.start_session(snapshot=True) as session:
        assert sorted(READS[name](things, session)) == AFTER.get(name, [1, 3, 4])


def test_a_collection_that_was_not_there_stays_empty(client: Client, things: Things) -> None:
    later = client.shop[f"{things.name}later"]
    with client.start_session(snapshot=True) as session:
        assert list(later.find({}, session=session)) == []
        later.insert_one({"_id": 1})
        assert list(later.find({}, session=session)) == []
        assert later.distinct("_id", session=session) == []


def test_another_session_reads_at_the_time_that_a_reply_names(things: Things) -> None:
    time = read(things, {})["cursor"]["atClusterTime"]
    change(things)
    again = read(things, {"atClusterTime": time})["cursor"]
    assert again["atClusterTime"] == time
    assert sorted(ids(again["firstBatch"])) == [1, 2, 3]


def test_two_snapshots_of_one_instant_have_two_times(things: Things) -> None:
    first = read(things, {})["cursor"]["atClusterTime"]
    change(things)
    assert read(things, {})["cursor"]["atClusterTime"] != first


@pytest.mark.parametrize(("seconds", "code"), [(299, None), (301, 239)])
def test_a_snapshot_can_be_read_for_five_minutes(
    things: Things, host_time: HostTime, seconds: int, code: int | None
) -> None:
    time = read(things, {})["cursor"]["atClusterTime"]
    host_time.pass_seconds(seconds)
    assert refusal(lambda: read(things, {"atClusterTime": time})) == code


def test_a_cursor_ends_with_its_snapshot(client: Client, things: Things, host_time: HostTime) -> None:
    with client.start_session(snapshot=True) as session:
        cursor = things.find({}, session=session, batch_size=1)
        assert next(cursor)["_id"] == 1
        host_time.pass_seconds(301)
        client.admin.command("ping")
        assert refusal(lambda: list(cursor)) == 239


def test_the_oldest_snapshot_makes_room_for_a_new_one(things: Things) -> None:
    times = [read(things, {})["cursor"]["atClusterTime"] for _ in range(MAX_SNAPSHOTS + 1)]
    assert [refusal(partial(read, things, {"atClusterTime": time})) for time in times[:2]] == [239, None]


@pytest.mark.parametrize(
    ("concern", "code"),
    [
        ({"level": "snapshot", "atClusterTime": Timestamp(1, 1)}, 239),
        ({"level": "snapshot", "atClusterTime": Timestamp(0xFFFFFFFF, 1)}, 246),
        ({"level": "majority", "atClusterTime": Timestamp(1, 1)}, 72),
    ],
)
def test_times_that_no_snapshot_has(things: Things, concern: dict[str, Any], code: int) -> None:
    assert refusal(lambda: things.database.command("find", things.name, readConcern=concern)) == code


@pytest.mark.parametrize(
    "pipeline",
    [[{"$out": "other"}], [{"$merge": "other"}], [{"$changeStream": {}}], [{"$indexStats": {}}], [{"$collStats": {}}]],
)
def test_stages_that_a_snapshot_cannot_have(things: Things, pipeline: list[dict[str, Any]]) -> None:
    def run() -> None:
        things.database.command(
            "aggregate", things.name, pipeline=pipeline, cursor={}, readConcern={"level": "snapshot"}
        )

    assert refusal(run) == 72


def refusal(act: Callable[[], Any]) -> int | None:
    try:
        act()
    except OperationFailure as error:
        return error.code
    return None
