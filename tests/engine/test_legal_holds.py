"""Legal holds: what matches is preserved when it leaves its container, until the hold is released, on every store."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from engine.site import Site, command, create, delete, draft, partition_of, replace, upsert
from mayflydb.engine.building import IndexRequest
from mayflydb.engine.catalog import Definition, Node
from mayflydb.engine.commands import Command, Mode
from mayflydb.engine.count_budget import Allowance, CountBudget
from mayflydb.engine.lifecycle import hold_filters
from mayflydb.engine.lifecycle.hold_counts import Matching
from mayflydb.engine.lifecycle.hold_filters import LARGEST, Matches
from mayflydb.engine.lifecycle.hold_record import HoldLine
from mayflydb.engine.lifecycle.preserved_versions import PreservedVersion
from mayflydb.engine.snapshot import Snapshot
from mayflydb.expiry.legal_hold import MOST, RELEASED, LegalHold
from mayflydb.expiry.rules import default_rule, index_rule
from mayflydb.expiry.sweep import PurgeRequest
from mayflydb.model.errors import BadRequest, Conflict, Held, NotFound
from mayflydb.model.instant import SECOND
from mayflydb.model.record import Expiry, Kind, Record
from mayflydb.store.interface import Expiries

SLOT = 20
HISTORY = 3600 * SECOND


class Language:
    """Filters of the engine's tests: a word that a value has; `broken` fails, and `wrong` is not compiled."""

    def record_reader(self, container: object) -> Callable[[Record], Any]:
        return lambda record: record.value

    def compile_condition(self, container: object, text: str) -> Callable[[Any], bool]:
        if text == "wrong":
            raise BadRequest("no condition")

        def has(value: bytes) -> bool:
            if text == "broken":
                raise ValueError("a filter with a bug")
            return text.encode() in value

        return has


@pytest.fixture(autouse=True)
def language(site: Site) -> None:
    site.engine.nodes.hold_filters.use({"site": Language()})


def container_of(site: Site, name: str = "kept", **more: Any) -> int:
    definition = Definition(
        {}, site.now, rules=(default_rule(100), index_rule(50, SLOT, True)), history=HISTORY, **more
    )
    return site.run(site.engine.definitions.create(site.home, name, definition)).id


def node(site: Site, container: int) -> Node:
    found = site.run(site.engine.node_by_id(container))
    assert found is not None
    return found


def hold(site: Site, container: int, name: str = "h", where: str | None = "key", **more: Any) -> LegalHold:
    wanted = LegalHold(0, name, "site", "a case", "Ada", site.now, where, **more)
    return site.run(site.engine.holds.add(container, "site:it", wanted))


def preserved(site: Site, container: int) -> list[PreservedVersion]:
    return site.run(site.engine.holds.page(node(site, container), 0, 1000))


def left(site: Site, container: int) -> list[tuple[str, bytes]]:
    """(end, value) of what is preserved."""
    return [(each.version.end, each.version.record.value) for each in preserved(site, container)]


def release(site: Site, name: str = "h") -> tuple[int, int]:
    """Release a hold, wait for its end, and return the numbers of removed and of expired versions."""

    async def work() -> tuple[int, int]:
        await site.engine.holds.release(name, "site:it", "over", "Bob", site.now)
        await site.engine.holds.releases.wait(name, None)
        found = site.engine.holds.releases.progress(name)
        assert found is not None and found.is_done
        return found.removed, found.expired

    return site.run(work())


def purge(site: Site) -> int:
    request = PurgeRequest(site.now, site.now, "run now", override="all")
    return site.run(site.engine.reaper.sweep_due(request)).total()


def events(site: Site, container: int) -> list[Expiry]:
    return site.run(site.engine.store.read(Expiries(container, 0, 1000)))


def kinds(site: Site, container: int) -> list[Kind]:
    return [each.kind for each in site.run(site.engine.history(container, 0, 1000))]


# --- filters and ways of leaving -----------------------------------------------------------------------------------------


def expire(site: Site, container: int) -> None:
    site.pass_seconds(100)
    assert purge(site) == 1


def create_again(site: Site, container: int) -> None:
    site.pass_seconds(100)
    site.write(create(b"a", b"new"), container)


def remove(site: Site, container: int) -> None:
    site.write(delete(b"a"), container)


def edit(site: Site, container: int) -> None:
    site.write(replace(b"a", b"new"), container)


def rename(site: Site, container: int) -> None:
    site.write(msgspec.structs.replace(command(Mode.REPLACE, b"a", b"new"), renamed=b"c"), container)


WAYS = [(expire, "expired"), (create_again, "expired"), (remove, "deleted"), (edit, "replaced"), (rename, "replaced")]
FILTERS = [("key", True), (None, True), ("broken", True), ("other", False)]


@pytest.mark.parametrize(("where", "is_held"), FILTERS)
@pytest.mark.parametrize(("leave", "end"), WAYS)
def test_what_matches_is_preserved_whole_and_what_does_not_is_gone(
    site: Site, leave: Callable[[Site, int], None], end: str, where: str | None, is_held: bool
) -> None:
    container = container_of(site)
    new = msgspec.structs.replace(draft(b"a", b"key"), dates=((SLOT, site.now + 50 * SECOND),))
    before = site.write(Command(Mode.CREATE, partition_of(b"a"), b"a", new), container).record
    found = hold(site, container, where=where)
    leave(site, container)
    undecided = (found.number,) if where == "broken" else ()
    if is_held:
        (kept,) = preserved(site, container)
        assert (kept.version.record, kept.version.end, kept.version.ended) == (before, end, site.now)
        assert kept.matches == Matches((found.number,), undecided)
        assert (kept.cause is not None) == (end == "expired")
    else:
        assert preserved(site, container) == []
    # A client sees the same with a hold and without.
    assert len(events(site, container)) == int(end == "expired" and not is_held)
    assert (b"a" in site.values(container)) == (leave in (create_again, edit))
    assert {"expired": Kind.EXPIRE, "deleted": Kind.DELETE, "replaced": Kind.REPLACE}[end] in kinds(site, container)


def test_the_rival_of_a_unique_value_is_preserved(site: Site) -> None:
    site.build(IndexRequest((), True, {"field": 0}))
    site.write(create(b"a", b"key", 100))
    hold(site, site.it)
    site.pass_seconds(100)
    site.write(create(b"b", b"key"))
    assert left(site, site.it) == [("expired", b"key")]
    assert events(site, site.it) == []


def test_edits_are_not_preserved_without_versions_but_those_that_end_the_match(site: Site) -> None:
    container = container_of(site)
    hold(site, container, versions=False)
    site.write(create(b"a", b"key 1"), container)
    for value in (b"key 2", b"other", b"third", b"key 4"):
        site.write(upsert(b"a", value), container)
    assert left(site, container) == [("replaced", b"key 2")]
    site.write(delete(b"a"), container)
    assert left(site, container)[1:] == [("deleted", b"key 4")]


def test_a_record_above_the_bytes_that_are_looked_into_is_held(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    assert LARGEST == 256 << 10
    monkeypatch.setattr(hold_filters, "LARGEST", 8)
    container = container_of(site)
    found = hold(site, container)
    for key, value in ((b"a", b"12345678"), (b"b", b"123456789")):
        site.write(create(key, value), container)
        site.write(delete(key), container)
    assert [(each.version.record.key, each.matches) for each in preserved(site, container)] == [
        (b"b", Matches((found.number,), (found.number,)))
    ]


def test_a_hold_applies_to_what_leaves_from_its_commit_on(site: Site) -> None:
    container = container_of(site)
    for key in (b"a", b"b"):
        site.write(create(key, b"key"), container)
    site.write(delete(b"b"), container)
    site.pass_seconds(100)
    # Hidden already, and not yet purged.
    hold(site, container)
    purge(site)
    assert left(site, container) == [("expired", b"key")]


def test_nothing_is_purged_before_the_language_of_a_hold_is_there(site: Site) -> None:
    container = container_of(site)
    site.write(create(b"a", b"other"), container)
    hold(site, container)
    site.pass_seconds(100)
    site.engine.nodes.hold_filters.use({})
    assert purge(site) == 0
    site.engine.nodes.hold_filters.use({"site": Language()})
    assert (purge(site), preserved(site, container)) == (1, [])


def test_a_snapshot_still_reads_what_is_preserved(site: Site) -> None:
    container = container_of(site)
    before = site.write(create(b"a", b"key"), container).record
    hold(site, container)
    snapshot = site.run(Snapshot.begin(site.engine, site.now, [site.home]))
    site.pass_seconds(100)
    assert purge(site) == 1
    assert site.run(snapshot.get(container, before.partition, b"a")) == before


# --- releases ------------------------------------------------------------------------------------------------------------


def test_a_release_removes_what_is_preserved_with_one_event_for_each_expiry(site: Site) -> None:
    container = container_of(site)
    hold(site, container)
    site.write(create(b"a", b"key"), container)
    site.write(create(b"b", b"key", 30), container)
    site.write(create(b"c", b"key"), container)
    site.write(delete(b"c"), container)
    began = site.now
    site.pass_seconds(100)
    purge(site)
    told = kinds(site, container)
    site.pass_seconds(50)
    assert (len(preserved(site, container)), events(site, container)) == (3, [])
    assert release(site) == (3, 2)
    found = events(site, container)
    assert sorted((e.key, e.cause, e.deadline - began, e.purged - began, e.how) for e in found) == [
        (b"a", "default", 100 * SECOND, 150 * SECOND, RELEASED),
        (b"b", "item", 30 * SECOND, 150 * SECOND, RELEASED),
    ]
    assert preserved(site, container) == []
    # Histories told the removals when the records left.
    assert kinds(site, container) == told
    assert node(site, container).definition.holds == ()
    with pytest.raises(NotFound):
        site.run(site.engine.holds.find("h"))


def test_what_another_hold_preserves_stays(site: Site) -> None:
    container = container_of(site)
    hold(site, container, "one", "key")
    hold(site, container, "two", "x")
    for key, value in ((b"a", b"key"), (b"b", b"x"), (b"c", b"key x")):
        site.write(create(key, value), container)
        site.write(delete(key), container)
    assert release(site, "one") == (1, 0)
    # The name is free; what is left belongs to no hold of that name.
    again = hold(site, container, "one", "key")
    assert [again.number in each.matches.holds for each in preserved(site, container)] == [False, False]
    assert release(site, "two") == (2, 0)


def test_the_image_of_an_expiry_goes_with_its_event(site: Site) -> None:
    container = container_of(site)
    site.run(
        site.engine.definitions.change_lifecycle(
            container, lambda lifecycle: msgspec.structs.replace(lifecycle, last_image=50), site.now
        )
    )
    hold(site, container)
    before = site.write(create(b"a", b"key"), container).record
    site.pass_seconds(200)
    purge(site)
    release(site)
    (event,) = events(site, container)
    assert site.run(site.engine.reaper.events.last_image(node(site, container), event)) == before


def test_a_release_that_is_cut_short_goes_on_at_the_next_start(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    container = container_of(site)
    hold(site, container)
    for number in range(10):
        site.write(create(b"%d" % number, b"key"), container)
    site.pass_seconds(100)
    assert purge(site) == 10
    releases = site.engine.holds.releases
    monkeypatch.setattr(releases, "_batch", 3)

    async def cut() -> None:
        # As a process that ends behind the commit of the second batch.
        monkeypatch.setattr(releases, "start", lambda container, name: None)
        await site.engine.holds.release("h", "site:it", "over", "Bob", site.now)
        monkeypatch.undo()
        monkeypatch.setattr(releases, "_batch", 3)
        step = await releases._take_batch(container, "h", 0)
        await releases._take_batch(container, "h", step.after or 0)

    site.run(cut())
    assert (len(preserved(site, container)), len(events(site, container))) == (4, 6)
    with pytest.raises(Held):
        site.run(site.engine.definitions.drop(container))
    with pytest.raises(Conflict):
        release(site)
    # What leaves meanwhile is under no hold.
    site.write(create(b"late", b"key"), container)
    site.write(delete(b"late"), container)

    async def resume() -> None:
        await releases.resume()
        await releases.wait("h", None)

    site.run(resume())
    assert (preserved(site, container), len(events(site, container))) == ([], 10)
    assert len({each.key for each in events(site, container)}) == 10


@pytest.mark.parametrize(("where", "least", "most"), [("key", 20, 80), ("none", 0, 0), ("broken", 100, 100)])
def test_a_dry_run_counts_or_estimates_what_matches(site: Site, where: str, least: int, most: int) -> None:
    container = container_of(site)
    for number in range(100):
        site.write(create(b"%d" % number, b"key" if number % 2 else b"other"), container)
    wanted = LegalHold(0, "h", "site", "a case", "Ada", site.now, where)

    def count(read: int) -> Matching:
        allowance = Allowance(CountBudget(read=read, sample=20))
        work = site.engine.holds.count_matching(node(site, container), wanted, Language(), allowance)
        return site.run(work)

    assert count(100) == Matching({"key": 50, "none": 0, "broken": 100}[where], True)
    estimated = count(99)
    assert (least <= estimated.records <= most, estimated.is_exact) == (True, False)


# --- refusals and the record ---------------------------------------------------------------------------------------------


def test_what_is_under_a_hold_is_not_dropped(site: Site) -> None:
    database = site.run(site.engine.definitions.create(site.home, "db", Definition({}, site.now))).id
    container = site.run(site.engine.definitions.create(database, "c", Definition({}, site.now))).id
    other = site.run(site.engine.definitions.create(database, "other", Definition({}, site.now))).id
    hold(site, container, "case-7")
    drops = [
        site.engine.definitions.drop(container),
        site.engine.definitions.drop(database),
        site.engine.definitions.move(other, database, "c", container),
        site.engine.definitions.transact(lambda catalog: catalog.drop(database)),
        site.engine.holds.refuse_reset(),
    ]
    for drop in drops:
        with pytest.raises(Held, match="c is under the legal hold case-7"):
            site.run(drop)
    site.run(site.engine.definitions.drop(other))
    home = node(site, container).definition.preserved
    assert home is not None
    release(site, "case-7")
    site.run(site.engine.definitions.drop(container))
    # What preserved it is dropped with it.
    assert site.run(site.engine.node_by_id(home)) is None


def test_names_and_numbers_of_holds_have_limits(site: Site) -> None:
    container = container_of(site)
    for number in range(MOST):
        hold(site, container, f"h{number}")
    with pytest.raises(Conflict, match="50 holds"):
        hold(site, container, "one more")
    with pytest.raises(Conflict, match="there is a hold h7"):
        hold(site, container_of(site, "another"), "h7")
    with pytest.raises(NotFound):
        hold(site, container + 1000, "lost")


def test_the_record_of_holds_stays(site: Site) -> None:
    container = container_of(site)
    added = hold(site, container, "case", where="key", matter="7/2030")
    site.pass_seconds(5)
    release(site, "case")
    site.run(site.engine.definitions.drop(container))
    lines = [line for _, line in site.run(site.engine.holds.lines(0, 10)) if line.hold == added.number]
    assert lines == [
        HoldLine("added", added.number, "case", "site:it", site.now - 5 * SECOND, "Ada", "a case", "7/2030", "key"),
        HoldLine("released", added.number, "case", "site:it", site.now, "Bob", "over", "7/2030"),
    ]


# --- random histories ----------------------------------------------------------------------------------------------------


Place = tuple[bytes, int]
"""The key and the lsn of a version."""


WHERE = {"one": "x", "two": "y"}
"""The filters of random holds, by name."""


class RandomHistory:
    """Random writes, deletes, purges, holds and releases in one container, and what has to be preserved after each of them."""

    def __init__(self, site: Site, chance: random.Random) -> None:
        self.site, self.chance = site, chance
        self.container = container_of(site)
        self.numbers: dict[str, int] = {}
        self.stored: dict[bytes, Record] = {}
        self.expected: dict[Place, set[str]] = {}
        self.waiting: set[Place] = set()
        self.published: list[Place] = []

    def step(self) -> None:
        steps = [self.write] * 8 + [self.remove] * 3 + [self.sweep] * 2 + [self.toggle, self.move, self.move, self.move]
        self.chance.choice(steps)(b"k%d" % self.chance.randrange(6))

    def write(self, key: bytes) -> None:
        value, before = bytes(self.chance.choices(b"xyz ", k=3)), self.stored.get(key)
        written = self.site.write(upsert(key, value, self.chance.choice((None, 5, 200))), self.container).record
        if before is not None:
            self.leave(before, "expired" if self.is_hidden(before) else "replaced")
        self.stored[key] = written

    def remove(self, key: bytes) -> None:
        record = self.stored.get(key)
        if record is not None and not self.is_hidden(record):
            self.site.write(delete(key), self.container)
            self.leave(self.stored.pop(key), "deleted")

    def sweep(self, key: bytes) -> None:
        purge(self.site)
        for hidden in [each for each, record in self.stored.items() if self.is_hidden(record)]:
            self.leave(self.stored.pop(hidden), "expired")

    def move(self, key: bytes) -> None:
        self.site.pass_seconds(self.chance.randrange(40))

    def toggle(self, key: bytes) -> None:
        name = self.chance.choice(("one", "two"))
        if name in self.numbers:
            self.end(name)
        else:
            self.numbers[name] = hold(self.site, self.container, name, WHERE[name]).number

    def end(self, name: str) -> None:
        release(self.site, name)
        del self.numbers[name]
        for place, names in list(self.expected.items()):
            names.discard(name)
            if not names:
                del self.expected[place]
                if place in self.waiting:
                    self.waiting.remove(place)
                    self.published.append(place)

    def leave(self, record: Record, how: str) -> None:
        names = {name for name in self.numbers if WHERE[name].encode() in record.value}
        place = record.key, record.lsn
        if names:
            self.expected[place] = names
            self.waiting |= {place} if how == "expired" else set()
        elif how == "expired":
            self.published.append(place)

    def is_hidden(self, record: Record) -> bool:
        life = 100 if record.override is None else record.override
        return (record.anchor or 0) + life * SECOND <= self.site.now

    def found(self) -> dict[Place, set[str]]:
        names = {number: name for name, number in self.numbers.items()}
        return {
            (each.version.record.key, each.version.record.lsn): {
                names[number] for number in each.matches.holds if number in names
            }
            for each in preserved(self.site, self.container)
        }


def test_no_version_that_matched_is_lost(site: Site, seed: int) -> None:
    """Each version that a hold matched as it left is preserved until the release, and gone after it, with its event."""
    history = RandomHistory(site, random.Random(seed))
    for _ in range(150):
        history.step()
        assert history.found() == history.expected
    for name in list(history.numbers):
        history.end(name)
    assert preserved(site, history.container) == []
    told = [(each.key, each.version) for each in events(site, history.container)]
    assert sorted(told) == sorted(history.published)
