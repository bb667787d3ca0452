"""A process ends in the middle of a change of indexes: the next process completes the change, or removes it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from bson import Int64, decode, encode

from frontends.mongo.ttl.world import T, date
from mayflydb.announcement import StartFailed
from mayflydb.clock import VirtualClock
from mayflydb.embedded import serve
from mayflydb.engine import building, dates
from mayflydb.engine.engine import Engine
from mayflydb.engine.open import open_engine
from mayflydb.frontends.mongo.app import MongoApp
from mayflydb.frontends.mongo.contracts import ProfileChanged
from mayflydb.frontends.mongo.options import DatabaseOptions, Options, Profile
from mayflydb.frontends.mongo.protocol.messages import OP_MSG, Message
from mayflydb.frontends.mongo.state import ConnectionState
from mayflydb.model.instant import SECOND
from mayflydb.store.sqlite.store import SqliteStore

Document = dict[str, Any]

TTL: Document = {"key": {"t": 1}, "name": "ttl", "expireAfterSeconds": 10}
OTHER: Document = {"key": {"u": 1}, "name": "other", "expireAfterSeconds": 20}
TS: Document = {"key": {"_ts": 1}, "name": "ts", "expireAfterSeconds": 30}


class Dying:
    """A store that carries out a number of writes, and never answers the next."""

    def __init__(self, store: SqliteStore, writes: int) -> None:
        self._store = store
        self._left = writes
        self.stuck = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def write(self, *arguments: Any) -> Any:
        if not self._left:
            self.stuck.set()
            await asyncio.Event().wait()
        self._left -= 1
        return await self._store.write(*arguments)


class Process:
    """A server without sockets, one of several over the same store, one after the other."""

    def __init__(self, engine: Engine, options: Options) -> None:
        self.engine = engine
        self.app = MongoApp(engine, options, random.SystemRandom(), lambda: 0)
        self._state = ConnectionState(1)

    async def ask(self, **command: Any) -> Document:
        """A command's reply."""
        message = Message(1, OP_MSG, encode({**command, "$db": "shop"}), {})
        return decode(await self.app.answer(message, self._state))

    async def run(self, **command: Any) -> Document:
        answer = await self.ask(**command)
        assert answer["ok"] == 1, answer
        return answer

    async def indexes(self) -> list[str]:
        return [each["name"] for each in (await self.run(listIndexes="c"))["cursor"]["firstBatch"]]

    async def seen(self) -> list[int]:
        return [each["_id"] for each in (await self.run(find="c", sort={"_id": 1}))["cursor"]["firstBatch"]]


async def process(store: Any, seconds: int = 0, profile: Profile = "both") -> Process:
    engine = await open_engine(store, VirtualClock((T + seconds) * SECOND))
    return Process(engine, Options(expiry="hide", profile=profile))


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is built takes several steps."""
    monkeypatch.setattr(building, "BATCH_SIZE", 2)
    monkeypatch.setattr(dates, "BATCH_SIZE", 2)


async def _killed(work: Coroutine[Any, Any, Any], store: Dying) -> bool:
    """Run a change until it ends or the store stops answering. Return whether it ended."""
    others = asyncio.all_tasks()
    task = asyncio.ensure_future(work)
    stuck = asyncio.ensure_future(store.stuck.wait())
    await asyncio.wait([task, stuck], return_when=asyncio.FIRST_COMPLETED)
    died = not task.done()
    left = asyncio.all_tasks() - others
    for each in left:
        each.cancel()
    await asyncio.wait(left)
    return died


CHANGES: dict[str, tuple[list[Document], Document, set[tuple[str, ...]]]] = {
    "create": ([], {"createIndexes": "c", "indexes": [TTL]}, {("_id_",), ("_id_", "ttl")}),
    "create several": (
        [OTHER],
        {"createIndexes": "c", "indexes": [TTL, TS]},
        # Those that have entries are made together; the one on `_ts` is a rule, which comes last.
        {("_id_", "other"), ("_id_", "other", "ttl"), ("_id_", "other", "ttl", "ts")},
    ),
    "drop": ([TTL, OTHER], {"dropIndexes": "c", "index": "ttl"}, {("_id_", "other"), ("_id_", "ttl", "other")}),
    "drop all": ([TTL, TS], {"dropIndexes": "c", "index": "*"}, {("_id_",), ("_id_", "ttl"), ("_id_", "ttl", "ts")}),
    "coll_mod": (
        [{"key": {"t": 1}, "name": "ttl"}],
        {"collMod": "c", "index": {"name": "ttl", "expireAfterSeconds": 10}},
        {("_id_", "ttl")},
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_that_was_cut_off_is_finished_or_undone(change: str) -> None:
    async def once(writes: int) -> bool:
        before, command, outcomes = CHANGES[change]
        store = await SqliteStore.open(None)
        try:
            first = await process(store)
            documents = [{"_id": n, "t": date(n), "u": date(n)} for n in range(5)]
            await first.run(insert="c", documents=documents)
            if before:
                await first.run(createIndexes="c", indexes=before)
            dying = Dying(store, writes)
            died = await _killed((await process(dying)).run(**command), dying)
            second = await process(store)
            await second.app.services.indexing.recover(T * SECOND)
            await _check(second, store, outcomes)
            return died
        finally:
            await store.close()

    async def every() -> int:
        writes = 0
        while await once(writes):
            writes += 1
        return writes

    assert asyncio.run(every()) >= 2


async def _check(healed: Process, store: SqliteStore, outcomes: set[tuple[str, ...]]) -> None:
    """Check that the listed indexes are those by which documents expire, and that the catalogue has nothing else."""
    found = await healed.indexes()
    assert tuple(found) in outcomes
    collection = await healed.app.services.collections.get("shop", "c")
    await healed.engine.indexes.wait_for(collection.id)
    collection = await healed.app.services.collections.get("shop", "c")
    definition = collection.node.definition
    mortal = [each for each in collection.specs if each.expire_after is not None]
    assert len(definition.rules) == len(mortal)
    assert {each.state for each in definition.slots} <= {"ready"}
    assert {each.state for each in definition.indexes} <= {"ready"}
    assert len(definition.slots) == len([each for each in mortal if each.name != "ts"])
    spans = {"ttl": 10, "other": 20}
    ends = [spans[each.name] for each in mortal if each.name in spans]
    later = await process(store, 12)
    assert await later.seen() == ([n for n in range(5) if n + min(ends) > 12] if ends else list(range(5)))


@pytest.mark.parametrize("before", ["native", "both", "cosmos"])
@pytest.mark.parametrize("after", ["native", "both", "cosmos"])
def test_a_profile_is_kept_as_long_as_there_is_an_index_on_ts(before: Profile, after: Profile) -> None:
    async def run() -> None:
        store = await SqliteStore.open(None)
        try:
            first = await process(store, profile=before)
            await first.run(createIndexes="c", indexes=[TS])
            second = await process(store, profile=after)
            if before == after:
                await second.app.services.indexing.recover(T * SECOND)
                return
            with pytest.raises(ProfileChanged, match="drop the index first"):
                await second.app.services.indexing.recover(T * SECOND)
            await first.run(dropIndexes="c", index="ts")
            await second.app.services.indexing.recover(T * SECOND)
        finally:
            await store.close()

    asyncio.run(run())


def test_another_expiry_holds_from_the_next_start_on() -> None:
    async def run() -> None:
        store = await SqliteStore.open(None)
        try:
            first = await process(store)
            await first.run(createIndexes="c", indexes=[TTL])
            await first.run(insert="c", documents=[{"_id": 1, "t": date(0)}])
            assert await (await process(store, 10)).seen() == []
            engine = await open_engine(store, VirtualClock((T + 10) * SECOND))
            shown = Process(engine, Options(databases={"shop": DatabaseOptions(expiry="show")}))
            await shown.app.services.indexing.recover(await engine.now())
            assert await shown.seen() == [1]
        finally:
            await store.close()

    asyncio.run(run())


def test_a_cancelled_build_runs_to_its_end() -> None:
    async def run() -> None:
        store = await SqliteStore.open(None)
        try:
            one = await process(store, 10)
            await one.run(insert="c", documents=[{"_id": n, "t": date(0), "n": Int64(n)} for n in range(20)])
            answering = asyncio.ensure_future(one.ask(createIndexes="c", indexes=[TTL]))
            others = asyncio.all_tasks() - {answering}
            for _ in range(3):
                await asyncio.sleep(0)
            answering.cancel()
            while left := asyncio.all_tasks() - others - {answering}:
                await asyncio.wait(left)
            assert await one.indexes() == ["_id_", "ttl"]
            assert await one.seen() == []
        finally:
            await store.close()

    asyncio.run(run())


def test_a_server_does_not_start_under_another_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    path = tmp_path / "mayfly.db"
    ports: Document = {"port": 0, "mongo_port": 0}
    with serve(path, **ports, mongo_profile="native") as server, server.mongo.client() as client:
        client["shop"].command("createIndexes", "c", indexes=[TS])
    other = r"shop\.c has a TTL index on _ts of profile native"
    with pytest.raises(StartFailed, match=other) as refused, serve(path, **ports):
        pass
    assert (refused.value.setting, refused.value.exit_code) == ("mongo.profile", 4)
    with serve(path, **ports, mongo_database=["shop.profile=native"]) as server, server.mongo.client() as client:
        client["shop"]["c"].drop_index("ts")
    with serve(path, **ports, mongo_profile="cosmos") as server, server.mongo.client() as client:
        assert client["shop"].command("createIndexes", "c", indexes=[TS])["numIndexesAfter"] == 4
