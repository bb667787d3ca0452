"""The TTL monitor: its parameters, its counters, and its passes."""

from __future__ import annotations

from typing import Any

from bson import Decimal128, Int64

from frontends.mongo.replies import said
from frontends.mongo.ttl.world import World, date, ids, refused

DEFAULTS = {
    "ttlMonitorEnabled": True,
    "ttlMonitorSleepSecs": 60,
    "ttlMonitorBatchDeletes": True,
    "ttlMonitorSubPassTargetSecs": 60,
    "ttlIndexDeleteTargetTimeMS": 1000,
    "ttlIndexDeleteTargetDocs": 50000,
}


def test_parameters_have_the_known_names_and_defaults(world: World) -> None:
    reply = world.admin.command({"getParameter": 1, **dict.fromkeys(DEFAULTS, 1)})
    assert said(reply) == DEFAULTS | {"ok": 1}
    everything = world.admin.command("getParameter", "*")
    assert everything.items() >= DEFAULTS.items()
    detailed = world.admin.command({"getParameter": {"showDetails": True}, "ttlMonitorSleepSecs": 1})
    assert detailed["ttlMonitorSleepSecs"]["value"] == 60
    assert detailed["ttlMonitorSleepSecs"]["settableAtRuntime"] is True


def test_what_a_shell_asks_at_its_start(world: World) -> None:
    reply = world.admin.command({"getParameter": 1, "featureCompatibilityVersion": 1})
    major, minor, *_ = world.admin.command("buildInfo")["versionArray"]
    assert said(reply) == {"featureCompatibilityVersion": {"version": f"{major}.{minor}"}, "ok": 1}
    for asked in ("foo", 1):
        with refused(72, "no option found to get"):
            world.admin.command("getParameter", asked)
    with refused(72, "no option found to get"):
        world.admin.command({"getParameter": 1, "foo": 1})


def test_the_interval_is_set(world: World) -> None:
    was = 60
    for value in (10, Int64(11), 12.0, 13.7, Decimal128("14")):
        assert said(world.admin.command({"setParameter": 1, "ttlMonitorSleepSecs": value})) == {"was": was, "ok": 1}
        was = int(float(str(value)))
        assert world.admin.command({"getParameter": 1, "ttlMonitorSleepSecs": 1})["ttlMonitorSleepSecs"] == was


SETTINGS: list[tuple[dict[str, Any], int, str]] = [
    ({"ttlMonitorSleepSecs": 0}, 2, "Invalid value for parameter ttlMonitorSleepSecs: 0 is not greater than 0"),
    ({"ttlMonitorSleepSecs": -5}, 2, ""),
    ({"ttlMonitorSleepSecs": "5"}, 2, ""),
    ({"ttlMonitorSleepSecs": float("nan")}, 2, ""),
    ({"ttlMonitorSleepSecs": 2**40}, 2, ""),
    ({"ttlMonitorEnabled": "yes"}, 2, ""),
    ({"ttlIndexDeleteTargetDocs": 5}, 20, "ttlIndexDeleteTargetDocs"),
    ({"ttlMonitorBatchDeletes": False}, 20, "ttlMonitorBatchDeletes"),
    ({"foo": 1}, 72, "attempted to set unrecognized parameter [foo], "),
    ({}, 72, "no option found to set"),
]


def test_what_is_not_set(world: World) -> None:
    for given, code, text in SETTINGS:
        with refused(code, text):
            world.admin.command({"setParameter": 1, **given})
    assert said(world.admin.command({"getParameter": 1, **dict.fromkeys(DEFAULTS, 1)})) == DEFAULTS | {"ok": 1}


def test_passes_are_counted_though_nothing_is_due(world: World) -> None:
    def passes() -> int:
        return int(world.status()["passes"])

    before = passes()
    world.move(59, "none")
    assert passes() == before
    world.move(60, "none")
    assert passes() == before + 1
    world.move(600, "none")
    assert passes() == before + 10
    world.admin.command({"setParameter": 1, "ttlMonitorSleepSecs": 7})
    world.move(606.999, "none")
    assert passes() == before + 10
    world.move(621, "none")
    assert passes() == before + 13
    assert int(world.status()["subPasses"]) >= passes()


def test_a_forward_move_makes_a_pass(world: World) -> None:
    before = world.status()["passes"]
    collection = world.indexed({"t": 1}, 10)
    collection.insert_many([{"_id": n, "t": date(n)} for n in range(30)])
    world.move(25, "scheduled")
    assert ids(collection) == set(range(16, 30))
    assert world.status()["passes"] == before + 1
    assert world.purged() == 16


def test_a_monitor_that_is_off_purges_nothing_and_hides_all_the_same(world: World) -> None:
    assert world.admin.command({"setParameter": 1, "ttlMonitorEnabled": False})["was"] is True
    collection = world.on_ts(10)
    collection.insert_one({"_id": 1})
    dated = world.indexed({"t": 1}, 10, "dated")
    dated.insert_one({"_id": 1, "t": date(0)})
    passes = world.status()["passes"]
    world.move(1000, "scheduled")
    assert (ids(collection), ids(dated)) == (set(), {1})
    assert (world.purged(), world.status()["passes"]) == (0, passes)
    assert world.admin.command({"setParameter": 1, "ttlMonitorEnabled": True})["was"] is False
    world.move(1001, "scheduled")
    assert (ids(collection), ids(dated)) == (set(), set())
    assert world.purged() == 2


def test_server_status_has_its_sections(world: World) -> None:
    status = world.admin.command("serverStatus")
    assert status["version"] == world.admin.command("buildInfo")["version"]
    assert status["localTime"].isoformat() == "2030-01-01T00:00:00"
    assert set(status["metrics"]["ttl"]) == {"deletedDocuments", "passes", "subPasses"}
    assert all(type(each) is Int64 for each in status["metrics"]["ttl"].values())
    assert status["storageEngine"] == {"name": "mayfly", "persistent": world.store != "memory"}
    assert status["connections"]["current"] >= 1
    assert status["network"]["numRequests"] >= 1
    assert "opcounters" not in world.admin.command("serverStatus", opcounters=0)


def test_operations_are_counted(world: World) -> None:
    def counters() -> dict[str, int]:
        return dict(world.admin.command("serverStatus")["opcounters"])

    before = counters()
    world.db["c"].insert_many([{"_id": n} for n in range(5)])
    list(world.db["c"].find())
    world.db["c"].update_one({"_id": 1}, {"$set": {"a": 1}})
    world.db["c"].delete_one({"_id": 1})
    after = counters()
    counted = {name: after[name] - before[name] for name in ("insert", "query", "update", "delete", "getmore")}
    assert counted == {"insert": 5, "query": 1, "update": 1, "delete": 1, "getmore": 0}


def test_many_documents_go_in_several_batches(world: World) -> None:
    collection = world.indexed({"t": 1}, 0)
    collection.insert_many([{"_id": n, "t": date(1)} for n in range(1000)])
    before = world.admin.command("serverStatus")["batchedDeletes"]
    world.move(1, "scheduled")
    after = world.admin.command("serverStatus")["batchedDeletes"]
    assert ids(collection) == set()
    assert world.purged() == after["docs"] - before["docs"] == 1000
    assert after["batches"] - before["batches"] >= 4
