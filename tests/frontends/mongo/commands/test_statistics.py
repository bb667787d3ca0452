"""dbStats, collStats and replSetGetStatus."""

from __future__ import annotations

from typing import Any

import pytest
from bson import encode
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from mayflydb.embedded import RunningServer, serve

Client = MongoClient[dict[str, Any]]


@pytest.mark.parametrize("scale", [1, 10])
def test_counts_and_sizes(mongo_client: Client, mongo_server: RunningServer, scale: int) -> None:
    database = mongo_client[f"statistics{scale}"]
    documents = [{"_id": n, "text": "x" * n} for n in range(10)]
    size = sum(len(encode(each)) for each in documents)
    database["c"].insert_many(documents)
    database["c"].create_index("text")
    database["empty"].create_index("_ts", expireAfterSeconds=10)
    database.create_collection("view", viewOn="c")
    found = database.command("collStats", "c", scale=scale)
    assert (found["count"], found["size"], found["avgObjSize"]) == (10, size // scale, size // 10)
    assert (found["nindexes"], found["scaleFactor"], found["ns"]) == (2, scale, f"{database.name}.c")
    database["empty"].insert_one({})
    mongo_server.clock.advance(seconds=10, sweep="none")
    # What is hidden is not counted.
    assert database.command("collStats", "empty")["count"] == 0
    total = database.command("dbStats", scale=scale)
    names = ("collections", "views", "objects", "indexes", "scaleFactor")
    assert [total[name] for name in names] == [2, 1, 10, 4, scale]
    assert total["dataSize"] >= size / scale


def test_what_is_not_there(mongo_client: Client) -> None:
    nothing = mongo_client["nothing"]
    assert nothing.command("collStats", "c")["count"] == nothing.command("dbStats")["objects"] == 0
    nothing.create_collection("v", viewOn="c")
    for command, code in (({"collStats": "v"}, 166), ({"dbStats": 1, "scale": 0}, 2), ({"collStats": 1}, 73)):
        with pytest.raises(OperationFailure) as refused:
            nothing.command(command)
        assert refused.value.code == code
    with pytest.raises(OperationFailure, match="not running with --replSet"):
        mongo_client["admin"].command("replSetGetStatus")


def test_a_replica_set() -> None:
    with (
        serve(memory=True, port=0, mongo_port=0, mongo_topology="replicaset:rs") as server,
        MongoClient[dict[str, Any]](server.mongo.uri) as client,
    ):
        found = client["admin"].command("replSetGetStatus")
        (member,) = found["members"]
        assert (found["set"], member["stateStr"]) == ("rs", "PRIMARY")
        assert member["name"] == client["admin"].command("hello")["primary"]
