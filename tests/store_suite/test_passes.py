"""Date indexes as MongoDB has them, in the engine, on every store: who dies when, who purges, and what is built and removed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from mayflydb.clock import VirtualClock
from mayflydb.engine.catalog import Definition, Node
from mayflydb.engine.clock_mover import AdvanceResult, ClockMover
from mayflydb.engine.commands import Command, DatesUnder, Draft, Mode
from mayflydb.engine.count_budget import CountBudget
from mayflydb.engine.dates import with_slot, without_slot
from mayflydb.engine.expiry_counts import ExpiryCounts
from mayflydb.engine.open import open_engine
from mayflydb.engine.previews import Preview
from mayflydb.engine.proposals import Proposal
from mayflydb.expiry.explain import explain
from mayflydb.expiry.rules import Rule
from mayflydb.expiry.sweep import PurgeRequest
from mayflydb.model.errors import NotFound, TimedOut
from mayflydb.model.instant import DAY, HOUR, MILLISECOND, MINUTE, SECOND, Instant, from_rfc3339
from mayflydb.model.record import Dates, Expiry, Record
from mayflydb.store.interface import Entries, Expiries, Get, NextDue
from store_suite.subject import Subject

T = 1893456000 * SECOND
SLOT, OTHER = 16, 17
UNIT = MILLISECOND


def dated(after: int, slot: int = SLOT, hides: bool = False, version: int = 1) -> Rule:
    """The rule of a date index."""
    return Rule("index", after, hides=hides, version=version, slot=slot, passes=True)


class Town:
    """An engine over the store under test, with one container of the space whose monitor makes passes."""

    def __init__(self, store: Subject, rules: tuple[Rule, ...] = (), start: Instant = T) -> None:
        self.store, self.run = store, store.run
        self.clock = VirtualClock(start)
        self.engine = self.run(open_engine(store.store, self.clock, monitored="mongo"))
        self.clock_mover = ClockMover(self.engine, self.clock)
        definitions = self.engine.definitions
        space = self.run(definitions.space("mongo", start))
        database = self.run(definitions.create(space.id, "shop", Definition({}, start)))
        self.node = self.run(definitions.create(database.id, "carts", Definition({}, start, rules=rules)))

    def write(self, key: bytes, dates: Dates | DatesUnder = (), own: int | None = None, value: bytes = b"{}") -> Record:
        draft = Draft(value, own, dates=dates)
        now = self.run(self.engine.now())
        return self.run(self.engine.write(self.node.id, Command(Mode.UPSERT, b"p", key, draft), now)).record

    def define(self, change: Callable[[Definition], Definition]) -> Node:
        self.node = self.run(
            self.engine.definitions.replace(self.node.id, lambda node: change(node.definition), self.clock.now())
        )
        return self.node

    def seen(self, key: bytes = b"k") -> bool:
        now = self.run(self.engine.now())
        return self.run(self.engine.get(self.node, b"p", key, now)) is not None

    def stored(self, key: bytes = b"k") -> bool:
        return self.store.read(Get(self.node.id, b"p", key)) is not None

    def walk(self, to: Instant) -> AdvanceResult:
        return self.run(self.clock_mover.walk(to, [self.node], "scheduled"))

    def scheduled(self) -> int:
        """What the reaper's loop purges now, by the schedule."""
        return self.run(self.engine.reaper.sweep_as_scheduled()).total()

    def sweep(self) -> None:
        """A pass now."""
        now = self.run(self.engine.now())
        self.run(self.engine.reaper.sweep_due(PurgeRequest(now, now, "sweep", override="all")))

    def events(self) -> list[Expiry]:
        return self.store.read(Expiries(self.node.id, 0, 100))


BOUNDARIES = [
    ("B5", False, 1893456000 * SECOND, 10, 1893456010 * SECOND),
    ("B6", True, 1893456000 * SECOND, 10, 1893456010 * SECOND),
    ("B12", False, from_rfc3339("9999-12-31T23:59:59.000Z"), 0, 253402300799 * SECOND),
]


@pytest.mark.parametrize(("id", "hides", "date", "after", "deadline"), BOUNDARIES, ids=[row[0] for row in BOUNDARIES])
@pytest.mark.parametrize("moment", [-1, 0, 1])
def test_boundaries(
    store: Subject, id: str, hides: bool, date: Instant, after: int, deadline: Instant, moment: int
) -> None:
    """Read and swept a millisecond before the deadline, at it, and a millisecond later."""
    town = Town(store, (dated(after, hides=hides),), min(T, date))
    town.write(b"k", ((SLOT, date),))
    town.clock.set(deadline + moment * UNIT)
    assert town.seen() is (moment < 0 or not hides)
    town.sweep()
    assert town.stored() is town.seen() is (moment < 0)
    assert [event.deadline for event in town.events()] == [deadline] * (moment >= 0)


INT64 = (2**63 - 1) * MILLISECOND, -(2**63) * MILLISECOND
LAST = from_rfc3339("9999-12-31T23:59:59.999Z")
LIVES: list[tuple[str, tuple[Rule, ...], Dates, Instant | None, int]] = [
    ("MN1", (dated(3600),), ((SLOT, T),), T + 3600 * SECOND, 1),
    ("MN1", (dated(0),), ((SLOT, T),), T, 1),
    ("MN2", (dated(3600),), ((SLOT, from_rfc3339("1969-12-31T00:00:00Z")),), T, 1),
    ("MN2", (dated(3600),), ((SLOT, INT64[1]),), T, 1),
    ("MN3", (dated(3600),), ((SLOT, from_rfc3339("2038-01-19T03:14:08Z")),), (2**31 + 3600) * SECOND, 1),
    ("MN3", (dated(3600),), ((SLOT, from_rfc3339("2106-02-07T06:28:16Z")),), (2**32 + 3600) * SECOND, 1),
    ("MN3", (dated(0),), ((SLOT, LAST),), LAST, 1),
    ("MN3", (dated(3600),), ((SLOT, INT64[0]),), None, 0),
    ("MN5", (dated(3600),), (), None, 0),
    ("MN7", (), ((SLOT, T),), None, 0),
    ("MN8", (dated(20), dated(5, OTHER)), ((SLOT, T), (OTHER, T)), T + 5 * SECOND, 2),
    ("MN8", (dated(20), dated(5, OTHER)), ((SLOT, T), (OTHER, T + DAY)), T + 20 * SECOND, 1),
    ("MN8", (dated(20), dated(5, OTHER)), ((OTHER, T + DAY),), T + DAY + 5 * SECOND, 2),
    ("MN8", (dated(5), dated(5, OTHER)), ((SLOT, T), (OTHER, T)), T + 5 * SECOND, 1),
    ("_ts", (dated(20), Rule("index", 9, True, True)), ((SLOT, T),), T + 9 * SECOND, 2),
    ("_ts", (dated(5), Rule("index", 9, True, True)), ((SLOT, T),), T + 5 * SECOND, 1),
]
"""id | rules | dates | deadline, or at once (T), or never within the clock's range | which rule kills"""


@pytest.mark.parametrize(("id", "rules", "dates", "deadline", "version"), LIVES)
def test_lives(
    store: Subject, id: str, rules: tuple[Rule, ...], dates: Dates, deadline: Instant | None, version: int
) -> None:
    """A record is there until the pass at its deadline, which names the rule; dates are kept to the millisecond."""
    town = Town(store, rules)
    record = town.write(b"k", dates)
    assert store.read(Get(town.node.id, b"p", b"k")) == record
    assert record.dates == dates
    for instant in (T, T + 4 * SECOND, LAST) if deadline is None else (deadline - UNIT,) if deadline > T else ():
        town.walk(max(T, instant))
        assert town.stored(), id
    if deadline is not None:
        town.walk(deadline)
        assert not town.stored()
        (event,) = town.events()
        assert (event.cause, event.rule_version, event.how) == ("index", version, "sweep")
        assert event.deadline <= deadline
        assert store.read(Entries(town.node.id, 0, 9)) == []


def test_each_of_several_rules_has_a_version_of_its_own(store: Subject) -> None:
    town = Town(store, (dated(1, version=0), dated(2, OTHER, version=0)))
    assert [rule.version for rule in town.node.rules] == [1, 2]
    node = town.define(lambda old: msgspec.structs.replace(old, rules=(old.rules[0], dated(3), dated(4, OTHER))))
    assert [rule.version for rule in node.rules] == [1, 3, 4]
    node = town.define(lambda old: msgspec.structs.replace(old, rules=(*old.rules[:1], dated(5))))
    assert [rule.version for rule in node.rules] == [1, 5]


# --- passes -----------------------------------------------------------------------------------------------------------


def test_the_reaper_waits_for_a_pass(store: Subject) -> None:
    """Shown until then, due or not; a rule without passes purges at once."""
    town = Town(store, (dated(10), Rule("index", 15, True, True)))
    town.write(b"dated", ((SLOT, T),), own=-1)
    town.write(b"plain")
    for second, gone in ((9, 0), (10, 0), (15, 1), (59, 0), (60, 1), (61, 0)):
        town.clock.set(T + second * SECOND)
        assert town.scheduled() == gone, second
        assert town.seen(b"dated") is (second < 60)


def test_a_walk_goes_from_pass_to_pass(store: Subject) -> None:
    """Events bear the instants of passes, the last one the walk's end; those between at which nothing is due only count."""
    town = Town(store, (dated(0),))
    for second in (1, 60, 61, 10_000, 20_001):
        town.write(b"%d" % second, ((SLOT, T + second * SECOND),))
    town.walk(T + 20_010 * SECOND)
    purged = [(int(event.key), (event.purged - T) // SECOND) for event in town.events()]
    assert purged == [(1, 60), (60, 60), (61, 120), (10_000, 10_020), (20_001, 20_010)]
    now = town.clock.now()
    assert town.engine.monitor.passes(now) == 20_010 // 60 + 1
    assert (town.engine.monitor.deleted_documents, town.engine.monitor.batches) == (5, 4)


def test_deaths_by_write_time_count_as_deleted_documents(store: Subject) -> None:
    town = Town(store, (Rule("index", 5, True, True),))
    town.write(b"k")
    town.walk(T + 5 * SECOND)
    assert town.engine.monitor.deleted_documents == 1
    assert town.events()[0].purged == T + 5 * SECOND


def test_another_sleep_works_at_once_and_stays(store: Subject) -> None:
    town = Town(store, (dated(0),))
    monitor = town.engine.monitor
    assert (monitor.sleep, monitor.enabled) == (60, True)
    town.write(b"k", ((SLOT, T + SECOND),))
    town.clock.set(T + 7 * SECOND)
    town.run(monitor.set_sleep(5, town.clock.now()))
    for second, gone in ((11, 0), (12, 1)):
        town.clock.set(T + second * SECOND)
        assert town.scheduled() == gone
    assert monitor.passes(T + 22 * SECOND) == 3
    assert town.run(open_engine(store.store, town.clock)).monitor.sleep == 5
    with pytest.raises(Exception, match="a second apart"):
        town.run(monitor.set_sleep(0, town.clock.now()))


def test_a_disabled_monitor_purges_nothing_in_its_space(store: Subject) -> None:
    """Hiding goes on; other spaces do not notice; no pass is counted. Enabled again, the next pass makes up for it."""
    town = Town(store, (dated(10), Rule("index", 15, True, True)))
    definitions, engine = town.engine.definitions, town.engine
    space = town.run(definitions.space("cosmos", T))
    other = town.run(definitions.create(space.id, "beside", Definition({}, T, rules=(Rule("default", 1, True, True),))))
    town.run(engine.write(other.id, Command(Mode.CREATE, b"p", b"k", Draft(b"{}")), T))
    town.write(b"dated", ((SLOT, T),), own=-1)
    town.write(b"plain")
    town.run(engine.monitor.set_enabled(False, T))
    town.clock.set(T + 10 * MINUTE)
    assert town.scheduled() == 1
    assert (town.seen(b"dated"), town.seen(b"plain"), town.stored(b"plain")) == (True, False, True)
    now = town.run(engine.now())
    assert town.run(engine.reaper.sweep_due(PurgeRequest(now, now, "run now", override="all"))).total() == 0
    assert (engine.monitor.passes(now), engine.monitor.deleted_documents) == (0, 0)
    town.run(engine.monitor.set_enabled(True, now))
    assert town.scheduled() == 2
    assert engine.monitor.passes(now + MINUTE) == 1


def test_purging_on_demand_does_not_wait_for_a_pass(store: Subject) -> None:
    town = Town(store, (dated(0),))
    town.write(b"k", ((SLOT, T),))
    now = town.run(town.engine.now())
    assert town.scheduled() == 0
    assert town.run(town.engine.reaper.sweep_due(PurgeRequest(now, now, "run now", override="all"))).total() == 1
    assert town.events()[0].how == "run now"


# --- writes, building, removing -----------------------------------------------------------------------------------------


def test_moving_the_date_saves_a_shown_record(store: Subject) -> None:
    """V3, and what a hidden one meets: V4."""
    town = Town(store, (dated(10),))
    town.write(b"k", ((SLOT, T - DAY),))
    town.write(b"k", ((SLOT, T + DAY),))
    town.walk(T + 2 * MINUTE)
    assert town.stored()
    town.define(lambda old: msgspec.structs.replace(old, rules=(dated(10, hides=True),)))
    town.write(b"dead", ((SLOT, T),))
    town.clock.set(T + 3 * MINUTE)
    replace = Command(Mode.REPLACE, b"p", b"dead", Draft(b"{}"))
    with pytest.raises(NotFound):
        town.run(town.engine.write(town.node.id, replace, T))
    town.write(b"dead", ((SLOT, T + DAY),))
    (event,) = town.events()
    assert (event.how, event.anchor, event.cause) == ("replaced", T, "index")


def test_dates_follow_the_definition_in_the_transaction(store: Subject) -> None:
    """A draft says what its dates are under the slots that stand when it is written."""
    town = Town(store)
    node = town.define(lambda old: with_slot(old)[0])
    assert [slot.number for slot in node.definition.slots] == [SLOT]
    record = town.write(b"k", lambda definition: tuple((slot.number, T + DAY) for slot in definition.slots))
    assert record.dates == ((SLOT, T + DAY),)
    assert store.read(NextDue(town.node.id, SLOT, None)) == T + DAY


def date_of(record: Record) -> Instant | None:
    return T + int(record.value) * SECOND if record.value.isdigit() else None


def test_a_slot_is_built_for_what_was_there(store: Subject) -> None:
    """Versions stay what they are, but mortal; what was written meanwhile has its date already."""
    town = Town(store, (dated(5, OTHER),))
    before = [town.write(b"%d" % n, ((OTHER, T + DAY),), value=b"%d" % n if n % 3 else b"none") for n in range(150)]
    town.define(lambda old: with_slot(msgspec.structs.replace(old, numbered=OTHER))[0])
    slot = OTHER + 1
    written = town.write(b"new", ((slot, T + 7 * SECOND),), value=b"7")
    assert town.run(town.engine.dates.build(town.node.id, slot, date_of))
    town.define(lambda old: msgspec.structs.replace(old, rules=(*old.rules, dated(0, slot))))
    assert [each.state for each in town.node.definition.slots] == ["ready"]
    for old in before:
        record = store.read(Get(town.node.id, b"p", old.key))
        expected = (
            tuple(sorted((*old.dates, (slot, T + int(old.value) * SECOND)))) if old.value != b"none" else old.dates
        )
        assert record == msgspec.structs.replace(old, dates=expected)
    assert store.read(Get(town.node.id, b"p", b"new")) == written
    town.walk(T + 30 * SECOND)
    assert len(town.events()) == 20 + 1
    assert town.run(town.engine.dates.build(town.node.id, slot, date_of))


def test_a_slot_is_removed_and_its_number_not_given_again(store: Subject) -> None:
    town = Town(store)
    town.define(lambda old: with_slot(old)[0])
    town.write(b"k", ((SLOT, T + SECOND),))
    town.define(lambda old: msgspec.structs.replace(old, rules=(dated(0),)))
    town.define(lambda old: without_slot(old, SLOT))
    town.walk(T + DAY)
    assert town.stored()
    assert not town.run(town.engine.dates.build(town.node.id, SLOT, date_of))
    town.run(town.engine.dates.remove(town.node.id, SLOT))
    assert store.read(Entries(town.node.id, 0, 9)) == []
    node = town.define(lambda old: with_slot(old)[0])
    assert [slot.number for slot in node.definition.slots] == [SLOT + 1]


# --- looking ahead ------------------------------------------------------------------------------------------------------

SEVERAL = (dated(10), dated(0, OTHER), Rule("default", 600, True, True))


@pytest.mark.parametrize(
    ("rules", "deaths", "never"),
    [
        ((dated(10),), [(10, 1), (40, 2)], 3),
        ((dated(10), dated(0, OTHER)), [(5, 2), (40, 3)], 2),
        (SEVERAL, [(5, 2), (40, 3), (600, 4)], 1),
    ],
)
def test_counts_ahead(store: Subject, rules: tuple[Rule, ...], deaths: list[tuple[int, int]], never: int) -> None:
    """A record that may die in several ways is counted once, at its first deadline."""
    town = Town(store, rules)
    town.write(b"a", ((SLOT, T),), own=-1)
    town.write(b"b", ((SLOT, T + 30 * SECOND), (OTHER, T + 5 * SECOND)), own=-1)
    town.write(b"c", ((OTHER, T + 5 * SECOND),) if len(rules) > 1 else (), own=-1)
    town.write(b"d", own=-1)
    town.write(b"e")
    expiry_counts, id = town.engine.expiry_counts, town.node.id
    if rules is not SEVERAL:
        rules = town.node.rules
    expected = counted_by_hand(town, rules)
    for second in (0, 4, 5, 9, 10, 39, 40, 599, 600, 10_000):
        counted = town.run(expiry_counts.due_counts(id, rules, [T + second * SECOND]))
        assert counted == [expected(T + second * SECOND)]
    forecast = town.run(expiry_counts.forecast(town.node, T, 100 * SECOND, 10, expiry_counts.allow()))
    assert forecast.never == sum(explain(record, rules, T).deadline is None for record in records(town))
    assert forecast.in_horizon == expected(T + 100 * SECOND)
    for bucket in forecast.buckets:
        assert bucket.count == expected(bucket.until) - expected(bucket.after)
    preview = town.run(expiry_counts.preview(town.node, rules, T + 7 * SECOND))
    assert preview.expire_now == expected(T + 7 * SECOND)


def records(town: Town) -> list[Record]:
    found: Any = [town.store.read(Get(town.node.id, b"p", key)) for key in (b"a", b"b", b"c", b"d", b"e")]
    return list(found)


def counted_by_hand(town: Town, rules: tuple[Rule, ...]) -> Callable[[Instant], int]:
    ends = [explain(record, rules, T).deadline for record in records(town)]
    return lambda now: sum(end is not None and end <= now for end in ends)


def test_who_is_hidden_by_a_date_is_not_counted(store: Subject) -> None:
    """Once each, whatever else has killed it; other rules let some come back."""
    hiding = (dated(10, hides=True), dated(0, OTHER, hides=True), Rule("index", 600, True, True))
    town = Town(store, hiding)
    town.write(b"a", ((SLOT, T), (OTHER, T)), own=-1)
    town.write(b"b", ((SLOT, T),), own=5)
    town.write(b"c", ((OTHER, T),))
    town.write(b"d", ((SLOT, T + DAY),), own=-1)
    town.write(b"e", own=900)
    town.write(b"f")
    now = T + 20 * SECOND
    expiry_counts, node = town.engine.expiry_counts, town.node
    census = town.run(expiry_counts.census(node, now))
    assert (census.missing, census.never, census.own) == (1, 1, 1)
    assert town.run(expiry_counts.usage(node, now))[0] == 3
    preview = town.run(expiry_counts.preview(node, (dated(30), hiding[2]), now))
    assert (preview.records, preview.expire_now, preview.reappear_now) == (3, 0, 2)
    assert [record.key for record in preview.sample] == []
    preview = town.run(expiry_counts.preview(node, (Rule("index", 15, True, True),), now))
    assert (preview.records, preview.expire_now, preview.reappear_now, preview.never) == (3, 1, 1, 2)
    assert [record.key for record in preview.sample] == [b"f"]


def test_a_reset_forgets_what_the_monitor_was_told(store: Subject) -> None:
    """And a clock that is set back has passes again from there on."""
    town = Town(store)
    engine, monitor = town.engine, town.engine.monitor
    town.walk(T + 10 * MINUTE)
    assert monitor.passes(town.clock.now()) == 10
    town.run(monitor.set_sleep(7, town.clock.now()))
    town.run(monitor.set_enabled(False, town.clock.now()))
    town.run(engine.reset())
    assert (monitor.sleep, monitor.enabled) == (60, True)
    town.clock_mover.roll_back(T)
    passed = monitor.passes(T)
    assert monitor.passes(T + 5 * MINUTE) == passed + 5
    fresh = Town(store, (dated(0),))
    fresh.write(b"k", ((SLOT, T),))
    fresh.walk(T + MINUTE)
    assert not fresh.stored()


def test_after_a_clock_was_set_back_records_go_at_the_passes_from_there(store: Subject) -> None:
    town = Town(store, (dated(0),))
    town.write(b"k", ((SLOT, T + 10 * SECOND),))
    clock = VirtualClock(T + 30 * SECOND)
    engine = town.run(open_engine(store.store, clock))
    clock_mover = ClockMover(engine, clock)
    assert town.run(engine.reaper.next_deadline()) == T + 10 * SECOND
    clock_mover.roll_back(T)
    town.run(clock_mover.walk(T + 10 * MINUTE, [town.node], "scheduled"))
    assert [event.purged for event in town.events()] == [T + MINUTE]


def test_another_node_hears_of_the_parameters(store: Subject) -> None:
    town = Town(store)
    other = town.run(open_engine(store.store, town.clock)).monitor
    town.run(town.engine.monitor.set_sleep(9, T))
    town.run(town.engine.monitor.set_enabled(False, T))
    assert (other.sleep, other.enabled) == (60, True)
    town.run(other.refresh(T + SECOND))
    assert (other.sleep, other.enabled) == (9, False)
    assert other.schedule.next(T + 2 * SECOND) == T + 10 * SECOND


@pytest.mark.parametrize("rules", [(dated(10), dated(0, OTHER)), SEVERAL])
def test_a_preview_beyond_the_budget_is_an_estimate(store: Subject, rules: tuple[Rule, ...]) -> None:
    """It says so, stays within what the paths allow, and is exact again where the sample has each record."""
    town = Town(store)
    for n in range(40):
        town.write(b"%d" % n, ((SLOT, T + n * SECOND), (OTHER, T + 3 * n * SECOND)), own=n % 3 - 1)
    now = T + 25 * SECOND
    exact = town.run(town.engine.expiry_counts.preview(town.node, rules, now))
    assert exact.exact and 0 < exact.expire_now < 40

    def preview(sample: int, counted: int) -> Preview:
        counts = ExpiryCounts(store.store, CountBudget(counted=counted, read=30, sample=sample))
        return town.run(counts.preview(town.node, rules, now))

    whole = preview(40, 100)
    assert msgspec.structs.replace(whole, sample=exact.sample) == exact
    paths = [sum(town.run(ExpiryCounts(store.store).due_counts(town.node.id, (rule,), [now]))) for rule in rules]
    for sample, counted in ((1, 30), (1, 100), (7, 30), (7, 100), (39, 30), (39, 100)):
        guess = preview(sample, counted)
        within = list(guess.expire_within.values())
        assert not guess.exact
        assert 1 <= guess.expire_now <= within[0] <= within[1] <= within[2] <= guess.records
        assert {record.key for record in guess.sample} <= {b"%d" % n for n in range(40)}
        assert counted < 40 or max(paths) <= guess.expire_now <= sum(paths)
    assert abs(preview(39, 30).expire_now - exact.expire_now) <= 2
    new = Proposal(rules, None, dated=lambda record: record)
    scanned = town.run(town.engine.expiry_counts.preview_of(town.node, new, now))
    # The proposal gives no record a date, so none is counted as dated.
    assert scanned.dated == 0
    assert msgspec.structs.replace(scanned, sample=exact.sample, dated=None) == exact
    counts = ExpiryCounts(store.store, CountBudget(read=30, sample=10))
    assert not town.run(counts.preview_of(town.node, new, now)).exact


@pytest.mark.parametrize("sample", [40, 39, 7])
def test_counts_beyond_the_budget_are_estimates(store: Subject, sample: int) -> None:
    """They say so, and are exact again where the sample has each record."""
    town = Town(store, (dated(10), dated(0, OTHER, hides=True)))
    for n in range(40):
        town.write(b"%d" % n, ((SLOT, T + n * SECOND), (OTHER, T + 3 * n * SECOND)), own=n % 3 - 1)
    now = T + 25 * SECOND
    exact = town.engine.expiry_counts
    limited = ExpiryCounts(store.store, CountBudget(counted=30, read=30, sample=sample))
    whole = sample == 40

    records = town.run(exact.count_records(town.node, now, exact.allow()))
    guess = town.run(limited.count_records(town.node, now, limited.allow()))
    assert (records.records, records.hidden, records.due, records.own_ttl) == (31, 9, 16, 13)
    assert guess == records if whole else not guess.exact
    assert abs(guess.due - records.due) <= 40 // sample * 3 and guess.records + guess.hidden in (39, 40, 41)

    ahead = town.run(exact.forecast(town.node, now, 10 * SECOND, 10, exact.allow()))
    guessed = town.run(limited.forecast(town.node, now, 10 * SECOND, 10, limited.allow()))
    assert guessed == ahead if whole else not guessed.exact
    assert guessed.in_horizon == sum(bucket.count for bucket in guessed.buckets)
    assert abs(guessed.in_horizon - ahead.in_horizon) <= 40 // sample * 3

    census = town.run(exact.census(town.node, now))
    estimated = town.run(limited.census(town.node, now))
    assert estimated == census if whole else not estimated.exact


def test_an_answer_about_several_containers_has_one_budget(store: Subject) -> None:
    town = Town(store, (dated(10), dated(0, OTHER)))
    for n in range(20):
        town.write(b"%d" % n, ((SLOT, T + n * SECOND),))
    counts = ExpiryCounts(store.store, CountBudget(read=50, sample=8, least_sample=3))
    allowance = counts.allow()
    found = [town.run(counts.count_records(town.node, T, allowance)) for _ in range(3)]
    assert [each.exact for each in found] == [True, True, False]
    assert [allowance.take_sample() for _ in range(3)] == [4, 3, 3]


@pytest.mark.parametrize("limit", [3, 100])
def test_a_list_of_records_by_deadline_ends_with_its_budget(
    store: Subject, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    """What it lists is what comes first: it ends before the first record that may be missing."""
    monkeypatch.setattr("mayflydb.engine.expiry_counts.PAGE", 4)
    town = Town(store, (dated(0), dated(0, OTHER)))
    for n in range(40):
        # By the first rule all come late, and few of them expire by it.
        town.write(b"%d" % n, ((SLOT, T + n * SECOND), (OTHER, T + (n // 3) * SECOND)))
    town.write(b"x", ((SLOT, T + 5 * SECOND),))
    counts = town.engine.expiry_counts
    whole = town.run(counts.find_expiring(town.node, None, T + HOUR, 100, counts.allow()))
    assert len(whole.records) == 41 and whole.known_to >= T + HOUR
    few = ExpiryCounts(store.store, CountBudget(read=10))
    found = town.run(few.find_expiring(town.node, None, T + HOUR, limit, few.allow()))
    assert 0 < len(found.records) <= limit
    assert found.records == whole.records[: len(found.records)]
    if limit == 100:
        assert found.known_to < T + HOUR
        assert found.records == [each for each in whole.records if each[0] <= found.known_to]


@pytest.mark.parametrize("several", [False, True])
def test_counts_of_a_walk_are_estimates_beyond_the_budget(store: Subject, several: bool) -> None:
    town = Town(store, (dated(10), dated(0, OTHER)) if several else (dated(10),))
    for n in range(40):
        town.write(b"%d" % n, ((SLOT, T + n * SECOND), (OTHER, T + 3 * n * SECOND)))
    limited = ExpiryCounts(store.store, CountBudget(counted=30, read=30, sample=7))
    town.engine.expiry_counts = limited
    guess = ClockMover(town.engine, town.clock)
    for mover, exact in ((town.clock_mover, True), (guess, False)):
        counted = town.run(mover._expired([town.node], T, T + 20 * SECOND))
        assert counted[1] is exact and abs(counted[0][town.node.id] - (10 if several else 11)) <= (0 if exact else 6), (
            counted
        )
    ends = [T, T + 20 * SECOND]
    found = town.run(limited.count_due(town.node, town.node.rules, ends, limited.allow()))
    assert not found.exact and found.counts[0] <= found.counts[1]
    whole = ExpiryCounts(store.store, CountBudget(counted=0, read=0, sample=40))
    counts = town.run(whole.due_counts(town.node.id, town.node.rules, ends))
    same = town.run(whole.count_due(town.node, town.node.rules, ends, whole.allow()))
    assert (same.counts, same.exact) == (counts, True)


@pytest.mark.parametrize("several", [False, True])
def test_records_that_other_rules_would_expire_are_listed_up_to_a_limit(
    store: Subject, monkeypatch: pytest.MonkeyPatch, several: bool
) -> None:
    """The list says whether it has all. Under several date rules it also ends with the budget."""
    monkeypatch.setattr("mayflydb.engine.expiry_counts.PAGE", 4)
    town = Town(store, (dated(0, hides=True),))
    for n in range(12):
        # Two are hidden already; of the others the first six by creation would expire.
        town.write(b"%d" % n, ((SLOT, T + DAY if n > 1 else T), (OTHER, T + (n - 8) * SECOND)))
    proposed = (dated(0, hides=True), dated(0, OTHER)) if several else (dated(0, OTHER),)
    due = {b"%d" % n for n in range(2, 9)}

    def find(limit: int, read: int) -> tuple[set[bytes], bool]:
        counts = ExpiryCounts(store.store, CountBudget(read=read))
        found = town.run(counts.find_expiring_now(town.node, proposed, T, limit, counts.allow()))
        return {record.key for record in found.records}, found.complete

    assert find(7, 100) == find(100, 100) == (due, True)
    some, complete = find(6, 100)
    assert some < due and len(some) == 6 and not complete
    some, complete = find(100, 4)
    assert some < due and not complete


def test_a_count_under_several_date_rules_lets_others_run(store: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits between its pages, and ends with the error of the wait."""
    monkeypatch.setattr("mayflydb.engine.expiry_counts.PAGE", 2)
    town = Town(store, (dated(0), dated(0, OTHER)))
    for n in range(5):
        town.write(b"%d" % n, ((SLOT, T),))
    waits = 0

    async def wait() -> None:
        nonlocal waits
        waits += 1
        if waits > 3:
            raise TimedOut("the time is over")

    counts = town.engine.expiry_counts
    assert town.run(counts.due_counts(town.node.id, town.node.rules, [T], wait)) == [5] and waits == 3
    with pytest.raises(TimedOut):
        town.run(counts.due_counts(town.node.id, town.node.rules, [T], wait))


def test_few_records_of_many_numbers_are_counted(store: Subject) -> None:
    """Where most numbers have no record any more, the count is cheap and exact."""
    town = Town(store, (dated(10), dated(0, OTHER)))
    for n in range(30):
        town.write(b"%d" % n, ((SLOT, T if 0 < n < 29 else T + DAY),))
    town.walk(T + MINUTE)
    counts = ExpiryCounts(store.store, CountBudget(read=20, sample=10))
    found = town.run(counts.preview(town.node, town.node.rules, T + MINUTE))
    assert (found.exact, found.records, found.expire_now) == (True, 2, 0)
