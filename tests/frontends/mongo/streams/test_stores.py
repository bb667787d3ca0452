"""Change streams on every store: each change once, expiry included, across drops of collections and restarts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pymongo.collection import Collection

from mayflydb.embedded import RunningServer, serve
from stores import ELSEWHERE, STORES, place

START = "2030-01-01T00:00:00Z"
Doc = dict[str, Any]


def drained(stream: Any) -> list[tuple[str, Any]]:
    """Operations and ids of the events that the stream has now."""
    found: list[tuple[str, Any]] = []
    while stream.alive and (event := stream.try_next()) is not None:
        found.append((event["operationType"], event.get("documentKey", {}).get("_id")))
    return found


def changed(coll: Collection[Doc], server: RunningServer) -> list[tuple[str, Any]]:
    """Make some changes, and return the events of a stream on the database."""
    other = coll.database["other"]
    coll.create_index("_ts", expireAfterSeconds=10)
    other.create_index("at", expireAfterSeconds=0)
    coll.insert_many([{"_id": n} for n in range(3)])
    other.insert_one({"_id": 2.5, "at": server.clock.now()})
    coll.update_one({"_id": 1}, {"$set": {"a": 1, "ttl": -1}})
    coll.delete_one({"_id": 2})
    server.clock.advance(minutes=2)
    coll.insert_one({"_id": 0})
    other.drop()
    inserts = [("insert", 0), ("insert", 1), ("insert", 2), ("insert", 2.5)]
    return [*inserts, ("update", 1), ("delete", 2), ("delete", 0), ("delete", 2.5), ("insert", 0), ("drop", None)]


@pytest.mark.parametrize("store", STORES)
def test_each_change_is_shown_once_across_a_restart(
    store: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    where = place(store, request, tmp_path)
    options: dict[str, Any] = {"port": 0, "mongo_port": 0, "clock": "virtual", **where}
    with serve(**options, clock_start=START) as server, server.mongo.client() as client:
        coll = client["streamed"]["coll"]
        with coll.database.watch(max_await_time_ms=1) as stream:
            token = stream.resume_token
            expected = changed(coll, server)
            found = drained(stream)
            # Of one pass nobody says who goes first.
            assert sorted(map(str, found)) == sorted(map(str, expected))
            assert [found.index(each) for each in expected[:6]] == list(range(6))
            assert found[-2:] == expected[-2:]
            coll.insert_one({"_id": "unread"})
            later = stream.resume_token
        if store == "memory":
            with coll.database.watch(resume_after=token, max_await_time_ms=1) as again:
                assert drained(again) == [*found, ("insert", "unread")]
            return
    with serve(**options) as server, server.mongo.client() as client:
        db = client["streamed"]
        for behind, told in ((token, [*found, ("insert", "unread")]), (later, [("insert", "unread")])):
            with db.watch(resume_after=behind, max_await_time_ms=1) as again:
                assert drained(again) == told
        with db["other"].watch(resume_after=None, max_await_time_ms=1) as fresh:
            assert drained(fresh) == []


@pytest.mark.parametrize("store", ELSEWHERE)
def test_writes_of_another_node_are_shown(
    store: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    url = place(store, request, tmp_path)["storage"]
    with (
        serve(storage=url, port=0, mongo_port=0) as one,
        serve(storage=url, port=0, mongo_port=0) as other,
        one.mongo.client() as here,
        other.mongo.client() as there,
        here["shared"].watch() as stream,
    ):
        for n in range(3):
            (there if n % 2 else here)["shared"][f"c{n}"].insert_one({"_id": n})
            assert stream.next()["documentKey"] == {"_id": n}
