"""Reads as of an earlier instant, on every store: what was seen then is read, by every path."""

from __future__ import annotations

import asyncio
from random import SystemRandom
from typing import Any

import msgspec
import pytest

from engine.past_model import RandomHistory, words_of
from engine.site import Site, create, delete, keys_of, partition_of, upsert
from mayflydb.engine.catalog import Definition, Node
from mayflydb.engine.commands import Draft
from mayflydb.engine.engine import Engine
from mayflydb.engine.housekeeping import INTERVAL
from mayflydb.engine.lifecycle import past_versions, pasts, retired_versions
from mayflydb.engine.lifecycle.past_engine import engine_as_of
from mayflydb.engine.scans import Scope
from mayflydb.expiry.past import MAX_CHANGES
from mayflydb.expiry.rules import Rule, default_rule, index_rule
from mayflydb.expiry.sweep import PurgeRequest
from mayflydb.model.errors import BadRequest, MayflyError, Unsupported
from mayflydb.model.instant import SECOND, Instant
from mayflydb.store.interface import PAGE_BYTES, Count, Due

STEPS = 120


@pytest.mark.parametrize(("showing", "few"), [(False, 1), (False, 64), (True, 1), (True, 64)])
def test_what_was_seen_is_read(site: Site, monkeypatch: pytest.MonkeyPatch, showing: bool, few: int) -> None:
    monkeypatch.setattr(pasts, "FEW", few)
    seed = SystemRandom().randrange(10**6)
    history = RandomHistory(site, seed, showing)
    for _ in range(STEPS):
        history.step()
    site.pass_seconds(1)
    for at in history.instants(12):
        seen = history.seen_at(at)
        linked = words_of(seen, history.index)
        for path, found in history.read_at(at).items():
            assert found == (seen if isinstance(found, dict) else linked), (seed, at - history.since, path)


def container_of(site: Site, *rules: Rule, **settings: Any) -> int:
    id = site.run(site.engine.definitions.create(site.home, "kept", Definition({}, site.now, rules=rules))).id
    change(site, id, **settings)
    return id


def change(site: Site, container: int, **settings: Any) -> Node:
    return site.run(
        site.engine.definitions.change_lifecycle(
            container, lambda lifecycle: msgspec.structs.replace(lifecycle, **settings), site.now
        )
    )


def set_rules(site: Site, container: int, *rules: Rule) -> None:
    site.run(
        site.engine.definitions.replace(
            container, lambda node: msgspec.structs.replace(node.definition, rules=rules), site.now
        )
    )


def purge(site: Site) -> None:
    request = PurgeRequest(site.now, site.now, "run now", override="all")
    site.run(site.engine.reaper.sweep_due(request))


def past_of(site: Site, at: Instant) -> Engine:
    return engine_as_of(site.engine, at, lambda node: keys_of)


async def read(past: Engine, container: int, at: Instant, batch: int = 5) -> dict[bytes, bytes]:
    node = await past.node_by_id(container)
    assert node is not None
    batches = past.scan(node, Scope(), None, at, batch)
    return {record.key: record.value async for each in batches for record in each.records}


def seen(site: Site, container: int, at: Instant) -> dict[bytes, bytes]:
    site.run(site.engine.now())
    return site.run(read(past_of(site, at), container, at))


def refusal(site: Site, container: int, at: Instant) -> str:
    with pytest.raises(BadRequest) as caught:
        seen(site, container, at)
    return str(caught.value)


def test_only_what_is_kept_is_read(site: Site) -> None:
    container, start = container_of(site), site.now
    site.write(create(b"a", b"v"), container)
    site.pass_seconds(10)
    assert "No states before now are kept of 'kept'" in refusal(site, container, start)
    change(site, container, history=60)
    site.pass_seconds(60)
    assert seen(site, container, start + 10 * SECOND) == {b"a": b"v"}
    assert "No states before 1970-01-01T00:16:50Z are kept" in refusal(site, container, start + 10 * SECOND - 1)
    site.pass_seconds(1)
    assert "No states before 1970-01-01T00:16:51Z are kept" in refusal(site, container, start + 11 * SECOND - 1)
    # A longer time does not bring back what a shorter one has removed.
    change(site, container, history=10)
    change(site, container, history=1000)
    assert "No states before 1970-01-01T00:17:41Z are kept" in refusal(site, container, site.now - 10 * SECOND - 1)
    assert seen(site, container, site.now - 10 * SECOND) == {b"a": b"v"}
    change(site, container, history=0)
    assert "No states before now" in refusal(site, container, site.now - 1)


def test_a_read_that_has_begun_goes_on(site: Site) -> None:
    container, at = container_of(site, history=60), site.now
    for n in range(9):
        site.write(create(b"%d" % n, b"v"), container)

    async def work() -> list[bytes]:
        past = past_of(site, at)
        node = await past.node_by_id(container)
        assert node is not None
        found: list[bytes] = []
        async for batch in past.scan(node, Scope(), None, at, 2):
            found += [record.key for record in batch.records]
            # What was read is out of reach, and what is left is replaced, removed, and written anew.
            for command in (delete(b"%d" % (len(found) % 9)), upsert(b"%d" % (8 - len(found) % 4), b"w")):
                try:
                    await site.engine.write(container, command, site.now)
                except MayflyError:
                    assert found
            site.pass_seconds(30)
        return found

    site.pass_seconds(1)
    assert site.run(work()) == [b"%d" % n for n in range(9)]


def test_writes_beside_a_read_change_nothing(site: Site) -> None:
    container = container_of(site, history=60)
    for n in range(40):
        site.write(create(b"%02d" % n, b"v"), container)
    at = site.now
    site.pass_seconds(1)

    async def write() -> None:
        for n in range(39, -1, -1):
            await site.engine.write(container, delete(b"%02d" % n), site.now)
            await site.engine.write(container, create(b"%02d" % n, b"w"), site.now)

    async def work() -> list[dict[bytes, bytes]]:
        writes = asyncio.create_task(write())
        found = [await read(past_of(site, at), container, at, batch) for batch in (1, 3, 7)]
        await writes
        return found

    assert site.run(work()) == [{b"%02d" % n: b"v" for n in range(40)}] * 3


def test_a_write_in_progress_is_of_the_past(site: Site) -> None:
    """It has its instant, and is not committed yet."""
    container = container_of(site, history=60)
    site.write(create(b"a", b"v"), container)

    async def work() -> dict[bytes, bytes]:
        at = site.now
        with site.engine.version_cache.write():
            site.pass_seconds(1)
            reading = asyncio.create_task(read(past_of(site, at), container, at))
            for _ in range(50):
                await asyncio.sleep(0)
            await site.engine.store.write(lambda: site.engine._decide_one(container, upsert(b"a", b"w"), at, None))
        return await reading

    assert site.run(work()) == {b"a": b"w"}


def test_large_pages_are_cut_and_complete(site: Site) -> None:
    container = container_of(site, history=60)
    for n in range(12):
        site.write(create(b"%02d" % n, b"%02d" % n + bytes(PAGE_BYTES // 4)), container)
    at = site.now
    site.pass_seconds(1)
    for n in (0, 3, 7, 11):
        site.write(upsert(b"%02d" % n, b"w"), container)

    async def fetch() -> list[bytes]:
        past = past_of(site, at)
        node = await past.node_by_id(container)
        assert node is not None
        found = past.indexes.fetch(node, list(range(1, 20)), at, 20)
        return [record.value[:2] async for records in found for record in records]

    assert site.run(fetch()) == [b"%02d" % n for n in range(12)]
    assert {value[:2] for value in seen(site, container, at).values()} == {b"%02d" % n for n in range(12)}


@pytest.mark.parametrize(("name", "limit"), [("MAX_VERSIONS", 9), ("MAX_BYTES", 99)])
def test_too_many_changes_are_refused(site: Site, monkeypatch: pytest.MonkeyPatch, name: str, limit: int) -> None:
    container, at = container_of(site, history=60), site.now
    site.write(create(b"a", bytes(11)), container)
    site.pass_seconds(1)
    for _ in range(9):
        site.write(upsert(b"a", bytes(11)), container)
    monkeypatch.setattr(past_versions, name, limit)
    assert seen(site, container, site.now - 1) == {b"a": bytes(11)}
    site.write(upsert(b"a", b""), container)
    for _ in range(2):
        told = refusal(site, container, at)
        assert "10 were read, of 110 bytes" in told
        assert f" {limit} " in told


def test_states_in_memory_are_few(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pasts, "MAX_HELD_BYTES", 10_000)
    container, start = container_of(site, history=600), site.now
    for n in range(20):
        site.write(upsert(b"a", b"%02d" % n + bytes(3_000)), container)
        site.pass_seconds(1)
    for n in range(19):
        assert seen(site, container, start + n * SECOND)[b"a"][:2] == b"%02d" % n
        assert sum(past.held_bytes for past in site.engine.pasts._pasts.values()) <= 10_000

    async def rest() -> None:
        site.engine.pasts._drop_idle()
        site.engine.pasts._drop_idle()

    site.run(rest())
    assert not site.engine.pasts._pasts


def test_many_changes_of_rules_shorten_the_past(site: Site) -> None:
    container, start = container_of(site, default_rule(5), history=10_000), site.now
    site.write(create(b"a", b"v"), container)
    for n in range(MAX_CHANGES):
        site.pass_seconds(1)
        set_rules(site, container, default_rule(6 + n))
    assert seen(site, container, start) == {b"a": b"v"}
    site.pass_seconds(1)
    set_rules(site, container)
    assert "No states before 1970-01-01T00:16:41Z" in refusal(site, container, start + SECOND - 1)
    assert seen(site, container, start + SECOND) == {b"a": b"v"}


def test_pause_and_grace_are_rules_of_their_day(site: Site) -> None:
    container, start = container_of(site, index_rule(0, 20, False), history=1000), site.now

    def write(key: bytes, second: int) -> None:
        made = upsert(key, b"v")
        assert isinstance(made.draft, Draft)
        dated = msgspec.structs.replace(made.draft, dates=((20, start + second * SECOND),))
        site.write(msgspec.structs.replace(made, draft=dated), container)

    write(b"a", 5)
    site.pass_seconds(10)
    change(site, container, grace=100)
    site.pass_seconds(10)
    site.run(site.engine.now())
    site.run(site.engine.definitions.pause(container, "expiry"))
    site.pass_seconds(10)
    site.run(site.engine.now())
    site.run(site.engine.definitions.pause(container, None))
    site.pass_seconds(100)
    purge(site)
    site.pass_seconds(1)
    told = [b"a" in seen(site, container, start + second * SECOND) for second in (0, 9, 10, 19, 20, 29, 30, 130)]
    # Shown until a purge; hidden in its grace; without expiry; hidden.
    assert told == [True, True, False, False, True, True, False, False]


def test_a_touch_leaves_the_life_of_before(site: Site) -> None:
    container, start = container_of(site, default_rule(100), history=1000, touch=1), site.now
    site.write(create(b"a", b"v"), container)
    site.pass_seconds(10)
    set_rules(site, container, default_rule(5))
    site.pass_seconds(10)
    set_rules(site, container, default_rule(100))
    site.pass_seconds(10)

    async def touch() -> None:
        node = await site.engine.node_by_id(container)
        assert node is not None
        await site.engine.get(node, partition_of(b"a"), b"a", await site.engine.now())
        await site.engine.accesses.flush()

    site.run(touch())
    assert site.engine.accesses.touched == 1
    site.pass_seconds(10)
    told = [b"a" in seen(site, container, start + second * SECOND) for second in (9, 10, 19, 20, 30, 39)]
    assert told == [True, False, False, True, True, True]


def test_an_undelete_is_a_change_of_its_own_instant(site: Site) -> None:
    container, start = container_of(site, default_rule(10), history=1000, grace=100), site.now
    site.write(create(b"a", b"v"), container)
    site.pass_seconds(15)
    site.run(site.engine.now())
    site.run(site.engine.undeletes.undelete_record(container, (partition_of(b"a"), b"a"), None))
    site.pass_seconds(15)
    told = [b"a" in seen(site, container, start + second * SECOND) for second in (0, 9, 10, 14, 15, 24, 25)]
    assert told == [True, True, False, False, True, True, False]


def test_each_end_goes_in_its_own_time(site: Site) -> None:
    """Images of expired records, which are kept longer, hold up nothing else."""
    container = container_of(site, default_rule(10), history=100, last_image=1000)
    site.write(create(b"a", b"v"), container)
    site.pass_seconds(10)
    purge(site)
    for _ in range(3):
        site.write(upsert(b"b", b"v", 5000), container)
    site.write(delete(b"b"), container)
    home = site.node(container).definition.retired
    assert home is not None

    def kept() -> int:
        site.engine.reaper._housekeeping._forgotten_at = -INTERVAL
        while site.run(site.engine.reaper._housekeeping.forget_old(site.now)):
            pass
        return site.run(site.engine.store.read(Count(home))).records

    counts = []
    for seconds in (0, 99, 1, 899, 1):
        site.pass_seconds(seconds)
        counts.append(kept())
    assert counts == [4, 4, 1, 1, 0]


def test_too_many_versions_shorten_the_past(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retired_versions, "MAX_RETIRED", 10)
    container, start = container_of(site, history=1000), site.now
    for n in range(20):
        site.write(upsert(b"a", b"%d" % n), container)
        site.pass_seconds(1)
    assert seen(site, container, start) == {b"a": b"0"}
    site.engine.reaper._housekeeping._forgotten_at = -INTERVAL
    while site.run(site.engine.reaper._housekeeping.forget_old(site.now)):
        pass
    # 19 versions have ended, the ninth of them at second 9.
    assert "No states before 1970-01-01T00:16:49Z" in refusal(site, container, start + 9 * SECOND - 1)
    for n in range(9, 20):
        assert seen(site, container, start + n * SECOND) == {b"a": b"%d" % n}


def test_nothing_is_written_in_the_past(site: Site) -> None:
    container, at = container_of(site, history=60), site.now
    site.write(create(b"a", b"v"), container)
    site.pass_seconds(1)
    past = past_of(site, at)
    with pytest.raises(Unsupported, match="Writes as of an earlier instant"):
        site.run(past.write(container, upsert(b"a", b"w"), site.now))
    with pytest.raises(Unsupported, match=r"do not support this \(Due\)"):
        site.run(past.store.read(Due(container, 20, site.now, None, 1)))
