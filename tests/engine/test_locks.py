"""What open transactions have written: no purge takes it, and with exclusive locks no other writer does, on every store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from engine.site import Site, create, delete, keys_of, partition_of, replace, upsert
from engine.test_unique import UNIQUE
from mayflydb.engine import locks
from mayflydb.engine.catalog import OWNER_MISSING
from mayflydb.engine.commands import Command
from mayflydb.engine.locks import LockWaits
from mayflydb.engine.snapshot import Snapshot
from mayflydb.expiry.sweep import PurgeRequest
from mayflydb.model.errors import Conflict, WriteConflict
from mayflydb.store.interface import Committed, Urgency

A = b"a"


def begin(site: Site, exclusive: bool = True) -> Snapshot:
    return site.run(Snapshot.begin(site.engine, site.now, [site.home], exclusive=exclusive))


def run(site: Site, snapshot: Snapshot, *wanted: Command, blind: bool = False) -> None:
    for each in wanted:
        site.run(snapshot.run(site.it, each, blind))


def commit(site: Site, snapshot: Snapshot) -> None:
    try:
        site.run(snapshot.commit(site.now))
    finally:
        snapshot.close()


def sweep(site: Site) -> int:
    """How many a sweep has removed of what is due."""
    return site.run(site.engine.reaper.sweep_due(PurgeRequest(site.now, site.now, "sweep")))[site.it]


def plain(site: Site, wanted: Command, lock_waits: LockWaits | None = None) -> Coroutine[Any, Any, Any]:
    def body(transaction: Any) -> Any:
        space = yield from transaction.on(site.it)
        return (yield from space.run(wanted))

    return site.engine.transact(body, site.now, lock_waits=lock_waits)


async def met(site: Site, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """Work that waits for a lock."""
    before = site.engine.locks.waiting
    task = asyncio.create_task(work)
    while site.engine.locks.waiting == before:
        assert not task.done(), "it has not waited"
        await asyncio.sleep(0)
    return task


async def locked(site: Site) -> None:
    """Wait until something is locked, and who did that has had the time to go on."""
    for _ in range(1_000_000):
        if site.engine.locks:
            break
        await asyncio.sleep(0)
    for _ in range(100):
        await asyncio.sleep(0)


class Gate:
    """Keeps writes of a store from beginning, or from being known to have ended."""

    def __init__(self, site: Site, patch: pytest.MonkeyPatch, before: bool, meant: Urgency = "sweep") -> None:
        self.came, self.opens = asyncio.Event(), asyncio.Event()
        write = site.engine.store.write

        async def gated(decide: Callable[[], Any], urgency: Urgency = "user") -> Committed[Any]:
            if urgency != meant:
                return await write(decide, urgency)
            if before:
                await self._stop()
                return await write(decide, urgency)
            committed = await write(decide, urgency)
            await self._stop()
            return committed

        patch.setattr(site.engine.store, "write", gated)

    async def _stop(self) -> None:
        self.came.set()
        await self.opens.wait()


SAVES: dict[str, tuple[Command, ...]] = {
    "replaced": (replace(A, b"2"),),
    "replaced for longer": (upsert(A, b"2", life=1000),),
    "removed and made again": (delete(A), create(A, b"2")),
}


@pytest.mark.parametrize("exclusive", [True, False], ids=["exclusive", "shared"])
@pytest.mark.parametrize("how", SAVES)
def test_what_is_saved_is_not_purged(site: Site, how: str, exclusive: bool) -> None:
    for key in (A, b"b"):
        site.write(create(key, b"1", life=5))
    snapshot = begin(site, exclusive)
    run(site, snapshot, *SAVES[how])
    site.pass_seconds(6)
    assert (sweep(site), site.values()) == (1, {})
    commit(site, snapshot)
    assert (sweep(site), site.values()) == (0, {A: b"2"})


@pytest.mark.parametrize("exclusive", [True, False], ids=["exclusive", "shared"])
def test_what_is_not_saved_is_purged_afterwards(site: Site, exclusive: bool) -> None:
    site.write(create(A, b"1", life=5))
    snapshot = begin(site, exclusive)
    run(site, snapshot, replace(A, b"2"))
    site.pass_seconds(6)
    assert sweep(site) == 0
    snapshot.close()
    assert (sweep(site), len(site.engine.locks)) == (1, 0)


def test_what_is_saved_blindly_keeps_what_it_was(site: Site) -> None:
    """A merge that is made again at the end finds the record that it was made from."""
    site.write(create(A, b"1", life=5))
    snapshot = begin(site, exclusive=False)
    run(site, snapshot, upsert(A, b"2"), blind=True)
    site.pass_seconds(6)
    assert sweep(site) == 0
    seqs = [record.seq for record in [site.run(snapshot.get(site.it, partition_of(A), A))] if record is not None]
    commit(site, snapshot)
    found = site.run(site.engine.get(site.node(), partition_of(A), A, site.now))
    assert found is not None
    assert (found.value, [found.seq]) == (b"2", seqs)


@pytest.mark.parametrize("exclusive", [True, False], ids=["exclusive", "shared"])
@pytest.mark.parametrize("before", [True, False], ids=["before it decides", "before its end is known"])
def test_a_write_while_a_purge_is_under_way(
    site: Site, exclusive: bool, before: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told that the record is gone: a write that was answered is never lost."""
    site.write(create(A, b"1", life=5))
    snapshot = begin(site, exclusive)
    site.pass_seconds(6)

    async def race() -> None:
        gate = Gate(site, monkeypatch, before)
        purge = asyncio.create_task(site.engine.reaper.sweep_due(PurgeRequest(site.now, site.now, "sweep")))
        await gate.came.wait()
        write = asyncio.create_task(snapshot.run(site.it, replace(A, b"2")))
        await locked(site)
        assert not write.done(), "it has not waited for the purge"
        gate.opens.set()
        assert (await purge)[site.it] == 1
        with pytest.raises(WriteConflict):
            await write

    site.run(race())
    snapshot.close()


@pytest.mark.parametrize("decided", [True, False])
def test_a_write_while_a_plain_write_is_under_way(site: Site, decided: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """If that was decided before the lock was taken, the transaction is told at once, and not when it commits."""
    site.write(create(A, b"1"))
    snapshot = begin(site)

    async def race() -> None:
        gate = Gate(site, monkeypatch, not decided, "user")
        first = asyncio.create_task(plain(site, replace(A, b"2")))
        await gate.came.wait()
        second = asyncio.create_task(snapshot.run(site.it, replace(A, b"3")))
        await locked(site)
        assert not second.done(), "it has not waited for the write"
        gate.opens.set()
        if decided:
            with pytest.raises(WriteConflict):
                await second
        else:
            await second
            await snapshot.commit(site.now)
            snapshot.close()
        await first

    site.run(race())
    snapshot.close()
    assert site.values() == {A: b"2"}


def test_a_plain_write_waits_and_the_loop_does_not(site: Site) -> None:
    site.write(create(A, b"1"))
    site.write(create(b"b", b"1"))
    snapshot = begin(site)
    run(site, snapshot, replace(A, b"2"))

    async def meet() -> None:
        waiting = await met(site, plain(site, replace(A, b"3")))
        await plain(site, replace(b"b", b"2"))
        assert not waiting.done()
        await snapshot.commit(site.now)
        snapshot.close()
        await waiting

    site.run(meet())
    assert site.values() == {A: b"3", b"b": b"2"}
    assert (len(site.engine.locks), site.engine.locks.waiting) == (0, 0)


def test_a_plain_write_that_meets_a_second_lock(site: Site) -> None:
    """It holds nothing while it waits, so that the two transactions may go on as they like."""
    site.build(UNIQUE)
    site.write(create(A, b"x"))
    first, second = begin(site), begin(site)
    run(site, first, replace(A, b"y"))
    run(site, second, create(b"c", b"z"))

    async def meet() -> None:
        waiting = await met(site, plain(site, replace(A, b"z")))
        first.close()
        while not site.engine.locks.waiting:
            assert not waiting.done()
            await asyncio.sleep(0)
        third = await Snapshot.begin(site.engine, site.now, [site.home], exclusive=True)
        await third.run(site.it, replace(A, b"w"))
        third.close()
        await second.commit(site.now)
        second.close()
        with pytest.raises(Conflict):
            await waiting

    site.run(meet())
    assert site.values() == {A: b"x", b"c": b"z"}


def test_who_has_waited_comes_before_another_transaction(site: Site) -> None:
    site.write(create(A, b"1"))
    snapshot, other = begin(site), begin(site)
    run(site, snapshot, replace(A, b"2"))

    async def meet() -> None:
        waiting = await met(site, plain(site, replace(A, b"3")))
        snapshot.close()
        with pytest.raises(WriteConflict):
            await other.run(site.it, replace(A, b"4"))
        await waiting

    site.run(meet())
    other.close()
    again = begin(site)
    run(site, again, replace(A, b"5"))
    commit(site, again)
    assert site.values() == {A: b"5"}


@pytest.mark.parametrize("released", [False, True], ids=["while it waits", "as it is woken"])
def test_a_client_that_leaves(site: Site, released: bool) -> None:
    site.write(create(A, b"1"))
    snapshot, lock_waits = begin(site), LockWaits()
    run(site, snapshot, replace(A, b"2"))

    async def meet() -> None:
        waiting = await met(site, plain(site, replace(A, b"3"), lock_waits))
        if released:
            snapshot.close()
            waiting.cancel()
        else:
            lock_waits.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        late = asyncio.create_task(plain(site, replace(A, b"3"), lock_waits))
        if not released:
            with pytest.raises(asyncio.CancelledError):
                await late
        else:
            await late

    site.run(meet())
    snapshot.close()
    again = begin(site)
    run(site, again, replace(A, b"4"))
    commit(site, again)
    assert site.values() == {A: b"4"}


def test_an_index_does_not_bury_what_may_be_saved(site: Site) -> None:
    """A hidden record that shares a unique value is removed by the build, unless a transaction has saved it."""
    site.write(create(A, b"x", life=5))
    snapshot = begin(site, exclusive=False)
    run(site, snapshot, upsert(A, b"x", life=1000))
    site.pass_seconds(6)
    site.write(create(b"b", b"x"))

    async def build() -> None:
        indexes = site.engine.indexes
        building = await met(site, indexes.define_and_build(site.it, lambda _: [UNIQUE], keys_of))
        await snapshot.commit(site.now)
        snapshot.close()
        with pytest.raises(Conflict):
            await building

    site.run(build())
    assert site.values() == {A: b"x", b"b": b"x"}


@pytest.mark.parametrize("exclusive", [True, False], ids=["exclusive", "shared"])
def test_a_create_does_not_bury_what_may_be_saved(site: Site, exclusive: bool) -> None:
    site.write(create(A, b"1", life=5))
    snapshot = begin(site, exclusive)
    run(site, snapshot, upsert(A, b"2", life=1000))
    site.pass_seconds(6)

    async def meet() -> None:
        waiting = await met(site, plain(site, create(A, b"3")))
        await snapshot.commit(site.now)
        snapshot.close()
        with pytest.raises(Conflict):
            await waiting

    site.run(meet())
    assert site.values() == {A: b"2"}


def test_too_many_to_leave_out(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then nothing is purged in the container until there are fewer."""
    monkeypatch.setattr(locks, "MAX_SPARED", 1)
    for key in (A, b"b", b"c"):
        site.write(create(key, b"1", life=5))
    snapshot = begin(site)
    run(site, snapshot, replace(A, b"2"), replace(b"b", b"2"))
    site.pass_seconds(6)
    assert sweep(site) == 0
    snapshot.close()
    assert sweep(site) == 3


def test_locks_are_limited(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "MAX_LOCKS", 2)
    first, second = begin(site), begin(site)
    run(site, first, create(A, b"1"), create(b"b", b"1"), replace(A, b"2"))
    with pytest.raises(Exception, match="have written 2 records"):
        run(site, second, create(b"c", b"1"))
    first.close()
    second.close()
    assert len(site.engine.locks) == 0


def test_a_reset_lets_go(site: Site) -> None:
    site.write(create(A, b"1"))
    snapshot = begin(site)
    run(site, snapshot, replace(A, b"2"))

    async def meet() -> None:
        waiting = await met(site, plain(site, replace(A, b"3")))
        await site.engine.reset()
        with pytest.raises(Exception, match=OWNER_MISSING):
            await waiting

    site.run(meet())
    assert len(site.engine.locks) == 0
    snapshot.close()
