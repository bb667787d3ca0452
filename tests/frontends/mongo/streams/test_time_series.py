"""Change streams beside time series collections, which have none: https://www.mongodb.com/docs/manual/changeStreams/"""

from __future__ import annotations

from typing import Any

import pytest
from bson import DatetimeMS
from pymongo import MongoClient
from pymongo.errors import OperationFailure

Document = dict[str, Any]
T = 1893456000000


def test_no_stream_shows_measurements(mongo_client: MongoClient[Document]) -> None:
    db = mongo_client["streamed"]
    old = db.create_collection("old", timeseries={"timeField": "t", "metaField": "m"}, expireAfterSeconds=0)
    with pytest.raises(OperationFailure) as refused:
        old.watch()
    assert refused.value.code == 166
    with db.watch(show_expanded_events=True) as stream, mongo_client.watch() as everything:
        new = db.create_collection("new", timeseries={"timeField": "t", "metaField": "m"})
        for collection in (old, new):
            collection.insert_many([{"_id": 1, "t": DatetimeMS(T), "m": 1}, {"_id": 1, "t": DatetimeMS(T), "m": 2}])
            collection.update_many({"m": 1}, {"$set": {"m": 5}})
            collection.delete_many({"m": 2})
        db.command("collMod", "new", expireAfterSeconds=5)
        new.create_index("v")
        new.drop()
        db.create_collection("plain").insert_one({"_id": 1})
        db.plain.insert_one({"_id": 2})
        assert [next(stream)["operationType"] for _ in range(3)] == ["create", "insert", "insert"]
        assert [next(everything)["documentKey"]["_id"] for _ in range(2)] == [1, 2]
        assert (stream.try_next(), everything.try_next()) == (None, None)
    db.drop_collection("old")
    mongo_client.drop_database("streamed")
