"""Grace and undelete: expired records are kept for a time, and come back under a new life, on every store."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import msgspec
import pytest

from engine.site import Site, create, draft, partition_of, upsert
from mayflydb.engine.building import IndexRequest
from mayflydb.engine.catalog import Definition
from mayflydb.engine.commands import Command, Mode
from mayflydb.engine.open import open_engine
from mayflydb.engine.snapshot import Snapshot
from mayflydb.expiry.deadline import deadline
from mayflydb.expiry.lifecycle import Lifecycle
from mayflydb.expiry.rules import Rule, column_rule, default_rule, index_rule
from mayflydb.expiry.sweep import PurgeRequest
from mayflydb.expiry.undelete import Undelete
from mayflydb.model.errors import BadRequest, Conflict, NotFound
from mayflydb.model.instant import SECOND
from mayflydb.model.record import Record
from mayflydb.store.interface import Expiries

SLOT = 20
DEFAULT = default_rule(100)


def kept(site: Site, *rules: Rule, grace: int = 50, history: int | None = None) -> int:
    """A container with a grace."""
    definition = Definition({}, site.now, rules=rules, lifecycle=Lifecycle(grace=grace), history=history)
    return site.run(site.engine.definitions.create(site.home, "kept", definition)).id


def dated(key: bytes, at: int, value: bytes = b"v") -> Command:
    """A create of a record with a date, in seconds."""
    new = msgspec.structs.replace(draft(key, value), dates=((SLOT, at * SECOND),))
    return Command(Mode.UPSERT, partition_of(key), key, new)


def purge(site: Site) -> int:
    request = PurgeRequest(site.now, site.now, "run now", override="all")
    return site.run(site.engine.reaper.sweep_due(request)).total()


def undelete(site: Site, container: int, **selection: Any) -> int:
    """Undelete what is selected, and return the number of records."""

    async def work() -> int:
        await site.engine.undeletes.begin(container, Undelete(site.now, **selection))
        await site.engine.undeletes.wait(container, None)
        found = site.engine.undeletes.progress(container)
        assert found is not None and found.is_done
        return found.undeleted

    return site.run(work())


def stored(site: Site, container: int, key: bytes) -> Record | None:
    return site.run(site.engine.get_stored(container, partition_of(key), key))


def second(site: Site) -> int:
    return site.now // SECOND


@pytest.mark.parametrize("kind", ["default", "index", "column"])
def test_expired_records_are_hidden_and_kept_for_the_grace(site: Site, kind: str) -> None:
    rule = {"default": DEFAULT, "index": index_rule(100, SLOT, False), "column": column_rule(100, SLOT, False)}[kind]
    container = kept(site, rule)
    site.write(dated(b"a", second(site)), container)
    site.pass_seconds(99)
    assert (list(site.values(container)), purge(site)) == ([b"a"], 0)
    site.pass_seconds(1)
    assert (site.values(container), purge(site)) == ({}, 0)
    site.pass_seconds(49)
    assert (site.values(container), purge(site)) == ({}, 0)
    site.pass_seconds(1)
    assert purge(site) == 1
    event = site.run(site.engine.store.read(Expiries(container, 0, 10)))[0]
    assert (event.deadline, event.purged) == (site.now - 50 * SECOND, site.now)


@pytest.mark.parametrize("kind", ["default", "index", "column"])
def test_records_that_are_kept_are_listed_by_deadline(site: Site, kind: str) -> None:
    rule = {"default": DEFAULT, "index": index_rule(100, SLOT, False), "column": column_rule(100, SLOT, False)}[kind]
    container = kept(site, rule)
    start, counts = second(site), site.engine.expiry_counts
    for place, key in enumerate((b"a", b"b", b"c")):
        site.write(dated(key, start + place), container)
        site.pass_seconds(1)
    site.pass_seconds(98)

    async def listed(until: int) -> list[bytes]:
        node = await site.engine.node_by_id(container)
        assert node is not None
        found = await counts.find_expiring(node, None, until * SECOND, 10, counts.allow())
        return [record.key for _, record in found.records]

    assert site.run(listed(start + 101)) == [b"a", b"b"]
    assert site.run(listed(start + 102)) == [b"a", b"b", b"c"]


def test_the_reaper_wakes_at_the_end_of_the_grace(site: Site) -> None:
    container = kept(site, DEFAULT)
    site.write(create(b"a", b"v"), container)
    reaper = site.engine.reaper
    assert site.run(reaper.next_deadline()) == site.now + 150 * SECOND
    assert site.run(site.engine.next_deadline(container)) == site.now + 100 * SECOND


def test_an_undelete_gives_the_same_record_a_whole_life(site: Site) -> None:
    container = kept(site, DEFAULT)
    before = {
        key: site.write(create(key, b"word|%b" % key, life), container).record
        for key, life in [(b"a", None), (b"b", 60)]
    }
    site.pass_seconds(120)
    assert undelete(site, container) == 2
    assert site.values(container) == {key: record.value for key, record in before.items()}
    for key, old in before.items():
        new = stored(site, container, key)
        assert new is not None and new.lsn > old.lsn and new.anchor == new.written == site.now
        assert (new.seq, new.override, new.value) == (old.seq, old.override, old.value)
        assert deadline(new, (DEFAULT,)) == site.now + (old.override or 100) * SECOND
    site.pass_seconds(110)
    assert (purge(site), site.values(container)) == (1, {})
    assert undelete(site, container) == 1
    assert list(site.values(container)) == [b"a"]
    # It is done a second time, and nothing is left to do.
    assert undelete(site, container) == 0


def test_entries_of_indexes_stay(site: Site) -> None:
    index = site.build(IndexRequest(spec={"field": 0}))[0]
    for key in (b"a", b"b"):
        site.write(create(key, b"word", 10))
    site.pass_seconds(10)
    assert site.linked(index) == {}
    assert undelete(site, site.it) == 2
    assert site.linked(index) == {b"word": [b"a", b"b"]}


def test_a_date_rule_counts_from_now_or_for_a_given_life(site: Site) -> None:
    container = kept(site, column_rule(100, SLOT, False))
    for key in (b"a", b"b"):
        site.write(dated(key, second(site) - 120), container)
    site.run(site.engine.undeletes.undelete_record(container, (partition_of(b"a"), b"a"), None))
    site.run(site.engine.undeletes.undelete_record(container, (partition_of(b"b"), b"b"), 30))
    for key, life in [(b"a", 100), (b"b", 30)]:
        record = stored(site, container, key)
        assert record is not None
        assert deadline(record, (column_rule(100, SLOT, True),)) == site.now + life * SECOND
    site.pass_seconds(80)
    assert (purge(site), list(site.values(container))) == (1, [b"a"])


def test_a_date_without_a_span_needs_a_life(site: Site) -> None:
    container = kept(site, index_rule(0, SLOT, False))
    site.write(dated(b"a", second(site) - 1), container)
    with pytest.raises(BadRequest, match="how long"):
        undelete(site, container)
    with pytest.raises(BadRequest, match="how long"):
        site.run(site.engine.undeletes.undelete_record(container, (partition_of(b"a"), b"a"), None))
    assert undelete(site, container, life=5) == 1
    assert list(site.values(container)) == [b"a"]
    with pytest.raises(BadRequest, match="as long as their ttl"):
        undelete(site, site.it, life=5)


def test_one_record(site: Site) -> None:
    one = site.engine.undeletes.undelete_record
    site.write(create(b"a", b"v", 10))
    with pytest.raises(Conflict, match="not hidden"):
        site.run(one(site.it, (partition_of(b"a"), b"a"), None))
    with pytest.raises(NotFound):
        site.run(one(site.it, (partition_of(b"b"), b"b"), None))
    site.pass_seconds(10)
    # The key is taken again: the expired record is gone.
    site.write(create(b"a", b"new", 10))
    with pytest.raises(Conflict, match="not hidden"):
        site.run(one(site.it, (partition_of(b"a"), b"a"), None))
    assert site.values() == {b"a": b"new"}


def test_nothing_is_purged_while_an_undelete_is_under_way_and_a_new_process_ends_it(site: Site) -> None:
    container = kept(site, DEFAULT)
    for n in range(9):
        site.write(create(b"%d" % n, b"v"), container)
    site.pass_seconds(100)
    wanted = Undelete(site.now)
    change = site.engine.definitions.adjust(container, lambda it: msgspec.structs.replace(it, undelete=wanted))
    site.run(change)
    site.pass_seconds(1000)
    assert purge(site) == 0
    with pytest.raises(Conflict, match="under way"):
        undelete(site, container)

    async def start_again() -> None:
        engine = await open_engine(site.engine.store, site.clock)
        await engine.undeletes.resume()
        await engine.undeletes.wait(container, None)
        await engine.undeletes.close()

    site.run(start_again())
    assert len(site.values(container)) == 9
    assert site.node(container).definition.undelete is None


def test_an_undelete_that_is_stopped_midway_is_ended_by_the_next_process(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    container = kept(site, DEFAULT)
    for n in range(9):
        site.write(create(b"%d" % n, b"v"), container)
    site.pass_seconds(100)

    async def stop_midway() -> None:
        monkeypatch.setattr(site.engine.undeletes, "_batch", 2)
        await site.engine.undeletes.begin(container, Undelete(site.now))
        for _ in range(5000):
            found = site.engine.undeletes.progress(container)
            if found is not None and found.undeleted:
                break
            await asyncio.wait([*asyncio.all_tasks() - {asyncio.current_task()}], timeout=0.001)
        await site.engine.undeletes.close()
        engine = await open_engine(site.engine.store, site.clock)
        await engine.undeletes.resume()
        await engine.undeletes.wait(container, None)

    site.run(stop_midway())
    assert len(site.values(container)) == 9


def test_a_history_has_the_undelete_as_a_change(site: Site) -> None:
    container = kept(site, DEFAULT, history=3600 * SECOND)
    site.write(create(b"a", b"v"), container)
    site.pass_seconds(100)
    assert undelete(site, container) == 1
    lines = site.run(site.engine.history(container, 0, 10))
    assert [(line.kind.value, line.value) for line in lines if line.key == b"a"] == [
        ("create", b"v"),
        ("replace", b"v"),
    ]


def test_an_undelete_waits_for_a_transaction_with_the_record(site: Site) -> None:
    site.write(create(b"a", b"v", 10))

    async def work() -> tuple[bool, bool]:
        snapshot = await Snapshot.begin(site.engine, site.now, [site.home], exclusive=True)
        await snapshot.run(site.it, upsert(b"a", b"w", 10))
        site.pass_seconds(10)
        one = asyncio.create_task(site.engine.undeletes.undelete_record(site.it, (partition_of(b"a"), b"a"), None))
        await asyncio.wait([one], timeout=0.02)
        waits = not one.done()
        snapshot.close()
        await one
        return waits, one.done()

    assert site.run(work()) == (True, True)
    assert site.values() == {b"a": b"v"}


SEEDS = range(6)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_lives_come_back_as_selected(site: Site, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seeds name their histories: run one alone to see it again."""
    chance = random.Random(seed)
    monkeypatch.setattr(site.engine.undeletes, "_batch", 3)
    rules = (default_rule(chance.choice([None, 40, 90])), column_rule(chance.choice([10, 50]), SLOT, False))
    container = kept(site, *rules, grace=1000)
    start = second(site)
    for n in range(40):
        key = b"%02d" % n
        new = draft(key, b"v%d" % n, chance.choice([None, None, -1, 20, 70, 500]))
        if chance.random() < 0.6:
            date = (start + chance.randrange(-40, 100)) * SECOND
            new = msgspec.structs.replace(new, dates=((SLOT, date),))
        site.write(Command(Mode.UPSERT, partition_of(key), key, new), container)
        if chance.random() < 0.2:
            site.pass_seconds(1)
    site.pass_seconds(chance.randrange(30, 120))
    before = site.values(container)
    records = [record for n in range(40) if (record := stored(site, container, b"%02d" % n)) is not None]
    after = chance.choice([None, site.now - chance.randrange(60) * SECOND])
    upto = chance.choice([None, site.now - chance.randrange(30) * SECOND])
    causes = chance.choice([(), ("item",), ("column",), ("default", "column")])
    expected = dict(before)
    for record in records:
        ends = deadline(record, rules)
        dates = dict(record.dates)
        by_date = SLOT in dates and dates[SLOT] + (rules[1].after or 0) * SECOND == ends
        by_ttl = deadline(record, rules[:1]) == ends
        cause = ("item" if record.override and record.override > 0 else "default") if by_ttl else "column"
        assert by_ttl or by_date or ends is None
        if (
            ends is None
            or ends > site.now
            or (after is not None and ends <= after)
            or (upto is not None and ends > upto)
        ):
            continue
        if not causes or cause in causes:
            expected[record.key] = record.value
    assert undelete(site, container, after=after, upto=upto, causes=causes, life=30) == len(expected) - len(before)
    assert site.values(container) == expected
    assert undelete(site, container, after=after, upto=upto, causes=causes, life=30) == 0
    assert purge(site) == 0
    site.pass_seconds(5000)
    assert purge(site) == sum(deadline(record, rules) is not None for record in records)
