"""customAction and shardCollection, and the profiles without them."""

from __future__ import annotations

from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from frontends.mongo.replies import said
from mayflydb.embedded import serve

Client = MongoClient[dict[str, Any]]

ID = {"key": {"_id": 1}, "name": "_id_1"}
A, B = ({"key": {name: 1}, "name": f"{name}_1"} for name in "ab")


def ts(seconds: int) -> dict[str, Any]:
    return {"key": {"_ts": 1}, "name": "_ts_1", "expireAfterSeconds": seconds}


def refused(client: Client, database: str, action: str, **fields: Any) -> int:
    with pytest.raises(OperationFailure) as refusal:
        client[database].command("customAction", action, **fields)
    told = refusal.value.details or {}
    assert told["errMsg"] == told["errmsg"] and told["codeName"] and told["ok"] == 0
    return int(told["code"])


@pytest.mark.parametrize(("asked", "shown"), [
    ({}, {}),
    ({"offerThroughput": 600}, {"provisionedThroughput": 600}),
    ({"autoScaleSettings": {"maxThroughput": 4000}},
     {"provisionedThroughput": 400, "autoScaleSettings": {"maxThroughput": 4000}}),
])  # fmt: skip
def test_databases_stay_without_collections(client: Client, asked: dict[str, Any], shown: dict[str, Any]) -> None:
    client.drop_database("made")
    database = client["made"]
    assert said(database.command("customAction", "CreateDatabase", **asked)) == {"ok": 1.0}
    assert said(database.command("customAction", "GetDatabase")) == {"database": "made", **shown, "ok": 1.0}
    assert "made" in client.list_database_names()
    database["c"].insert_one({})
    database["c"].drop()
    assert "made" in client.list_database_names()
    client.drop_database("made")
    assert "made" not in client.list_database_names()


def test_databases_get_other_throughput(client: Client) -> None:
    database = client["changing"]
    database.command("customAction", "CreateDatabase", offerThroughput=400)
    assert refused(client, "changing", "CreateDatabase") == 48
    assert refused(client, "changing", "UpdateDatabase", autoScaleSettings={"maxThroughput": 4000}) == 2
    database.command("customAction", "UpdateDatabase", offerThroughput=800)
    assert database.command("customAction", "GetDatabase")["provisionedThroughput"] == 800


@pytest.mark.parametrize(("action", "fields", "code"), [
    ("GetDatabase", {}, 26), ("UpdateDatabase", {"offerThroughput": 400}, 26),
    ("GetCollection", {"collection": "c"}, 26), ("UpdateCollection", {"collection": "c"}, 26),
    ("CreateCollection", {}, 40414), ("CreateCollection", {"collection": "c", "unheard": 1}, 40415),
    ("CreateCollection", {"collection": "c", "offerThroughput": 450}, 2),
    ("CreateCollection", {"collection": "c", "offerThroughput": 20_000}, 2),
    ("CreateCollection", {"collection": "c", "autoScaleSettings": {"maxThroughput": 500}}, 2),
    ("CreateCollection", {"collection": "c", "offerThroughput": 400, "autoScaleSettings": {"maxThroughput": 4000}}, 2),
    ("CreateCollection", {"collection": "c", "indexes": [A]}, 2),
    ("CreateCollection", {"collection": "c", "indexes": [ID, ts(0)]}, 67),
    ("CreateCollection", {"collection": "c", "indexes": [ID, 1]}, 14),
    ("GetChangeStreamTokens", {"collection": "c"}, 115), ("Unheard", {}, 115),
])  # fmt: skip
def test_what_is_refused_leaves_nothing(client: Client, action: str, fields: dict[str, Any], code: int) -> None:
    assert refused(client, "nowhere", action, **fields) == code
    assert "nowhere" not in client.list_database_names()


def test_collections_with_throughput_shard_key_and_indexes(client: Client) -> None:
    database = client["colls"]
    database.command(
        "customAction",
        "CreateCollection",
        collection="c",
        shardKey="a",
        offerThroughput=20_000,
        indexes=[ID, A, ts(10)],
    )
    shown = database.command("customAction", "GetCollection", collection="c", showIndexes=True)
    names = [each.pop("name") for each in shown["indexes"]]
    assert names == ["_id_", "a_1", "_ts_1"] and all(
        each["v"] == 1 and each["ns"] == "colls.c" for each in shown["indexes"]
    )
    del shown["indexes"]
    assert said(shown) == {
        "database": "colls", "collection": "c", "shardKeyDefinition": {"a": "hashed"},
        "provisionedThroughput": 20_000, "requiresReIndex": False, "ok": 1.0,
    }  # fmt: skip
    assert refused(client, "colls", "CreateCollection", collection="c") == 48
    assert refused(client, "colls", "UpdateCollection", collection="c", shardKey="b") == 2
    assert refused(client, "colls", "UpdateCollection", collection="c", autoScaleSettings={"maxThroughput": 4000}) == 2


@pytest.mark.parametrize("wanted", [[ID], [ID, A], [ID, B], [ID, A, ts(20)], [ID, ts(-1)], [ID, {**A, "unique": True}]])
def test_indexes_are_replaced_as_a_whole(client: Client, wanted: list[dict[str, Any]]) -> None:
    database = client["replacing"]
    database["c"].drop()
    database.command("customAction", "CreateCollection", collection="c", indexes=[ID, A, ts(10)])
    assert database.command("customAction", "GetCollection", collection="c")["provisionedThroughput"] == 400
    database.command("customAction", "UpdateCollection", collection="c", indexes=wanted)
    found = {name: each.get("expireAfterSeconds") for name, each in database["c"].index_information().items()}
    assert found == {"_id_": None, **{each["name"]: each.get("expireAfterSeconds") for each in wanted[1:]}}


def test_a_collection_is_given_a_shard_key_once(client: Client) -> None:
    admin = client["admin"]
    for _ in range(2):
        told = admin.command("shardCollection", "sharded.c", key={"a": "hashed"})
        assert told.items() >= {"_t": "ShardCollectionResponse", "collectionsharded": "sharded.c", "ok": 1.0}.items()
    shown = client["sharded"].command("customAction", "GetCollection", collection="c")
    assert shown["shardKeyDefinition"] == {"a": "hashed"}
    with pytest.raises(OperationFailure) as refusal:
        admin.command("shardCollection", "sharded.c", key={"b": "hashed"})
    assert refusal.value.code == 23


def test_errors_have_the_service_s_shape(client: Client) -> None:
    with pytest.raises(OperationFailure) as refusal:
        client["db"].command("collMod", "c", validator={})
    told = refusal.value.details or {}
    assert next(iter(told)) == "_t" and told["_t"] == "OKMongoResponse"
    assert (told["code"], told["$err"]) == (115, told["errmsg"])


def test_mongodb_alone_has_none_of_it(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
    with (
        serve(memory=True, port=0, mongo_port=0, mongo_profile="native") as server,
        server.mongo.client() as client,
    ):
        for command, code in (
            ({"getLastRequestStatistics": 1}, 59),
            ({"customAction": "GetDatabase"}, 59),
        ):
            with pytest.raises(OperationFailure) as refusal:
                client["db"].command(command)
            assert refusal.value.code == code
        with pytest.raises(OperationFailure) as refusal:
            client["admin"].command("shardCollection", "db.c", key={"a": 1})
        assert refusal.value.code == 115
