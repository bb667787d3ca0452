"""What tools of administrators ask when they open: uses of indexes, times of operations, sizes, the state of the server."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from mayflydb.embedded import RunningServer, serve
from mayflydb.frontends.mongo import usage

Client = MongoClient[dict[str, Any]]
Body = dict[str, Any]


def code_of(client: Client, database: str, command: Body) -> int | None:
    try:
        client[database].command(command)
    except OperationFailure as error:
        return error.code
    return None


def accesses(client: Client, database: str, name: str = "c") -> dict[str, int]:
    return {each["name"]: each["accesses"]["ops"] for each in client[database][name].aggregate([{"$indexStats": {}}])}


# --- uses of indexes -------------------------------------------------------------------------------------------------


def test_each_use_of_an_index_is_counted_once(mongo_client: Client) -> None:
    collection = mongo_client["uses"]["c"]
    collection.insert_many([{"_id": n, "a": n, "b": n % 2} for n in range(200)])
    collection.create_index("a")
    collection.create_index("b")
    collection.create_index("_ts", expireAfterSeconds=10**6)
    assert accesses(mongo_client, "uses") == {"_id_": 0, "a_1": 0, "b_1": 0, "_ts_1": 0}
    uses: list[tuple[str, Any]] = [
        ("a_1", lambda: list(collection.find({"a": 3}))),
        ("a_1", lambda: list(collection.find({"a": {"$gt": 3}}).sort("a", -1))),
        ("a_1", lambda: list(collection.find({"a": {"$in": [1, 2]}}, {"b": 1}))),
        ("a_1", lambda: list(collection.aggregate([{"$match": {"a": 3}}, {"$count": "n"}]))),
        ("a_1", lambda: collection.update_one({"a": 3}, {"$set": {"c": 1}})),
        ("a_1", lambda: collection.find_one_and_update({"a": 4}, {"$set": {"c": 1}})),
        ("b_1", lambda: list(collection.find({"b": 1, "a": {"$exists": True}}).hint("b_1"))),
        ("_id_", lambda: collection.find_one({"_id": 3})),
        ("_id_", lambda: collection.find_one({"_id": 3}, {"b": 1})),
        ("_id_", lambda: collection.update_one({"_id": 3}, {"$set": {"c": 2}})),
        ("_id_", lambda: collection.delete_one({"_id": 199})),
    ]
    expected = {"_id_": 0, "a_1": 0, "b_1": 0, "_ts_1": 0}
    for name, use in uses:
        use()
        expected[name] += 1
        assert accesses(mongo_client, "uses") == expected, use
    # Neither uses an index: one reads everything, the other nothing.
    list(collection.find({"c": 7}))
    collection.insert_one({"_id": "new"})
    assert accesses(mongo_client, "uses") == expected


def test_a_transaction_counts_too(mongo_client: Client) -> None:
    collection = mongo_client["uses_in_transactions"]["c"]
    collection.create_index("a")
    collection.insert_one({"_id": 1, "a": 1})
    with mongo_client.start_session() as session, session.start_transaction():
        list(collection.find({"a": 1}, session=session))
        collection.find_one({"_id": 1}, session=session)
    assert accesses(mongo_client, "uses_in_transactions") == {"_id_": 1, "a_1": 1}


def test_counting_begins_with_the_index(mongo_client: Client, mongo_server: RunningServer) -> None:
    collection = mongo_client["begin"]["c"]
    collection.insert_one({"a": 1})

    def since() -> datetime:
        (found,) = collection.aggregate([{"$indexStats": {}}, {"$match": {"name": "a_1"}}])
        began: datetime = found["accesses"]["since"].replace(tzinfo=UTC)
        return began

    collection.create_index("a")
    first = since()
    list(collection.find({"a": 1}))
    mongo_server.clock.advance(seconds=5)
    collection.drop_index("a_1")
    collection.create_index("a")
    assert since() - first == timedelta(seconds=5)
    assert accesses(mongo_client, "begin")["a_1"] == 0
    list(collection.find({"a": 1}))
    collection.drop()
    collection.create_index("a")
    assert accesses(mongo_client, "begin") == {"_id_": 0, "a_1": 0}


def test_the_collection_that_was_counted_longest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "MAX_COLLECTIONS", 2)
    kept = usage.Usage()
    kept.begin(10)
    first, second = kept.of(1, "d", "a"), kept.of(2, "d", "b")
    first.accesses["x"] += 1
    kept.note("find", first, 5, now=30)
    assert (kept.of(1, "d", "a") is first, first.counted_since("x"), second.latencies.reads.operations) == (True, 10, 0)
    third = kept.of(3, "d", "c")
    # What is counted from here on may have been counted before, and forgotten.
    assert (kept.find("d", "a"), kept.find("d", "b"), third.counted_since("x")) == (None, second, 30)
    assert kept.latencies.reads.operations == 1
    again = kept.of(1, "d", "a")
    assert (again.accesses["x"], again.counted_since("x"), kept.find("d", "b")) == (0, 30, None)


def test_a_renamed_collection_leaves_no_name_behind() -> None:
    kept = usage.Usage()
    first = kept.of(1, "d", "a")
    assert kept.of(1, "d", "b") is first
    assert (kept.find("d", "a"), kept.find("d", "b")) == (None, first)
    other = kept.of(2, "d", "b")
    assert kept.of(1, "d", "a") is first
    assert (kept.find("d", "a"), kept.find("d", "b")) == (first, other), "the name of another collection stays"


def test_names_of_dropped_indexes_are_forgotten() -> None:
    counted = usage.CollectionUsage(0)
    for number in range(100):
        name = f"i{number}"
        counted.begin_indexes([name], {"_id_", name}, number)
        counted.accesses.update((name, "_id_"))
    assert counted.accesses == {"_id_": 100, "i99": 1}
    assert (counted.counted_since("i98"), counted.counted_since("i99")) == (0, 99)


# --- times and sizes -------------------------------------------------------------------------------------------------


def test_operations_are_counted_by_collection(mongo_client: Client) -> None:
    collection = mongo_client["times"]["c"]
    collection.insert_one({"_id": 1})
    collection.update_one({"_id": 1}, {"$set": {"a": 1}})
    list(collection.find().batch_size(1))
    collection.delete_one({"_id": 1})
    collection.create_index("a")
    (found,) = collection.aggregate([{"$collStats": {"latencyStats": {"histograms": True}, "queryExecStats": {}}}])
    stats = found["latencyStats"]
    assert [stats[name]["ops"] for name in ("reads", "writes", "commands")] == [2, 3, 1]
    for each in stats.values():
        assert sum(bucket["count"] for bucket in each["histogram"]) == each["ops"]
    assert found["queryExecStats"]["collectionScans"]["total"] == 1
    used = mongo_client["admin"].command("top")["totals"]["times.c"]
    counts = {name: each["count"] for name, each in used.items()}
    assert counts == {
        "total": 7, "readLock": 3, "writeLock": 3, "queries": 1, "getmore": 1, "insert": 1, "update": 1, "remove": 1,
        "commands": 2,
    }  # fmt: skip
    events = ("queries", "getmore", "insert", "update", "remove", "commands")
    assert used["total"]["time"] == sum(used[name]["time"] for name in events)


def test_sizes_of_indexes(mongo_client: Client) -> None:
    database = mongo_client["index_sizes"]
    database["c"].create_index("a")
    empty = database.command("collStats", "c")
    assert (empty["indexSizes"], empty["totalIndexSize"]) == ({"_id_": 0, "a_1": 0}, 0)
    database["c"].insert_many([{"_id": n, "a": "x" * n} for n in range(10)])
    found = database.command("collStats", "c")
    assert found["indexSizes"]["a_1"] > 45
    assert found["totalIndexSize"] == sum(found["indexSizes"].values()) == database.command("dbStats")["indexSize"]
    assert found["totalSize"] == found["storageSize"] + found["totalIndexSize"]
    (report,) = database["c"].aggregate([{"$collStats": {"storageStats": {"scale": 2}}}])
    assert report["storageStats"]["totalIndexSize"] == found["totalIndexSize"] // 2


def test_data_size_and_hashes(mongo_client: Client) -> None:
    database = mongo_client["measured"]
    database["c"].insert_many([{"_id": n, "x": n} for n in range(100)])
    database["c"].create_index("x")
    whole = database.command("dataSize", "measured.c")
    assert (whole["numObjects"], whole["size"]) == (100, database.command("collStats", "c")["size"])
    for bounds, count in (((10, 50), 40), ((1000, 2000), 0), ((5, 5), 0), ((50, 10), 0), ((-1, 1), 1)):
        low, high = ({"x": each} for each in bounds)
        part = database.command("dataSize", "measured.c", keyPattern={"x": 1}, min=low, max=high)
        assert part["numObjects"] == count, bounds
    before = database.command("dbHash")
    database["c"].insert_one({"_id": "more"})
    assert database.command("dbHash")["collections"] != before["collections"]
    database["c"].delete_one({"_id": "more"})
    # Another order of the same documents has the same hash.
    database["c"].delete_one({"_id": 0})
    database["c"].insert_one({"_id": 0, "x": 0})
    after = database.command("dbHash")
    assert (after["collections"], after["md5"]) == (before["collections"], before["md5"])


def test_a_rebuilt_index_answers_as_before(mongo_client: Client) -> None:
    collection = mongo_client["rebuilt"]["c"]
    collection.create_index("a", unique=True)
    collection.create_index("at", expireAfterSeconds=10)
    collection.insert_many([{"_id": n, "a": [n, -n - 1]} for n in range(300)])
    found = mongo_client["rebuilt"].command("reIndex", "c")
    assert (found["nIndexes"], [each["name"] for each in found["indexes"]]) == (3, ["_id_", "a_1", "at_1"])
    assert [each["_id"] for each in collection.find({"a": {"$lt": -298}})] == [298, 299]
    assert len(list(collection.find().sort("a", -1))) == 300


# --- the state of the server -----------------------------------------------------------------------------------------


def test_server_status(mongo_client: Client) -> None:
    admin = mongo_client["admin"]
    before = admin.command("serverStatus")
    mongo_client["status"]["c"].insert_one({})
    assert code_of(mongo_client, "status", {"unheardOf": 1}) == 59
    with mongo_client.start_session() as session:
        with session.start_transaction():
            mongo_client["status"]["c"].insert_one({}, session=session)
            during = admin.command("serverStatus")
        session.start_transaction()
        mongo_client["status"]["c"].insert_one({}, session=session)
        session.abort_transaction()
    after = admin.command("serverStatus")

    def grown(section: str, name: str) -> int:
        return int(after[section][name]) - int(before[section][name])

    assert grown("asserts", "user") == 1 and grown("asserts", "regular") == 0
    names = ("totalStarted", "totalCommitted", "totalAborted", "currentOpen")
    assert [grown("transactions", name) for name in names] == [2, 1, 1, 0]
    assert (during["transactions"]["currentOpen"], during["transactions"]["currentInactive"]) == (1, 1)
    assert after["opLatencies"]["writes"]["ops"] - before["opLatencies"]["writes"]["ops"] == 3
    assert after["globalLock"]["activeClients"]["total"] == 1
    failed = after["metrics"]["commands"]["unknown"]
    assert failed["failed"] == failed["total"] >= 1
    assert "opLatencies" not in admin.command("serverStatus", opLatencies=0)
    assert admin.command("getDiagnosticData")["data"]["serverStatus"]["pid"] == after["pid"]


def test_passes_and_deaths_are_counted(mongo_client: Client, mongo_server: RunningServer) -> None:
    collection = mongo_client["deaths"]["c"]
    collection.create_index("at", expireAfterSeconds=0)

    def read() -> tuple[int, int, int]:
        found = mongo_client["admin"].command("serverStatus")["metrics"]["ttl"]
        return found["passes"], found["subPasses"], found["deletedDocuments"]

    now = mongo_server.clock.now()
    collection.insert_many([{"at": now + timedelta(seconds=seconds)} for seconds in (1, 2, 100_000)])
    # The next pass comes a minute from here.
    mongo_client["admin"].command("setParameter", 1, ttlMonitorSleepSecs=60)
    before = read()
    mongo_server.clock.advance(minutes=2)
    assert tuple(b - a for a, b in zip(before, read(), strict=True)) == (2, 2, 2)


def test_what_is_open_and_idle(mongo_client: Client) -> None:
    collection = mongo_client["idle"]["c"]
    collection.insert_many([{} for _ in range(5)])
    admin = mongo_client["admin"]

    def listed(**options: bool) -> list[str]:
        return [each["type"] for each in admin.aggregate([{"$currentOp": options}])]

    cursor = collection.find(batch_size=2)
    next(cursor)
    with mongo_client.start_session() as session, session.start_transaction():
        collection.insert_one({}, session=session)
        assert listed() == ["op", "idleSession"]
        assert listed(idleSessions=False, idleCursors=True) == ["op", "idleCursor"]
        (locked,) = admin.command("lockInfo")["lockInfo"]
        assert "idle.c" in locked["resourceId"] and locked["granted"] == [{"mode": "X"}]
    cursor.close()
    assert listed(idleCursors=True) == ["op"]
    assert admin.command("lockInfo")["lockInfo"] == []


def test_sessions_and_the_catalogue(mongo_client: Client) -> None:
    database = mongo_client["catalogued"]
    database["c"].create_index("a")
    database.create_collection("v", viewOn="c")
    found = {each["ns"]: each for each in mongo_client["admin"].aggregate([{"$listCatalog": {}}])}
    assert found["catalogued.v"]["type"] == "view"
    assert [each["spec"]["name"] for each in found["catalogued.c"]["md"]["indexes"]] == ["_id_", "a_1"]
    (one,) = database["c"].aggregate([{"$listCatalog": {}}])
    assert one == found["catalogued.c"]
    local = {each["_id"]["id"] for each in database.aggregate([{"$listLocalSessions": {}}])}
    assert {
        each["_id"]["id"] for each in mongo_client["config"]["system.sessions"].aggregate([{"$listSessions": {}}])
    } == local


def test_plans_are_shown_and_forgotten(mongo_client: Client) -> None:
    collection = mongo_client["plans"]["c"]
    collection.create_index("a")
    collection.insert_one({"a": 1})
    list(collection.find({"a": 1}))
    (found,) = collection.aggregate([{"$planCacheStats": {}}])
    assert found["cachedPlan"]["inputStage"] == {"stage": "IXSCAN", "keyPattern": {"a": 1}, "indexName": "a_1"}
    mongo_client["plans"].command("planCacheClear", "c")
    assert list(collection.aggregate([{"$planCacheStats": {}}])) == []
    assert mongo_client["plans"].command("planCacheListFilters", "c")["filters"] == []


def test_small_answers(mongo_client: Client) -> None:
    admin = mongo_client["admin"]
    mongo_client["small"]["c"].insert_one({})
    assert admin.command("fsync")["numFiles"] == 0, "a server in memory has no file"
    assert admin.command("listShards")["shards"] == []
    assert admin.command("balancerStatus")["mode"] == "off"
    assert admin.command("connPoolStats")["totalCreated"] == 0
    assert admin.command("getDefaultRWConcern")["defaultWriteConcern"] == {"w": "majority", "wtimeout": 0}
    assert mongo_client["small"].command("profile", -1)["was"] == 0
    assert mongo_client["small"].command("compact", "c")["bytesFreed"] == 0
    assert admin.command("setFeatureCompatibilityVersion", "8.0", confirm=True)["ok"] == 1
    assert admin.command("getLog", "*")["names"] == ["global", "startupWarnings"]
    assert admin.command("getLog", "global")["totalLinesWritten"] >= 0
    assert "admin" in mongo_client.list_database_names()


REFUSED: list[tuple[str, Body, int]] = [
    ("admin", {"fsync": 1, "lock": True}, 115),
    ("admin", {"fsyncUnlock": 1}, 20),
    ("admin", {"setDefaultRWConcern": 1, "defaultReadConcern": {"level": "majority"}}, 20),
    ("admin", {"setDefaultRWConcern": 1}, 2),
    ("admin", {"setFeatureCompatibilityVersion": "8.0"}, 7369100),
    ("admin", {"setFeatureCompatibilityVersion": "7.0", "confirm": True}, 20),
    ("admin", {"setFeatureCompatibilityVersion": "99.0", "confirm": True}, 4926900),
    ("admin", {"replSetGetConfig": 1}, 76),
    ("admin", {"killOp": 1, "op": "x"}, 14),
    ("admin", {"features": 1, "oidReset": True}, 115),
    ("refused", {"analyze": "c"}, 59),
    ("refused", {"mapReduce": "c", "map": "", "reduce": "", "out": "x"}, 238),
    ("refused", {"profile": 1}, 2),
    ("refused", {"profile": 0, "slowms": 5}, 2),
    ("refused", {"profile": "x"}, 14),
    ("refused", {"planCacheSetFilter": "c", "query": {}, "indexes": [{}]}, 115),
    ("refused", {"planCacheClear": 5}, 73),
    ("refused", {"planCacheClear": "v"}, 166),
    ("refused", {"reIndex": "missing"}, 26),
    ("refused", {"reIndex": "v"}, 166),
    ("refused", {"compact": "c", "freeSpaceTargetMB": 0}, 2),
    ("refused", {"compact": "v"}, 166),
    ("refused", {"dataSize": "nodot"}, 73),
    ("refused", {"dataSize": "refused.v"}, 166),
    ("refused", {"dataSize": "refused.c", "keyPattern": {"_id": 1}, "min": {"_id": 1}}, 2),
    ("refused", {"dataSize": "refused.c", "keyPattern": {"x": 1}, "min": {"x": 1}, "max": {"x": 2}}, 96),
    ("refused", {"dbHash": 1, "collections": [1]}, 2),
    ("refused", {"collStats": "c", "scale": 0.5}, 2),
    *(
        ("refused", {"aggregate": "c", "cursor": {}, "pipeline": [stage]}, code)
        for stage, code in [
            ({"$indexStats": {"a": 1}}, 28803),
            ({"$indexStats": 1}, 28803),
            ({"$collStats": {"x": {}}}, 40415),
            ({"$collStats": {"count": {"x": 1}}}, 31170),
            ({"$collStats": {"storageStats": {"scale": 0}}}, 2),
            ({"$planCacheStats": {"allHosts": 1}}, 13111),
            ({"$listSampledQueries": {}}, 238),
            ({"$listSessions": {}}, 73),
        ]
    ),
    ("refused", {"aggregate": "v", "cursor": {}, "pipeline": [{"$collStats": {"count": {}}}]}, 166),
    ("refused", {"aggregate": "none", "cursor": {}, "pipeline": [{"$collStats": {"count": {}}}]}, 26),
    ("refused", {"aggregate": "none", "cursor": {}, "pipeline": [{"$planCacheStats": {}}]}, 50933),
    ("admin", {"aggregate": 1, "cursor": {}, "pipeline": [{"$currentOp": {"allUsers": 1}}]}, 14),
    ("admin", {"aggregate": 1, "cursor": {}, "pipeline": [{"$currentOp": {"x": True}}]}, 40415),
]


@pytest.mark.parametrize(("database", "command", "code"), REFUSED, ids=[str(each[1])[:60] for each in REFUSED])
def test_what_is_refused(mongo_client: Client, database: str, command: Body, code: int) -> None:
    if "c" not in mongo_client["refused"].list_collection_names():
        mongo_client["refused"]["c"].insert_one({})
        mongo_client["refused"].create_collection("v", viewOn="c")
    assert code_of(mongo_client, database, command) == code


@pytest.mark.parametrize("topology", ["replicaset:rs", "standalone"])
def test_the_topology_decides(topology: str) -> None:
    is_set = topology != "standalone"
    with (
        serve(memory=True, port=0, mongo_port=0, mongo_topology=topology) as server,
        MongoClient[Body](server.mongo.uri) as client,
    ):
        client["t"]["c"].insert_one({})
        codes = [
            code_of(client, database, command)
            for database, command in (
                ("admin", {"listShards": 1}),
                ("admin", {"balancerStatus": 1}),
                ("admin", {"getDefaultRWConcern": 1}),
                ("admin", {"replSetGetConfig": 1}),
                ("t", {"reIndex": "c"}),
            )
        ]
        assert codes == ([59, 59, None, None, 20] if is_set else [59, 59, 51300, 76, None])
        assert ("repl" in client["admin"].command("serverStatus")) == is_set
        if is_set:
            config = client["admin"].command("replSetGetConfig")["config"]
            assert (config["_id"], config["members"][0]["host"]) == ("rs", client["admin"].command("hello")["me"])
