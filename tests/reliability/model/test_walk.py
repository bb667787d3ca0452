"""A million random steps of the engine and its reaper against the oracle."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import monotonic

import pytest

from mayflydb.store.interface import Store
from reliability.model.stores import Direct
from reliability.model.walk import Walk
from reliability.model.world import World
from store_suite.reference import ReferenceStore

STORES: dict[str, tuple[Callable[[], Store], int]] = {
    "reference": (ReferenceStore, 215_000),
    "sqlite": (Direct, 75_000),
}
"""Name -> (how to make it, steps of one walk). Four walks on the first and two on the second make a million."""

WALKS = [("reference", n) for n in range(4)] + [("sqlite", n) for n in range(2)]
FLOOR = 1_000_000
SWEEP_LIMITS = (1, 3, 1000)
PER_THOUSAND = {
    "purged": 20,
    "replaced": 1,
    "renamed": 1,
    "spared": 1,
    "NotFound": 20,
    "Conflict": 5,
    "BadRequest": 1,
    "PreconditionFailed": 1,
}
"""A walk in which these happen less often has not tested what it should."""


def walk(store: Callable[[], Store], seed: int, steps: int) -> World:
    world = World(store(), SWEEP_LIMITS[seed % len(SWEEP_LIMITS)])
    Walk(world, seed).run(steps)
    return world


def test_the_walks_make_a_million_steps() -> None:
    assert sum(STORES[store][1] for store, _ in WALKS) >= FLOOR


@pytest.mark.parametrize(("store", "number"), WALKS)
def test_random_steps_agree_with_the_oracle(store: str, number: int, seed: int, figure: Callable[[str], None]) -> None:
    make, steps = STORES[store]
    began = monotonic()
    world = walk(make, seed, steps)
    rare = {what: world.tally[what] for what, least in PER_THOUSAND.items() if world.tally[what] * 1000 < least * steps}
    assert not rare, f"too rare in {steps} steps: {rare}"
    figure(f"{steps} steps, {steps / (monotonic() - began):.0f}/s, {dict(sorted(world.tally.items()))}")


@pytest.mark.soak
@pytest.mark.parametrize("store", STORES)
def test_random_steps_for_hours(
    store: str, seed: int, soaking: Callable[[float], Iterator[int]], figure: Callable[[str], None]
) -> None:
    make, steps = STORES[store]
    for number in soaking(0.1):
        print(f"walk {seed + number}")
        walk(make, seed + number, steps)
        figure(f"{(number + 1) * steps} steps")
