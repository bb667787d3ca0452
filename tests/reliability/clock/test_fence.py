"""The fence of the system clock: a step forward hides nothing before it has held, and purges nothing before proven time does."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from mayflydb.clock import VirtualClock
from mayflydb.engine.catalog import Definition
from mayflydb.engine.commands import Command, Draft, Mode
from mayflydb.engine.engine import Engine
from mayflydb.engine.open import open_engine
from mayflydb.expiry.sweep import PurgeRequest
from mayflydb.frontends.cosmos.rules import rules_of
from mayflydb.store.interface import Count
from reliability.clock.host import DAY, HOUR, MINUTE, START, YEAR, Host, S
from reliability.model.stores import finish
from store_suite.reference import ReferenceStore


def live(engine: Engine, host: Host) -> tuple[int, Callable[[], int], Callable[[], int]]:
    """A container with a record for each of many ttls; how many are visible now, and how many are stored."""
    space = finish(engine.definitions.space("cosmos", host.wall))
    node = finish(engine.definitions.create(space.id, "c", Definition({}, host.wall, rules=rules_of(-1))))
    for ttl in TTLS:
        command = Command(Mode.CREATE, b"p", b"%d" % ttl, Draft(b"v", ttl))
        finish(engine.write(node.id, command, host.wall))

    def visible() -> int:
        now = engine.time._high.now()
        if now is None:
            engine.time._high.mark_reserved(engine.time._high.next_reservation())
            now = engine.time._high.now()
        assert now is not None
        return sum(finish(engine.get(node, b"p", b"%d" % ttl, now)) is not None for ttl in TTLS)

    def stored() -> int:
        finish(engine.reaper.sweep_due(PurgeRequest(engine.time.horizon(), host.wall, "sweep")))
        return finish(engine.store.read(Count(node.id))).records

    return node.id, visible, stored


TTLS = (3, 10, 60, 3600, 86_400, 31_557_600, 2_145_916_800, 2_147_483_647)
STEPS = {"10 s": 10 * S, "1 h": HOUR, "1 y": YEAR, "68 y": 68 * YEAR}


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_a_step_forward_hides_nothing_at_first_and_purges_nothing_early(step: int) -> None:
    host = Host()
    clock = host.clock()
    engine = finish(open_engine(ReferenceStore(), clock))
    _, visible, stored = live(engine, host)
    host.step(step)
    assert visible() == stored() == len(TTLS), "hidden or purged on the word of a stepped clock"
    assert clock.observe()
    # Proven time goes on behind the fence.
    host.pass_(4 * S)
    assert visible() == stored() == len(TTLS) - 1
    host.pass_(MINUTE - 4 * S - 1)
    assert visible() == sum(ttl * S > MINUTE - 1 for ttl in TTLS)
    # A minute of even ticking, and reads follow.
    host.pass_(1)
    engine.time.observe()
    assert visible() == sum(ttl * S > step + MINUTE for ttl in TTLS)
    assert stored() == sum(ttl * S > MINUTE for ttl in TTLS)
    host.pass_(HOUR - MINUTE - S)
    assert stored() == sum(ttl * S > HOUR - S for ttl in TTLS)
    assert clock.observe()
    # An hour of even ticking opens it.
    host.pass_(S)
    assert stored() == sum(ttl * S > step + HOUR for ttl in TTLS)
    assert clock.observe() is None


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_a_person_opens_the_fence(step: int) -> None:
    host = Host()
    clock = host.clock()
    engine = finish(open_engine(ReferenceStore(), clock))
    _, _, stored = live(engine, host)
    host.step(step)
    assert stored() == len(TTLS)
    clock.settle(0)
    assert clock.observe() is None
    assert stored() == sum(ttl * S > step for ttl in TTLS)


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_setting_the_wall_right_again_opens_the_fence(step: int) -> None:
    host = Host()
    clock = host.clock()
    engine = finish(open_engine(ReferenceStore(), clock))
    _, _, stored = live(engine, host)
    host.step(step)
    assert stored() == len(TTLS)
    host.step(-step)
    assert stored() == len(TTLS)
    assert clock.observe() is None
    assert clock.horizon() == host.wall


@pytest.mark.parametrize(
    ("gap", "fenced"),
    [(10 * S, False), (HOUR, False), (DAY, False), (DAY + 1, True), (YEAR, True), (68 * YEAR, True)],
    ids=["10 s", "1 h", "24 h", "24 h + 1 us", "1 y", "68 y"],
)
def test_a_start_long_after_the_mark_is_fenced_for_fifteen_minutes(gap: int, fenced: bool) -> None:
    host = Host()
    store = ReferenceStore()
    _, _, _ = live(finish(open_engine(store, host.clock())), host)
    mark = host.wall
    host.wall += gap
    host.boot = 5 * S
    clock = host.clock(mark)
    engine = finish(open_engine(store, clock))
    assert (clock.observe() is not None) == fenced
    finish(engine.reaper.sweep_due(PurgeRequest(clock.horizon(), host.wall, "sweep")))
    left = _records(engine)
    expected = mark if fenced else host.wall
    assert left == sorted(b"%d" % ttl for ttl in TTLS if START + ttl * S > expected)
    host.pass_(15 * MINUTE - 1)
    assert (clock.observe() is not None) == fenced
    host.pass_(1)
    assert clock.observe() is None
    assert clock.horizon() == host.wall


def _records(engine: Engine) -> list[bytes]:
    async def keys() -> list[bytes]:
        node = await engine.node("cosmos", "c")
        assert node is not None
        return sorted(
            [record.key for record in [await engine.get(node, b"p", b"%d" % ttl, 0) for ttl in TTLS] if record]
        )

    return finish(keys())


def test_a_step_behind_the_fence_of_a_start_is_fenced_like_any_other() -> None:
    host = Host()
    clock = host.clock(START - 2 * DAY)
    assert clock.observe()
    host.pass_(5 * MINUTE)
    host.step(YEAR)
    assert clock.observe()
    host.pass_(20 * MINUTE)
    assert clock.observe(), "a year's step was believed after fifteen minutes"
    host.pass_(40 * MINUTE)
    assert clock.observe() is None


def test_another_step_behind_the_fence_starts_the_hour_again() -> None:
    host = Host()
    clock = host.clock()
    host.step(HOUR)
    assert clock.observe()
    host.pass_(50 * MINUTE)
    assert clock.observe()
    host.step(10 * S)
    assert clock.observe()
    host.pass_(59 * MINUTE)
    assert clock.observe()
    host.pass_(MINUTE)
    assert clock.observe() is None


@pytest.mark.parametrize(("step", "fenced"), [(5 * S, False), (5 * S + 1, True)])
def test_five_seconds_are_believed_and_no_more(step: int, fenced: bool) -> None:
    host = Host()
    clock = host.clock()
    host.step(step)
    assert (clock.observe() is not None) == fenced


def test_a_suspended_machine_has_not_stepped() -> None:
    host = Host()
    clock = host.clock()
    host.pass_(8 * HOUR)
    assert clock.observe() is None
    assert clock.horizon() == host.wall


def test_drift_is_followed() -> None:
    host = Host()
    clock = host.clock()
    for _ in range(1000):
        host.pass_(10 * MINUTE)
        host.step(S // 2)
        assert clock.observe() is None
    assert clock.horizon() == host.wall


def test_a_clock_that_people_move_is_never_fenced() -> None:
    clock = VirtualClock(START)
    clock.set(START + 68 * YEAR)
    assert clock.horizon() == clock.now() == START + 68 * YEAR


def test_the_horizon_is_never_ahead_of_now_nor_of_proven_time(seed: int) -> None:
    """Random passing and stepping: purging trusts at most what has passed since time was last believed, and five seconds."""
    draw = random.Random(seed)
    for _ in range(200):
        host = Host()
        clock = host.clock()
        true = host.wall
        for _ in range(100):
            if draw.random() < 0.3:
                host.step(draw.choice((-HOUR, 6 * S, HOUR, YEAR)))
            else:
                span = draw.choice((1, S, MINUTE))
                host.pass_(span)
                true += span
            assert clock.horizon() <= host.wall
            if host.boot - 1000 * S < HOUR:
                assert clock.horizon() <= true + 5 * S
