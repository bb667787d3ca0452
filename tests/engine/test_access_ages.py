"""Ages of accesses on every store: what is sampled, what is kept, and what goes with its container."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest

from engine.site import Site, create, delete, partition_of, replace, upsert
from mayflydb.engine.catalog import Definition, Node
from mayflydb.engine.lifecycle import access_ages
from mayflydb.engine.lifecycle.access_ages import DENSE, MOST_OF_BATCH, SPACE, AccessAges
from mayflydb.engine.open import open_engine
from mayflydb.engine.scans import Batch, Scope
from mayflydb.expiry.access_ages import LAST_WRITE, RUNGS, Observations, slot_ages
from mayflydb.expiry.rules import Rule, column_rule, default_rule
from mayflydb.model.errors import OutOfSpace
from mayflydb.model.instant import SECOND
from mayflydb.model.record import Record


@pytest.fixture
def seen(site: Site) -> Callable[..., Observations | None]:
    """What was seen of a container; accesses are observed from the beginning."""
    site.engine.accesses.sample(8)
    return lambda container=None: site.run(site.engine.accesses.ages.read(container or site.it))


def named(site: Site, name: str, *rules: Rule) -> int:
    definition = Definition({}, site.now, rules=rules)
    return site.run(site.engine.definitions.create(site.home, name, definition)).id


def read(site: Site, key: bytes, container: int | None = None) -> Record | None:
    return site.run(site.engine.get(site.node(container), partition_of(key), key, site.run(site.engine.now())))


def test_reads_updates_creations_and_deletions(site: Site, seen: Callable[..., Observations]) -> None:
    assert seen() is None
    begun = site.now
    for key in (b"a", b"b", b"c"):
        site.write(create(key, b"12345"))
    site.pass_seconds(7)
    assert read(site, b"a") and read(site, b"b") and read(site, b"missing") is None
    site.pass_seconds(20)
    site.write(replace(b"a", b"v"))
    site.write(upsert(b"new", b"123"))
    site.write(delete(b"b"))
    site.pass_seconds(5)
    read(site, b"a")
    found = seen()
    assert (found.since, found.created, found.created_bytes, found.deleted) == (begun, 4, 18, 1)
    assert (found.reads[LAST_WRITE].count, found.reads[LAST_WRITE].longest) == (3, 7 * SECOND)
    assert (found.updates[LAST_WRITE].count, found.updates[LAST_WRITE].longest) == (1, 27 * SECOND)
    assert found.last_created == begun + 27 * SECOND


def test_a_transaction_counts_once_it_has_committed(site: Site, seen: Callable[..., Observations]) -> None:
    site.write(create(b"a", b"v"))
    site.pass_seconds(9)
    commands = [create(b"b", b"v"), replace(b"a", b"w"), delete(b"a")]
    site.run(site.engine.write_all(site.it, commands, site.now))
    with pytest.raises(Exception, match="no such record"):
        site.run(site.engine.write_all(site.it, [create(b"c", b"v"), replace(b"z", b"v")], site.now))
    found = seen()
    assert (found.created, found.deleted) == (2, 1)
    assert (found.updates[LAST_WRITE].count, found.updates[LAST_WRITE].longest) == (1, 9 * SECOND)


def test_rules_and_own_lives(site: Site, seen: Callable[..., Observations]) -> None:
    site.write(create(b"own", b"v", life=1000))
    site.write(create(b"a", b"v"))
    site.pass_seconds(3)
    read(site, b"own")
    read(site, b"a")
    found = seen()
    assert (found.own, found.reads[LAST_WRITE].count) == (1, 1)


def test_ages_count_from_dates(site: Site, seen: Callable[..., Observations]) -> None:
    import msgspec

    from engine.site import draft
    from mayflydb.engine.commands import Command, Mode

    container = named(site, "dated", column_rule(100, 20, False))
    new = msgspec.structs.replace(draft(b"a", b"v"), dates=((20, site.now + 10 * SECOND),))
    site.write(Command(Mode.CREATE, partition_of(b"a"), b"a", new), container)
    site.pass_seconds(4)
    read(site, b"a", container)
    site.pass_seconds(20)
    read(site, b"a", container)
    ages = seen(container).reads[slot_ages(20)]
    assert (ages.count, ages.longest, ages.at_least(0)) == (2, 14 * SECOND, 1)


def test_dates_of_fields_are_looked_for_without_rules_alone(site: Site, seen: Callable[..., Observations]) -> None:
    asked: list[bytes] = []

    def find(node: Node, record: Record) -> dict[str, int]:
        asked.append(record.key)
        return {f"f{n}": site.now - 5 * SECOND for n in range(20)}

    site.engine.accesses.ages.find_dates = find
    free, ruled = named(site, "free"), named(site, "ruled", default_rule(1000))
    for container in (free, ruled):
        site.write(create(b"a", b"v"), container)
        site.write(create(b"large", b"v" * (access_ages.LARGEST + 1)), container)
        read(site, b"a", container)
        read(site, b"large", container)
    assert asked == [b"a"]
    # The names of one container are limited.
    assert sorted(seen(free).reads) == sorted(["write", *(f"field f{n}" for n in range(access_ages.MOST_NAMES - 1))])
    assert list(seen(ruled).reads) == ["write"]


def test_a_busy_container_is_thinned_and_a_quiet_one_is_not(site: Site, seen: Callable[..., Observations]) -> None:
    site.write(create(b"a", b"v"))
    node, record, ages = site.node(), read(site, b"a"), site.engine.accesses.ages
    assert record is not None
    for _ in range(DENSE + 2 * DENSE + 4 * DENSE + 8 * 10 - 1):
        site.engine.accesses.note(node, record, site.now)
    assert ages.uses[site.it].sampled == seen().reads[LAST_WRITE].count == 3 * DENSE + 10
    other = site.container("other")
    site.write(create(b"a", b"v"), other)
    for _ in range(5):
        read(site, b"a", other)
    assert seen(other).reads[LAST_WRITE].count == 5


def test_a_batch_is_sampled_evenly(site: Site, seen: Callable[..., Observations]) -> None:
    chance = random.Random(site.now)
    for n in range(40):
        site.write(create(b"%02d" % n, b"v"))
    node, now = site.node(), site.run(site.engine.now())

    async def stored() -> list[Record]:
        batches: list[Batch] = [each async for each in site.engine.scan(node, Scope(), None, now)]
        return [record for each in batches for record in each.records]

    records = site.run(stored())
    assert seen().reads == {}, "a scan of a container is no access"
    site.engine.accesses.note_all(node, records, now)
    assert MOST_OF_BATCH - 3 <= seen().reads[LAST_WRITE].count <= MOST_OF_BATCH
    # Later batches go on where the last one ended, whatever their sizes are.
    use = site.engine.accesses.ages.uses[site.it]
    use.sampled, before = DENSE * 16, seen().reads[LAST_WRITE].count
    done = 0
    while done < 800:
        size = chance.randrange(0, 30)
        site.engine.accesses.note_all(node, records[:size], now)
        done += size
    assert done // 8 - 2 <= seen().reads[LAST_WRITE].count - before <= done // 8 + 1


def test_off_notes_nothing(site: Site) -> None:
    site.engine.accesses.sample(0)
    site.write(create(b"a", b"v"))
    read(site, b"a")
    assert site.engine.accesses.ages.uses == {}


def test_a_read_as_of_a_later_instant_is_no_access(site: Site, seen: Callable[..., Observations]) -> None:
    site.write(create(b"a", b"v"))
    site.run(site.engine.get(site.node(), partition_of(b"a"), b"a", site.now + 3600 * SECOND))
    assert seen().reads == {}


def test_containers_beyond_the_limit_are_left_out(
    site: Site, seen: Callable[..., Observations], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access_ages, "MOST_CONTAINERS", 2)
    containers = [site.container(f"c{n}") for n in range(3)]
    for container in containers:
        site.write(create(b"a", b"v"), container)
    assert [seen(each) is None for each in containers] == [False, False, True]
    assert site.engine.accesses.ages.left_out == 1


def durable(site: Site) -> None:
    if not site.engine.durable:
        pytest.skip("the store ends with its process")


def test_a_restart_keeps_what_was_seen(site: Site, seen: Callable[..., Observations]) -> None:
    durable(site)
    site.write(create(b"a", b"v"))
    for _ in range(3):
        site.pass_seconds(10)
        read(site, b"a")
    before = seen()
    site.run(site.engine.accesses.ages.flush())
    assert seen() == before
    again = site.run(open_engine(site.engine.store, site.clock))
    again.accesses.sample(8)
    site.pass_seconds(100)

    async def read_again() -> Observations | None:
        node = await again.node_by_id(site.it)
        assert node is not None
        await again.get(node, partition_of(b"a"), b"a", await again.now())
        return await again.accesses.ages.read(site.it)

    after = site.run(read_again())
    assert after is not None and (after.since, after.created) == (before.since, 1)
    assert (after.reads[LAST_WRITE].count, after.reads[LAST_WRITE].longest) == (4, 130 * SECOND)
    # Two processes add to one row.
    read(site, b"a")
    for ages in (again.accesses.ages, site.engine.accesses.ages):
        site.run(ages.flush())
    assert seen().reads[LAST_WRITE].count == 5
    again.evaluators.close()


def test_nothing_new_writes_nothing(site: Site, seen: Callable[..., Observations]) -> None:
    durable(site)
    site.write(create(b"a", b"v"))
    ages = site.engine.accesses.ages
    site.run(ages.flush())
    version = site.engine.catalog_version
    site.run(ages.flush())
    site.run(ages.flush())
    assert site.engine.catalog_version == version
    assert ages.uses == {}, "a container without accesses leaves its place"


def test_rows_go_with_their_container(site: Site, seen: Callable[..., Observations]) -> None:
    durable(site)
    gone = site.container("gone")
    for container in (site.it, gone):
        site.write(create(b"a", b"v"), container)
    site.run(site.engine.accesses.ages.flush())

    async def rows() -> list[str]:
        space = await site.engine.node(SPACE)
        assert space is not None
        return [each.name for each in await site.engine.children(space.id)]

    assert site.run(rows()) == [str(site.it), str(gone)]
    site.write(create(b"b", b"v"), gone)
    site.run(site.engine.definitions.drop(gone))
    site.run(site.engine.accesses.ages.flush())
    assert site.run(rows()) == [str(site.it)]


def test_a_full_disk_loses_nothing(
    site: Site, seen: Callable[..., Observations], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    durable(site)
    for container in (site.it, site.container("other")):
        site.write(create(b"a", b"v"), container)
    read(site, b"a")
    before = seen()
    write = AccessAges._write

    async def refuse(self: AccessAges, batch: Any) -> None:
        raise OutOfSpace("the disk is full")

    monkeypatch.setattr(AccessAges, "_write", refuse)
    site.run(site.engine.accesses.ages.flush())
    assert "tried again" in caplog.text
    read(site, b"a")
    monkeypatch.setattr(AccessAges, "_write", write)
    site.run(site.engine.accesses.ages.flush())
    assert (seen().created, seen().reads[LAST_WRITE].count) == (before.created, 2)


def test_a_store_that_does_not_answer_holds_up_no_end(
    site: Site, seen: Callable[..., Observations], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    durable(site)
    site.write(create(b"a", b"v"))

    async def hang(self: AccessAges, batch: Any) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(AccessAges, "_write", hang)
    site.run(site.engine.accesses.ages.finish(0.01))
    assert "could not be written within" in caplog.text


def test_a_row_of_another_version_is_begun_anew(
    site: Site, seen: Callable[..., Observations], monkeypatch: pytest.MonkeyPatch
) -> None:
    durable(site)
    site.write(create(b"a", b"v"))
    read(site, b"a")
    ages = site.engine.accesses.ages
    site.run(ages.flush())
    assert seen().reads[LAST_WRITE].count == 1
    with monkeypatch.context() as patch:
        patch.setattr(access_ages, "RUNGS", RUNGS[1:])
        assert seen() is None
        read(site, b"a")
        site.run(ages.flush())
    assert (seen().reads[LAST_WRITE].count, seen().created) == (1, 0)


def test_a_reset_forgets(site: Site, seen: Callable[..., Observations]) -> None:
    site.write(create(b"a", b"v"))
    site.run(site.engine.accesses.ages.flush())
    read(site, b"a")
    site.run(site.engine.reset())
    assert site.engine.accesses.ages.uses == {}
