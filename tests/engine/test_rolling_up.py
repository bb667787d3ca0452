"""Rolling up: no expired record is missing in its aggregate, or in it twice, on every store, in whatever way it expires."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from engine.site import RULES, Site, command, delete, draft, partition_of
from mayflydb.engine.building import IndexRequest
from mayflydb.engine.catalog import Definition, Node
from mayflydb.engine.commands import Command, Draft, Mode
from mayflydb.engine.lifecycle.rolling_up import RollUpHeld
from mayflydb.engine.snapshot import Snapshot
from mayflydb.engine.workspace import Workspace
from mayflydb.expiry.lifecycle import HeldRollUp
from mayflydb.expiry.roll_up import Aggregate, Arithmetic, GroupMember, GroupTally, Reading, RollUp, add_tally
from mayflydb.expiry.rules import default_rule
from mayflydb.expiry.sweep import PurgeRequest
from mayflydb.model.errors import BadRequest, Conflict, MayflyError, WriteConflict
from mayflydb.model.instant import SECOND
from mayflydb.model.order import Order
from mayflydb.model.record import Record
from mayflydb.store.interface import Decision, Outcome, Scan

TENANTS = (b"a", b"b", b"c")
STEPS = 120


def amount_of(value: bytes) -> int:
    """A value is `unique word|tenant|amount`, that of a total `|tenant|amount|count`."""
    return int(value.split(b"|")[2])


class SitePlan:
    """The roll-up of the site's protocol."""

    arithmetic = Arithmetic()

    def __init__(self, roll_up: RollUp, source: Node, target: Node) -> None:
        self.roll_up = roll_up
        self.refusal: MayflyError | None = None

    def read(self, record: Record, deadline: int) -> Reading:
        tenant = record.value.split(b"|")[1]
        return Reading(tenant, tenant, (amount_of(record.value),))

    def write(self, space: Workspace, tally: GroupTally) -> Generator[Any, Any, None]:
        def merge(before: Record | None) -> Draft:
            parts = [b"", b"", b"0", b"0"] if before is None else before.value.split(b"|")
            present: Mapping[str, int] = {"n": int(parts[3]), "sum": int(parts[2])}
            found = add_tally(self.roll_up, tally, present, lambda name, value: value, self.arithmetic)
            if found["sum"] > 10**6:
                raise Conflict("the sum is too large")
            return draft(tally.group, b"|%s|%d|%d" % (tally.group, found["sum"], found["n"]))

        yield from space.run(Command(Mode.UPSERT, partition_of(tally.group), tally.group, merge))


def rolls(site: Site, source: int, into: int, name: str) -> None:
    """Have a container rolled up into another."""
    site.engine.reaper.roll_ups.planners = {"site": SitePlan}
    roll_up = RollUp(
        into,
        ("site", "home", name),
        (GroupMember("tenant", ("tenant",)),),
        (Aggregate("sum", "sum", ("amount",)),),
        "n",
    )
    change = {"roll_up": roll_up}
    site.run(
        site.engine.definitions.change_lifecycle(
            source, lambda lifecycle: msgspec.structs.replace(lifecycle, **change), site.now
        )
    )


class Ledger:
    """A container of amounts that is rolled up, and what it must amount to with its totals."""

    def __init__(self, site: Site, life: int | None = None) -> None:
        self.site, self.expected = site, 0
        self.home = site.run(site.engine.definitions.create(site.home, "home", Definition({}, site.now))).id
        self.source, self.totals = self.make("source"), self.make("totals", life)
        rolls(site, self.source, self.totals, "totals")

    def make(self, name: str, life: int | None = None) -> int:
        rules = RULES if life is None else (default_rule(life),)
        definition = Definition({}, self.site.now, rules=rules, history=3600 * SECOND)
        return self.site.run(self.site.engine.definitions.create(self.home, name, definition)).id

    def put(self, key: bytes, tenant: bytes, amount: int, life: int | None = None, word: bytes = b"") -> None:
        before = self.visible().get(key)
        value = b"%s|%s|%d" % (word or key, tenant, amount)
        self.site.write(command(Mode.UPSERT, key, value, life), self.source)
        self.expected += amount - (0 if before is None else amount_of(before))

    def delete(self, key: bytes) -> None:
        before = self.visible().get(key)
        if before is not None:
            self.site.write(delete(key), self.source)
            self.expected -= amount_of(before)

    def visible(self) -> dict[bytes, bytes]:
        return self.site.values(self.source)

    def stored(self, container: int) -> list[Record]:
        scan = Scan(container, b"", None, Order.CREATED, None, 1000)
        return self.site.run(self.site.engine.store.read(scan))

    def sweep(self) -> None:
        self.purge()

    def purge(self) -> int:
        request = PurgeRequest(self.site.now, self.site.now, "run now", override="all")
        return self.site.run(self.site.engine.reaper.sweep_due(request)).total()

    def sum(self, *containers: int) -> int:
        return sum(amount_of(record.value) for each in containers for record in self.stored(each))

    def check(self, *more: int) -> None:
        """All stored amounts, hidden ones too, and all totals amount to what was written."""
        assert self.sum(self.source, self.totals, *more) == self.expected

    def held(self) -> HeldRollUp | None:
        return self.site.node(self.source).definition.held_roll_up


Choice = Callable[[], None]


def play(ledger: Ledger, chance: random.Random, *more: Choice) -> None:
    """One step of a random history."""
    site = ledger.site
    key = b"%d" % chance.randrange(12)
    choices: list[Choice] = [
        lambda: ledger.put(key, chance.choice(TENANTS), chance.randrange(-50, 100), chance.choice((None, 5, 20))),
        lambda: ledger.delete(key),
        lambda: site.pass_seconds(chance.randrange(12)),
        ledger.sweep,
        *more,
    ]
    chance.choices(choices, [6, 1, 3, 2, *[2] * len(more)])[0]()


def test_amounts_are_conserved(site: Site, seed: int) -> None:
    ledger, chance = Ledger(site), random.Random(seed)
    for _ in range(STEPS):
        play(ledger, chance)
        ledger.check()
    site.pass_seconds(100)
    ledger.purge()
    ledger.check()
    assert all(record.override is None for record in ledger.stored(ledger.source))


def test_amounts_are_conserved_by_decisions_that_run_twice(
    site: Site, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, chance = Ledger(site), random.Random(seed)
    write = site.engine.store.write

    def write_again(decide: Callable[[], Decision[Any]], *urgency: Any) -> Any:
        def twice() -> Decision[Any]:
            yield from decide()
            outcome: Outcome[Any] = yield from decide()
            return outcome

        return write(twice, *urgency)

    monkeypatch.setattr(site.engine.store, "write", write_again, raising=False)
    for _ in range(STEPS // 2):
        play(ledger, chance)
        ledger.check()


def test_amounts_are_conserved_beside_open_transactions(site: Site, seed: int) -> None:
    """Transactions write totals and amounts, and commit, fail or are given up at any time."""
    ledger, chance = Ledger(site), random.Random(seed)
    open_now: list[tuple[Snapshot, int]] = []

    def begin() -> None:
        snapshot = site.run(Snapshot.begin(site.engine, site.now, [ledger.home], exclusive=True))
        tenant, key = chance.choice(TENANTS), b"t%d" % chance.randrange(3)
        bonus = chance.randrange(1, 9)

        def merge(before: Record | None) -> Draft:
            parts = [b"", b"", b"0", b"0"] if before is None else before.value.split(b"|")
            return draft(tenant, b"|%s|%d|%s" % (tenant, int(parts[2]) + bonus, parts[3]))

        try:
            total = Command(Mode.UPSERT, partition_of(tenant), tenant, merge)
            site.run(snapshot.run(ledger.totals, total))
            new = command(Mode.CREATE, key, b"%s|%s|%d" % (key, tenant, 7), 5)
            site.run(snapshot.run(ledger.source, new))
        except MayflyError:
            snapshot.close()
            return
        open_now.append((snapshot, bonus + 7))

    def end() -> None:
        if not open_now:
            return
        snapshot, amount = open_now.pop(chance.randrange(len(open_now)))
        if chance.random() < 0.7:
            with suppress(WriteConflict, Conflict):
                site.run(snapshot.commit(site.now))
                ledger.expected += amount
        snapshot.close()

    for _ in range(STEPS):
        # A plain write would wait for the open transaction that has locked its total.
        if open_now:
            chance.choice((end, lambda: site.pass_seconds(3), ledger.sweep, begin))()
        else:
            play(ledger, chance, begin)
        ledger.check()
    while open_now:
        end()
    site.pass_seconds(100)
    ledger.purge()
    ledger.check()
    assert ledger.visible() == {k: v for k, v in ledger.visible().items() if not k.startswith(b"t")}


def test_a_locked_total_lets_the_purge_wait_and_go_on(site: Site) -> None:
    ledger = Ledger(site)
    ledger.put(b"0", b"a", 5, 10)
    snapshot = site.run(Snapshot.begin(site.engine, site.now, [ledger.home], exclusive=True))
    site.run(snapshot.run(ledger.totals, Command(Mode.UPSERT, partition_of(b"a"), b"a", draft(b"a", b"|a|1|0"))))
    site.pass_seconds(10)
    assert (ledger.purge(), ledger.visible(), ledger.held()) == (0, {}, None)
    site.run(snapshot.commit(site.now))
    snapshot.close()
    assert (ledger.purge(), ledger.sum(ledger.totals)) == (1, 6)


def test_a_refusal_holds_the_purge_once_and_shows_it(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    ledger = Ledger(site)
    ledger.put(b"0", b"a", 10**6 + 1, 10)
    ledger.put(b"1", b"b", 1, 10)
    site.pass_seconds(10)
    assert [ledger.purge() for _ in range(3)] == [0, 0, 0]
    assert ledger.held() == HeldRollUp(site.now, "the sum is too large")
    assert [record.message for record in caplog.records].count(caplog.records[0].message) == len(caplog.records) == 1
    with pytest.raises(RollUpHeld, match="the sum is too large"):
        ledger.put(b"0", b"a", 1)
    ledger.check()
    site.write(command(Mode.UPSERT, b"a", b"|a|-100|0"), ledger.totals)
    ledger.expected -= 100
    assert (ledger.purge(), ledger.held()) == (2, None)
    ledger.check()


def test_a_plan_that_does_not_fit_any_more_holds_the_purge(site: Site) -> None:
    ledger = Ledger(site)
    ledger.put(b"0", b"a", 5, 10)

    def refuse(*_: object) -> SitePlan:
        raise BadRequest("the column is gone")

    site.engine.reaper.roll_ups.planners = {"site": refuse}
    site.pass_seconds(10)
    assert ledger.purge() == 0
    held = ledger.held()
    assert held is not None
    assert held.reason == "the column is gone"
    site.run(
        site.engine.definitions.change_lifecycle(
            ledger.source, lambda old: msgspec.structs.replace(old, roll_up=None), 0
        )
    )
    assert (ledger.held(), ledger.purge()) == (None, 1)


def test_a_target_is_found_again_by_its_name(site: Site) -> None:
    ledger = Ledger(site)
    ledger.put(b"0", b"a", 5, 10)
    site.run(site.engine.definitions.drop(ledger.totals))
    site.pass_seconds(10)
    assert ledger.purge() == 0
    ledger.totals = ledger.make("totals")
    space = site.node(site.home)
    assert space.name == "site"
    assert ledger.purge() == 1
    ledger.check()


def test_totals_with_a_life_are_rolled_up_in_their_turn(site: Site, seed: int) -> None:
    """Totals of totals: a total that makes room for a new one is rolled up by the same transaction."""
    ledger, chance = Ledger(site, life=30), random.Random(seed)
    grand = ledger.make("grand")
    rolls(site, ledger.totals, grand, "grand")
    for _ in range(STEPS):
        play(ledger, chance)
        ledger.check(grand)
    ledger.put(b"0", b"a", 5, 5)
    for _ in range(2):
        site.pass_seconds(50)
        ledger.purge()
    ledger.check(grand)
    assert ledger.stored(grand) and not ledger.stored(ledger.totals)


def test_the_reaper_learns_of_the_deadlines_of_totals(site: Site) -> None:
    ledger = Ledger(site, life=30)
    ledger.put(b"0", b"a", 5, 10)
    site.pass_seconds(10)
    assert ledger.purge() == 1
    assert site.run(site.engine.reaper.next_deadline()) == site.now + 30 * SECOND
    site.pass_seconds(30)
    assert ledger.purge() == 1


def test_a_hidden_rival_of_a_new_unique_index_is_rolled_up(site: Site) -> None:
    ledger = Ledger(site)
    ledger.put(b"0", b"a", 5, 10, word=b"w")
    site.pass_seconds(10)
    ledger.put(b"1", b"b", 7, word=b"w")
    unique = IndexRequest(unique=True, spec={"field": 0})
    keys = lambda record, index: (record.value.split(b"|")[0],)  # noqa: E731
    site.run(site.engine.indexes.define_and_build(ledger.source, lambda _: (unique,), keys))
    assert ledger.sum(ledger.totals) == 5
    ledger.check()


def test_a_snapshot_reads_the_total_as_it_was(site: Site) -> None:
    ledger = Ledger(site)
    site.write(command(Mode.UPSERT, b"a", b"|a|1|1"), ledger.totals)
    ledger.put(b"0", b"a", 5, 10)
    snapshot = site.run(Snapshot.begin(site.engine, site.now, [ledger.home]))
    site.pass_seconds(10)
    assert ledger.purge() == 1
    found = site.run(snapshot.get(ledger.totals, partition_of(b"a"), b"a"))
    assert found is not None
    assert (found.value, ledger.sum(ledger.totals)) == (b"|a|1|1", 6)
    snapshot.close()
