"""The fence of the system clock: a step forward hides at once and purges nothing before proven time does."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from mayflydb.clock import SystemClock, VirtualClock
from mayflydb.engine.catalog import Definition
from mayflydb.engine.commands import Command, Draft, Mode
from mayflydb.engine.engine import Engine
from mayflydb.engine.open import open_engine
from mayflydb.expiry.sweep import PurgeRequest
from mayflydb.frontends.cosmos.rules import rules_of
from mayflydb.store.interface import Count
from reliability.model.stores import finish
from store_suite.reference import ReferenceStore

S = 1_000_000
MINUTE, HOUR, DAY, YEAR = 60 * S, 3600 * S, 86_400 * S, 31_557_600 * S
START = 1_893_456_000 * S


class Host:
    """A machine whose clocks a test moves: `pass_` is time, `step` somebody's hand on the wall clock."""

    def __init__(self) -> None:
        self.wall, self.boot = START, 1000 * S

    def pass_(self, span: int) -> None:
        self.wall += span
        self.boot += span

    def step(self, span: int) -> None:
        self.wall += span

    def clock(self, mark: int | None = None) -> SystemClock:
        return SystemClock(mark, lambda: self.wall, lambda: self.boot)


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
def test_a_step_forward_hides_at_once_and_purges_nothing_early(step: int) -> None:
    host = Host()
    clock = host.clock()
    engine = finish(open_engine(ReferenceStore(), clock))
    _, visible, stored = live(engine, host)
    host.step(step)
    assert visible() == sum(ttl * S > step for ttl in TTLS)
    assert stored() == len(TTLS), "purged on the word of a stepped clock"
    assert clock.fenced
    # Proven time goes on behind the fence.
    host.pass_(4 * S)
    assert stored() == len(TTLS) - 1
    host.pass_(HOUR - 5 * S)
    assert stored() == sum(ttl * S > HOUR - S for ttl in TTLS)
    assert clock.fenced
    # An hour of even ticking opens it.
    host.pass_(S)
    assert stored() == sum(ttl * S > step + HOUR for ttl in TTLS)
    assert not clock.fenced


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_a_person_opens_the_fence(step: int) -> None:
    host = Host()
    clock = host.clock()
    engine = finish(open_engine(ReferenceStore(), clock))
    _, _, stored = live(engine, host)
    host.step(step)
    assert stored() == len(TTLS)
    clock.confirm()
    assert not clock.fenced
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
    assert not clock.fenced
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
    assert clock.fenced == fenced
    finish(engine.reaper.sweep_due(PurgeRequest(clock.horizon(), host.wall, "sweep")))
    left = _records(engine)
    expected = mark if fenced else host.wall
    assert left == sorted(b"%d" % ttl for ttl in TTLS if START + ttl * S > expected)
    host.pass_(15 * MINUTE - 1)
    assert clock.fenced == fenced
    host.pass_(1)
    assert not clock.fenced
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
    assert clock.fenced
    host.pass_(5 * MINUTE)
    host.step(YEAR)
    assert clock.fenced
    host.pass_(20 * MINUTE)
    assert clock.fenced, "a year's step was believed after fifteen minutes"
    host.pass_(40 * MINUTE)
    assert not clock.fenced


def test_another_step_behind_the_fence_starts_the_hour_again() -> None:
    host = Host()
    clock = host.clock()
    host.step(HOUR)
    assert clock.fenced
    host.pass_(50 * MINUTE)
    assert clock.fenced
    host.step(10 * S)
    assert clock.fenced
    host.pass_(59 * MINUTE)
    assert clock.fenced
    host.pass_(MINUTE)
    assert not clock.fenced


@pytest.mark.parametrize(("step", "fenced"), [(5 * S, False), (5 * S + 1, True)])
def test_five_seconds_are_believed_and_no_more(step: int, fenced: bool) -> None:
    host = Host()
    clock = host.clock()
    host.step(step)
    assert clock.fenced == fenced


def test_a_suspended_machine_has_not_stepped() -> None:
    host = Host()
    clock = host.clock()
    host.pass_(8 * HOUR)
    assert not clock.fenced
    assert clock.horizon() == host.wall


def test_drift_is_followed() -> None:
    host = Host()
    clock = host.clock()
    for _ in range(1000):
        host.pass_(10 * MINUTE)
        host.step(S // 2)
        assert not clock.fenced
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
            if host.wall < true:
                true = host.wall  # A step back is believed at once.
            assert clock.horizon() <= host.wall
            if host.boot - 1000 * S < HOUR:
                assert clock.horizon() <= true + 5 * S
