"""Containers with a schedule of their own: when their rows go, by the clock that a test holds."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from engine.site import Site
from mayflydb.engine import version_cache
from mayflydb.engine.catalog import Definition, Node, Run
from mayflydb.engine.clock_mover import ClockMover, SweepMode
from mayflydb.engine.commands import Command, Draft, Mode
from mayflydb.engine.dates import with_slot
from mayflydb.engine.lifecycle.guard import Pass
from mayflydb.engine.runs import last_run, next_run
from mayflydb.engine.scans import Scope
from mayflydb.engine.snapshot import Snapshot
from mayflydb.expiry.passes import end_schedule, following
from mayflydb.expiry.rules import Rule
from mayflydb.expiry.sweep import Limits, PurgeRequest, Sweep
from mayflydb.model.errors import Corrupt, NotFound, WriteConflict
from mayflydb.model.instant import SECOND
from mayflydb.store.interface import Expiries

START = 1_000
"""Seconds at which the clock stands at first; the next full minute is 1020."""


class Tables:
    """Containers with a TTL column at a site, at instants in seconds."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.clock_mover = ClockMover(site.engine, site.clock)
        self.ids: list[int] = []
        self.slots: dict[int, int] = {}

    def table(self, after: int = 10, interval: int = 3600, hides: bool = False, scheduled: bool = True) -> int:
        definition, slot = with_slot(Definition({}, self.site.now))
        rule = Rule("column", after, hides=hides, slot=slot, passes=True)
        schedule = following(None, interval * SECOND, self.site.now) if scheduled else None
        definition = msgspec.structs.replace(definition, rules=(rule,), schedule=schedule)
        create = self.site.engine.definitions.create(self.site.home, f"t{len(self.ids)}", definition)
        self.ids.append(self.site.run(create).id)
        self.slots[self.ids[-1]] = slot
        return self.ids[-1]

    def put(self, table: int, key: bytes, at: int | None) -> None:
        dates = () if at is None else ((self.slots[table], at * SECOND),)
        self.site.write(Command(Mode.UPSERT, b"p" * 9, key, Draft(key, dates=dates)), table)

    def alter(self, table: int, after: int | None, interval: int = 3600) -> None:
        def change(node: Node) -> Definition:
            before = node.definition
            if after is None:
                assert before.schedule is not None
                schedule = end_schedule(before.schedule, self.site.now)
                return msgspec.structs.replace(before, rules=(), schedule=schedule)
            rule = Rule("column", after, slot=self.slots[table], passes=True)
            schedule = following(before.schedule, interval * SECOND, self.site.now)
            return msgspec.structs.replace(before, rules=(rule,), schedule=schedule)

        self.site.run(self.site.engine.definitions.replace(table, change, self.site.now))

    def advance(self, seconds: int, sweep: SweepMode = "scheduled") -> dict[int, int]:
        nodes = [self.site.node(table) for table in self.ids]
        return self.site.run(self.clock_mover.advance(seconds * SECOND, nodes, sweep)).purged

    def keys(self, table: int) -> list[bytes]:
        return sorted(self.site.values(table))

    def deaths(self) -> list[tuple[bytes, int, int, str]]:
        """(key, deadline, purged, how)"""
        events = self.site.run(self.site.engine.store.read(Expiries(None, 0, 1000)))
        return [(each.key, each.deadline // SECOND, each.purged // SECOND, each.how) for each in events]

    def last(self, table: int) -> tuple[int, int] | None:
        """(instant, erased) of the last run."""
        run = last_run(self.site.node(table).definition, self.site.now, 0)
        return None if run is None else (run.instant // SECOND, run.erased)

    def next(self, table: int) -> int | None:
        ahead = next_run(self.site.node(table).definition, self.site.now)
        return None if ahead is None else ahead // SECOND


@pytest.fixture
def tables(site: Site) -> Tables:
    return Tables(site)


def test_rows_stay_until_the_run(tables: Tables) -> None:
    table = tables.table(after=10)
    for key, at in ((b"a", 1000), (b"b", 1010), (b"c", 1011), (b"d", None), (b"e", 4610)):
        tables.put(table, key, at)
    assert tables.next(table) == 1020
    assert tables.advance(19) == {}
    assert tables.keys(table) == [b"a", b"b", b"c", b"d", b"e"]
    assert tables.last(table) is None
    assert tables.advance(1) == {table: 2}
    assert tables.keys(table) == [b"c", b"d", b"e"]
    assert (tables.last(table), tables.next(table)) == ((1020, 2), 4620)
    assert tables.advance(3599) == {}
    assert tables.keys(table) == [b"c", b"d", b"e"]
    assert tables.advance(1) == {table: 2}
    assert tables.keys(table) == [b"d"]
    assert tables.deaths() == [
        (b"a", 1010, 1020, "sweep"),
        (b"b", 1020, 1020, "sweep"),
        (b"c", 1021, 4620, "sweep"),
        (b"e", 4620, 4620, "sweep"),
    ]
    assert tables.advance(3600) == {}
    # A run that finds nothing is one all the same.
    assert (tables.last(table), tables.next(table)) == ((8220, 0), 11820)


@pytest.mark.parametrize(
    ("sweep", "left", "last"),
    [("scheduled", [b"b"], (1020, 1)), ("now", [], (1020, 0)), ("none", [b"a", b"b"], (1020, 0))],
)
def test_modes_of_a_walk(tables: Tables, sweep: SweepMode, left: Sequence[bytes], last: tuple[int, int]) -> None:
    """`now` purges what is due at its end, whatever the schedule."""
    table = tables.table(after=10)
    tables.put(table, b"a", 1000)
    tables.put(table, b"b", 1020)
    tables.advance(100, sweep)
    assert tables.keys(table) == left
    assert tables.last(table) == last


def test_others_go_by_the_monitor(tables: Tables) -> None:
    """A walk ends with a pass of the monitor's, and of nobody else."""
    own, other = tables.table(), tables.table(scheduled=False)
    tables.advance(30)
    for table in (own, other):
        tables.put(table, b"a", 1020)
    assert tables.advance(5) == {other: 1}
    assert (tables.keys(own), tables.keys(other)) == ([b"a"], [])


def test_a_long_walk_makes_each_run_at_its_own_instant(tables: Tables) -> None:
    table, other = tables.table(after=0), tables.table(after=0, interval=900)
    for n in range(4):
        tables.put(table, b"%d" % n, 1000 + n * 3600)
        tables.put(other, b"%d" % n, 1000 + n * 1000)
    assert tables.advance(3 * 3600 + 60) == {table: 4, other: 4}
    assert [(key, purged) for key, _, purged, _ in tables.deaths()] == [
        *[(b"0", 1020), (b"0", 1020), (b"1", 2820), (b"2", 3720)],
        *[(b"1", 4620), (b"3", 4620), (b"2", 8220), (b"3", 11820)],
    ]


def test_changes_of_the_rule(tables: Tables) -> None:
    table = tables.table(after=10)
    tables.put(table, b"a", 1000)
    tables.put(table, b"b", 1500)
    tables.advance(30)
    tables.alter(table, after=None)
    assert tables.next(table) is None
    assert tables.advance(1000) == {}
    assert tables.last(table) == (1020, 1)
    tables.alter(table, after=5)
    assert tables.next(table) == 4620
    # A run that is due by another rule is not made up for.
    assert tables.advance(2000) == {}
    tables.alter(table, after=0, interval=900)
    assert tables.next(table) == 4080
    assert tables.advance(60) == {table: 1}
    assert tables.last(table) == (4080, 1)


def test_a_row_that_is_moved_out_of_reach_survives(tables: Tables) -> None:
    table = tables.table(after=10)
    for key in (b"a", b"b", b"c"):
        tables.put(table, key, 1000)
    tables.advance(15)
    tables.put(table, b"a", 1011)
    tables.put(table, b"b", None)
    assert tables.advance(5) == {table: 1}
    assert tables.keys(table) == [b"a", b"b"]


@pytest.mark.parametrize("paused", [None, "purge"])
def test_a_run_on_demand(tables: Tables, paused: str | None) -> None:
    """It ignores interval and pause, and the next one is counted from it."""
    site, table = tables.site, tables.table(after=10)
    tables.advance(40)
    for key, at in ((b"a", 1000), (b"b", 1030), (b"c", 1031)):
        tables.put(table, key, at)
    site.run(site.engine.definitions.pause(table, "purge" if paused else None))
    assert site.run(site.engine.reaper.run_now(table, site.now)) == Run(site.now, 3, 2)
    assert tables.keys(table) == [b"c"]
    assert [how for *_, how in tables.deaths()] == ["run now", "run now"]
    assert tables.last(table) == (1040, 2)
    assert site.run(site.engine.reaper.run_now(table, site.now)) == Run(site.now, 1, 0)
    assert tables.next(table) == (None if paused else 4680)
    assert tables.advance(3639) == {}
    site.run(site.engine.definitions.pause(table, None))
    assert tables.advance(1) == {table: 1}


def test_a_run_on_demand_of_nothing(tables: Tables) -> None:
    site = tables.site
    with pytest.raises(NotFound):
        site.run(site.engine.reaper.run_now(10_000, site.now))


def test_hidden_rows_go_at_the_run(tables: Tables) -> None:
    table = tables.table(after=10, hides=True)
    tables.put(table, b"a", 1015)
    tables.advance(24)
    assert tables.keys(table) == [b"a"]
    assert tables.advance(1) == {}
    assert tables.keys(table) == []
    assert tables.advance(3600) == {table: 1}
    assert tables.deaths() == [(b"a", 1025, 4620, "sweep")]


def test_a_run_that_was_missed_is_made_up_for(tables: Tables) -> None:
    """By a process that was not there at its time: what is due since then waits for the next."""
    site, table = tables.site, tables.table(after=0)
    tables.put(table, b"a", 1020)
    tables.put(table, b"b", 1021)
    site.clock.set(3_000 * SECOND)
    assert site.run(site.engine.reaper.sweep_due(PurgeRequest(site.now, site.now, "sweep"))) == {table: 1}
    assert tables.keys(table) == [b"b"]
    assert tables.last(table) == (1020, 1)
    assert tables.deaths() == [(b"a", 1020, 3000, "sweep")]


def test_one_that_fails_waits_and_others_go_on(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    site, bad, good = tables.site, tables.table(after=0), tables.table(after=0)
    for table in (bad, good):
        tables.put(table, b"a", 1000)
    write, broken = site.engine.store.write, True

    async def failing(decide, urgency="user"):  # type: ignore[no-untyped-def]
        if broken and urgency == "sweep" and (outcome := _first(decide())) == bad:
            raise Corrupt(f"container {outcome} cannot be read")
        return await write(decide, urgency)

    monkeypatch.setattr(site.engine.store, "write", failing)
    site.clock.set(1020 * SECOND)

    def sweep() -> dict[int, int]:
        return dict(site.run(site.engine.reaper.sweep_due(PurgeRequest(site.now, site.now, "sweep"))))

    assert sweep() == {bad: 0, good: 1}
    broken = False
    site.clock.set(1319 * SECOND)
    assert sweep() == {}
    site.clock.set(1320 * SECOND)
    assert sweep() == {bad: 1}


def _first(decision) -> int:  # type: ignore[no-untyped-def]
    """The container that a decision asks for first."""
    container: int = next(decision).id
    return container


def test_a_new_schedule_is_known_to_those_who_write(tables: Tables) -> None:
    """A row that is written after the reaper has looked is purged by the container's schedule, not by the monitor's."""
    site, table = tables.site, tables.table(after=0)
    tables.advance(30)
    tables.put(table, b"a", 1000)
    site.clock.set(1200 * SECOND)
    assert site.run(site.engine.reaper.sweep_due(PurgeRequest(site.now, site.now, "sweep"))) == {}
    site.clock.set(4620 * SECOND)
    assert site.run(site.engine.reaper.sweep_due(PurgeRequest(site.now, site.now, "sweep"))) == {table: 1}


def test_a_fresh_row_does_not_end_a_run(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that is written between two sweeps of a run says nothing about the rows that are left."""
    site, table = tables.site, tables.table(after=0)
    for key in (b"a", b"b", b"c"):
        tables.put(table, key, 1000)
    sweeper = site.engine.reaper._sweeper
    monkeypatch.setattr(sweeper, "limits", Limits(1, None))
    sweep, fresh = sweeper._sweep, iter((b"d", b"e", b"f", b"g"))

    async def sweep_and_write(planned: Sweep, limit: int, request: PurgeRequest, permit: Pass) -> int:
        removed = await sweep(planned, limit, request, permit)
        draft = Draft(b"x", dates=((tables.slots[table], 9_000 * SECOND),))
        await site.engine.write(table, Command(Mode.UPSERT, b"p" * 9, next(fresh), draft), site.now)
        return removed

    monkeypatch.setattr(sweeper, "_sweep", sweep_and_write)
    site.clock.set(1020 * SECOND)
    assert site.run(site.engine.reaper.sweep_due(PurgeRequest(site.now, site.now, "sweep"))) == {table: 3}
    assert tables.last(table) == (1020, 3)


def test_what_is_due_when_it_is_written_waits_for_the_next_run(tables: Tables) -> None:
    table = tables.table(after=0)
    tables.advance(30)
    tables.put(table, b"a", 1000)
    assert tables.advance(3589) == {}
    tables.put(table, b"b", 1000)
    assert tables.advance(1) == {table: 2}
    tables.put(table, b"c", 1000)
    assert tables.advance(3599) == {}
    assert tables.last(table) == (4620, 2)
    assert tables.advance(1) == {table: 1}


@pytest.mark.parametrize("serializable", [True, False])
def test_a_transaction_sees_what_was_purged_after_its_beginning(tables: Tables, serializable: bool) -> None:
    """If it is serializable and has written something, it has to begin anew."""
    site, table = tables.site, tables.table(after=0)
    for n in range(20):
        tables.put(table, b"%02d" % n, 1000 + n % 3)
    snapshot = site.run(Snapshot.begin(site.engine, site.now, [site.home], serializable))
    assert site.run(snapshot.get(table, b"p" * 9, b"07")) is not None
    assert tables.advance(20) == {table: 20}

    async def read() -> list[bytes]:
        return [record.key async for batch in snapshot.scan(table, Scope()) for record in batch.records]

    assert sorted(site.run(read())) == [b"%02d" % n for n in range(20)]
    if serializable:
        site.run(snapshot.run(table, Command(Mode.UPSERT, b"p" * 9, b"new", Draft(b""))))
        with pytest.raises(WriteConflict):
            site.run(snapshot.commit(site.now))
    later = site.run(Snapshot.begin(site.engine, site.now, [site.home], True))
    assert site.run(later.get(table, b"p" * 9, b"07")) is None


def test_one_for_which_too_much_was_purged_ends(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(version_cache, "MAX_PURGED", 3)
    site, table = tables.site, tables.table(after=0)
    snapshots = [site.run(Snapshot.begin(site.engine, site.now, [site.home], each)) for each in (True, False)]
    for n in range(4):
        tables.put(table, b"%02d" % n, 1000)
    tables.advance(20)
    assert site.run(snapshots[1].get(table, b"p" * 9, b"01")) is None
    with pytest.raises(WriteConflict):
        site.run(snapshots[0].get(table, b"p" * 9, b"01"))
