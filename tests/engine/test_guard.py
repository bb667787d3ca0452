"""The guard: purges of unexpected expiries wait for a person, on every store."""

from __future__ import annotations

import msgspec
import pytest

from engine.site import Site, create, upsert
from mayflydb.engine.catalog import Definition, Node
from mayflydb.engine.commands import Command, Draft, Mode
from mayflydb.engine.lifecycle.guard import token_of
from mayflydb.expiry.guard import ClockStep, GuardLimits, HeldPurge, find_step, suspect
from mayflydb.expiry.lifecycle import Lifecycle
from mayflydb.expiry.rules import Rule
from mayflydb.expiry.sweep import PurgeRequest
from mayflydb.model.errors import Conflict
from mayflydb.model.instant import SECOND

LIMITS = GuardLimits(records=5, percent=25)
PARTITION = b"p" * 9


def guarded(site: Site, *rules: Rule) -> int:
    """A container with a guard of its own."""
    definition = Definition({}, site.now, rules=rules, lifecycle=Lifecycle(guard=LIMITS))
    return site.run(site.engine.definitions.create(site.home, "guarded", definition)).id


def fill(site: Site, container: int, number: int, life: int | None = None) -> None:
    for n in range(number):
        site.write(create(b"%04d" % n, b"v", life), container)


def set_rules(site: Site, container: int, *rules: Rule) -> None:
    def change(node: Node) -> Definition:
        return msgspec.structs.replace(node.definition, rules=rules)

    site.run(site.engine.definitions.replace(container, change, site.now))


def purge(site: Site) -> int:
    request = PurgeRequest(site.now, site.now, "run now", override="all")
    return site.run(site.engine.reaper.sweep_due(request)).total()


def held(site: Site, container: int) -> HeldPurge | None:
    return site.node(container).definition.held


def life(seconds: int) -> Rule:
    return Rule("default", seconds, overrides=True, hides=True)


@pytest.mark.parametrize(("records", "is_held"), [(5, False), (6, True), (20, True)])
def test_a_shorter_life_is_held_beyond_the_limit_of_records(site: Site, records: int, is_held: bool) -> None:
    container = guarded(site, life(1000))
    fill(site, container, records)
    site.pass_seconds(100)
    set_rules(site, container, life(50))
    # Reads keep the contract.
    assert site.values(container) == {}
    assert purge(site) == (0 if is_held else records)
    found = held(site, container)
    assert (found is not None) is is_held
    if found is not None:
        assert (found.reason, found.due, found.records, found.at) == ("rule", records, records, site.now)


@pytest.mark.parametrize(("others", "is_held"), [(17, True), (18, False)])
def test_a_small_share_of_a_container_is_purged(site: Site, others: int, is_held: bool) -> None:
    container = guarded(site, life(1000))
    fill(site, container, 6)
    for n in range(others):
        site.write(create(b"other%04d" % n, b"v", 5000), container)
    site.pass_seconds(100)
    set_rules(site, container, life(50))
    assert purge(site) == (0 if is_held else 6)


def test_expiries_that_had_their_time_are_purged_however_many(site: Site) -> None:
    container = guarded(site, life(50))
    fill(site, container, 40)
    site.pass_seconds(60)
    assert purge(site) == 40
    assert held(site, container) is None


def test_a_held_purge_waits_until_it_is_confirmed(site: Site) -> None:
    container = guarded(site, life(1000))
    fill(site, container, 20)
    site.pass_seconds(100)
    set_rules(site, container, life(50))
    assert purge(site) == 0
    site.pass_seconds(10_000)
    assert purge(site) == 0
    assert site.run(site.engine.reaper.next_deadline()) is None
    guard = site.engine.reaper.guard
    with pytest.raises(Conflict):
        site.run(guard.confirm(container, "another"))
    site.run(guard.confirm(container, token_of(site.node(container))))
    assert purge(site) == 20
    with pytest.raises(Conflict):
        site.run(guard.confirm(container, "again"))


def test_a_change_back_releases_the_purge(site: Site) -> None:
    container = guarded(site, life(1000))
    fill(site, container, 20)
    site.pass_seconds(100)
    set_rules(site, container, life(50))
    assert purge(site) == 0
    set_rules(site, container, life(1000))
    assert held(site, container) is None
    assert len(site.values(container)) == 20
    assert purge(site) == 0
    site.pass_seconds(1000)
    assert purge(site) == 20


def test_a_shorter_life_that_only_touches_records_to_come_is_purged(site: Site) -> None:
    container = guarded(site, life(1000))
    fill(site, container, 20)
    set_rules(site, container, life(50))
    site.pass_seconds(60)
    assert purge(site) == 20


def test_a_rule_that_changes_between_look_and_sweep_purges_nothing(site: Site) -> None:
    container = guarded(site, life(1000))
    fill(site, container, 20)
    site.pass_seconds(100)
    guard, look = site.engine.reaper.guard, site.engine.reaper.guard.look
    changed = False

    async def look_and_change(id: int, request: PurgeRequest) -> object:
        nonlocal changed
        found = await look(id, request)
        if id == container and not changed:
            changed = True
            definitions = site.engine.definitions
            await definitions.replace(
                id, lambda node: msgspec.structs.replace(node.definition, rules=(life(50),)), site.now
            )
        return found

    # A record that is due under the old rule, so that there is something to look at.
    site.write(upsert(b"short", b"v", 1), container)
    site.pass_seconds(2)
    guard.look = look_and_change  # type: ignore[method-assign,assignment]
    assert purge(site) == 0
    assert held(site, container) is not None


def test_dates_of_the_past_are_held(site: Site) -> None:
    rule = Rule("index", 10, slot=16)
    container = guarded(site, rule)

    def write(key: bytes, date: int) -> None:
        site.write(Command(Mode.CREATE, PARTITION, key, Draft(b"v", None, dates=((16, date),))), container)

    for n in range(6):
        write(b"late%d" % n, site.now)
    site.pass_seconds(20)
    # These had their time.
    assert purge(site) == 6
    for n in range(6):
        write(b"past%d" % n, site.now - 100 * SECOND)
    assert purge(site) == 0
    found = held(site, container)
    assert found is not None
    assert (found.reason, found.unexpected) == ("writes", 6)
    site.run(site.engine.reaper.guard.confirm(container, token_of(site.node(container))))
    assert purge(site) == 6


def test_a_step_of_the_clock_is_held(site: Site) -> None:
    container = guarded(site, life(1000))
    fill(site, container, 20)
    guard = site.engine.reaper.guard
    before = site.now
    site.pass_seconds(2000)
    guard._step = ClockStep(before, site.now)
    assert purge(site) == 0
    found = held(site, container)
    assert found is not None
    assert found.reason == "clock"
    site.run(guard.confirm(container, token_of(site.node(container))))
    assert purge(site) == 20


@pytest.mark.parametrize(
    ("before", "now", "elapsed", "step"),
    [
        (100, 160, 0, None),
        (100, 161, 0, ClockStep(100, 161)),
        (100, 4000, 3900, None),
        (100, 4000, 3000, ClockStep(3100, 4000)),
        (100, 50, 0, None),
    ],
)
def test_a_step_is_what_a_clock_gains(before: int, now: int, elapsed: int, step: ClockStep | None) -> None:
    assert find_step(before, now, elapsed, 60) == step


@pytest.mark.parametrize(
    ("since", "step", "confirmed", "ends", "written", "reason"),
    [
        (None, None, None, 100, 50, None),
        (100, None, None, 100, 50, "rule"),
        (100, None, None, 101, 50, None),
        (100, None, 100, 100, 50, None),
        (100, None, 99, 100, 50, "rule"),
        (None, None, None, 100, 100, "writes"),
        (None, None, None, 101, 100, None),
        (None, None, 100, 100, 100, None),
        (None, ClockStep(10, 20), None, 10, 5, None),
        (None, ClockStep(10, 20), None, 11, 5, "clock"),
        (None, ClockStep(10, 20), None, 20, 5, "clock"),
        (None, ClockStep(10, 20), None, 21, 5, None),
        (None, ClockStep(10, 20), 20, 20, 5, None),
    ],
)
def test_an_expiry_is_unexpected_if_its_deadline_had_passed_when_it_became_known(
    since: int | None, step: ClockStep | None, confirmed: int | None, ends: int, written: int, reason: str | None
) -> None:
    assert suspect(Rule("default", 1, since=since), step, confirmed).reason(ends, written) == reason
