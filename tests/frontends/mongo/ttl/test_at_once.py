"""Several clients change indexes of one collection at the same time, while others write to it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier
from typing import Any

from pymongo.errors import OperationFailure

from frontends.mongo.ttl.world import Document, World, date, ids

TTL: Document = {"key": {"t": 1}, "name": "ttl", "expireAfterSeconds": 10}
TS: Document = {"key": {"_ts": 1}, "name": "ts", "expireAfterSeconds": 20}


def together(*acts: Callable[[], Any]) -> list[Any]:
    """Run calls at the same time, and return the result or the error code of each."""
    barrier = Barrier(len(acts))

    def run(act: Callable[[], Any]) -> Any:
        barrier.wait(60)
        try:
            return act()
        except OperationFailure as error:
            return error.code

    with ThreadPoolExecutor(len(acts)) as pool:
        return list(pool.map(run, acts))


def test_concurrent_creates_of_one_index_create_it_once(world: World) -> None:
    collection = world.db["c"]
    collection.insert_many([{"_id": n, "t": date(n % 2 * 100)} for n in range(400)])
    plain: list[Document] = [{"key": {f"f{n}": 1}, "name": f"f{n}"} for n in range(2)]
    wanted = [[TTL], [TTL], [TS], [TTL, TS], [plain[0]], [plain[1], TTL]]
    found = together(*(partial(world.create, "c", *each) for each in wanted))
    assert all(each["ok"] == 1 for each in found)
    listed = sorted((each["name"], each.get("expireAfterSeconds", 0)) for each in collection.list_indexes())
    assert listed == [("_id_", 0), ("f0", 0), ("f1", 0), ("ts", 20), ("ttl", 10)]
    world.move(10, "scheduled")
    assert ids(collection) == set(range(1, 400, 2))
    world.move(20)
    assert ids(collection) == set()


def test_of_two_concurrent_spans_one_is_refused(world: World) -> None:
    for index in (TTL, TS):
        name = str(index["name"])
        world.db[name].insert_one({"_id": 1})
        other = {**index, "expireAfterSeconds": 99}
        found = together(*(partial(world.create, name, each) for each in (index, other)))
        assert sorted(each if isinstance(each, int) else 0 for each in found) == [0, 85]
        won = index if isinstance(found[1], int) else other
        listed = {each["name"]: each.get("expireAfterSeconds") for each in world.db[name].list_indexes()}
        assert listed[name] == won["expireAfterSeconds"]


def test_documents_written_during_a_build_expire_too(world: World) -> None:
    collection = world.db["c"]
    collection.insert_many([{"_id": n, "t": date(0)} for n in range(500)])

    def write() -> None:
        for n in range(100):
            collection.insert_one({"_id": 1000 + n, "t": date(0)})
            collection.update_one({"_id": n}, {"$set": {"t": date(n % 2 * 100)}})

    together(write, lambda: world.create("c", TTL))
    world.move(10, "scheduled")
    assert ids(collection) == set(range(1, 100, 2))
    world.move(110, "scheduled")
    assert ids(collection) == set()


def test_concurrent_creates_and_drops_leave_a_consistent_index(world: World) -> None:
    collection = world.db["c"]
    collection.insert_many([{"_id": n, "t": date(0)} for n in range(300)])

    def back_and_forth() -> None:
        for _ in range(5):
            world.create("c", TTL, TS)
            collection.drop_index("ttl")

    together(back_and_forth, lambda: [collection.update_many({}, {"$inc": {"n": 1}}) for _ in range(10)])
    world.move(10, "scheduled")
    assert ids(collection) == set(range(300))
    world.move(20)
    assert ids(collection) == set()
