"""Reads that prolong lives, on every store: what is written, and what is not."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from engine.site import Site, create, draft, partition_of, upsert
from mayflydb.engine.catalog import Definition
from mayflydb.engine.commands import Command, Mode
from mayflydb.engine.transactions import Body
from mayflydb.expiry.deadline import deadline
from mayflydb.expiry.lifecycle import Lifecycle
from mayflydb.expiry.rules import Rule, column_rule, default_rule
from mayflydb.expiry.sweep import PurgeRequest
from mayflydb.model.instant import SECOND, Instant
from mayflydb.model.record import Record

SLOT = 20


def touching(site: Site, *rules: Rule) -> int:
    definition = Definition({}, site.now, rules=rules, lifecycle=Lifecycle(touch=10))
    return site.run(site.engine.definitions.create(site.home, "touching", definition)).id


def read(site: Site, container: int, key: bytes) -> Record | None:
    """Read as a client does, and write the note."""

    async def work() -> Record | None:
        node = await site.engine.node_by_id(container)
        assert node is not None
        found = await site.engine.get(node, partition_of(key), key, await site.engine.now())
        await site.engine.accesses.flush()
        return found

    return site.run(work())


def stored(site: Site, container: int, key: bytes) -> Record:
    found = site.run(site.engine.get_stored(container, partition_of(key), key))
    assert found is not None
    return found


def test_only_the_life_of_a_record_changes(site: Site) -> None:
    container = touching(site, default_rule(100))
    before = site.write(create(b"a", b"v"), container).record
    site.pass_seconds(50)
    assert read(site, container, b"a") == before
    after = stored(site, container, b"a")
    assert after == msgspec.structs.replace(before, anchor=site.now)
    assert site.values(container) == {b"a": b"v"}


def test_a_date_moves_with_its_entry(site: Site) -> None:
    rule = column_rule(100, SLOT, False)
    container = touching(site, rule)
    new = msgspec.structs.replace(draft(b"a", b"v"), dates=((SLOT, site.now),))
    site.write(Command(Mode.UPSERT, partition_of(b"a"), b"a", new), container)
    site.pass_seconds(50)
    read(site, container, b"a")
    assert deadline(stored(site, container, b"a"), (rule,)) == site.now + 100 * SECOND
    # The old entry is gone: nothing is due at the old deadline.
    site.pass_seconds(60)
    request = PurgeRequest(site.now, site.now, "run now", override="all")
    assert site.run(site.engine.reaper.sweep_due(request)).total() == 0
    site.pass_seconds(40)
    assert (
        site.run(site.engine.reaper.sweep_due(PurgeRequest(site.now, site.now, "run now", override="all"))).total() == 1
    )


def test_a_sweep_comes_after_the_notes_of_reads(site: Site) -> None:
    container = touching(site, default_rule(100))
    site.write(create(b"a", b"v"), container)
    site.pass_seconds(99)

    async def read_and_sweep() -> int:
        node = await site.engine.node_by_id(container)
        assert node is not None
        await site.engine.get(node, partition_of(b"a"), b"a", await site.engine.now())
        request = PurgeRequest(site.now + 5 * SECOND, site.now, "run now", override="all")
        return (await site.engine.reaper.sweep_due(request)).total()

    assert site.run(read_and_sweep()) == 0


def test_a_flush_waits_for_the_notes_that_another_one_writes(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    container = touching(site, default_rule(100))
    site.write(create(b"a", b"v"), container)
    site.pass_seconds(99)
    accesses, gate = site.engine.accesses, asyncio.Event()
    transact = accesses._transact

    async def wait_and_transact(body: Body[Any], now: Instant) -> Any:
        await gate.wait()
        return await transact(body, now)

    async def flush_twice() -> list[bool]:
        node = await site.engine.node_by_id(container)
        assert node is not None
        await site.engine.get(node, partition_of(b"a"), b"a", await site.engine.now())
        first, second = asyncio.create_task(accesses.flush()), asyncio.create_task(accesses.flush())
        for _ in range(3):
            await asyncio.sleep(0)
        done = [first.done(), second.done()]
        gate.set()
        await asyncio.gather(first, second)
        return done

    monkeypatch.setattr(accesses, "_transact", wait_and_transact)
    assert site.run(flush_twice()) == [False, False]
    assert stored(site, container, b"a").anchor == site.now


def test_what_has_expired_meanwhile_stays_expired(site: Site) -> None:
    container = touching(site, default_rule(100))
    site.write(create(b"a", b"v"), container)
    site.write(create(b"b", b"v"), container)
    site.pass_seconds(99)

    async def read_late() -> None:
        node = await site.engine.node_by_id(container)
        assert node is not None
        for key in (b"a", b"b"):
            await site.engine.get(node, partition_of(key), key, await site.engine.now())
        # A write comes in between, and the deadline of the other passes.
        await site.engine.write(container, upsert(b"b", b"w"), site.now)
        site.pass_seconds(2)
        await site.engine.accesses.flush()

    site.run(read_late())
    assert site.values(container) == {b"b": b"w"}
