"""Change streams of the profile `cosmos`: inserts and updates, and no deletes."""

from __future__ import annotations

from pathlib import Path

import pytest

from mayflydb.embedded import serve


def test_deletes_and_expiry_are_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    with (
        serve(memory=True, port=0, mongo_port=0, clock="virtual", mongo_profile="cosmos") as server,
        server.mongo.client() as client,
        client["db"]["c"].watch(max_await_time_ms=1) as stream,
    ):
        coll = client["db"]["c"]
        coll.create_index("_ts", expireAfterSeconds=10)
        coll.insert_many([{"_id": 1}, {"_id": 2}])
        coll.delete_one({"_id": 1})
        coll.update_one({"_id": 2}, {"$set": {"a": 1}})
        server.clock.advance(minutes=2)
        coll.replace_one({"_id": 3}, {"b": 1}, upsert=True)
        told = []
        while (event := stream.try_next()) is not None:
            told.append((event["operationType"], event["documentKey"]["_id"]))
        assert told == [("insert", 1), ("insert", 2), ("update", 2), ("insert", 3)]
