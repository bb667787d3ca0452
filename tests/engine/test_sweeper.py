"""The sizes of sweeps where budgets pay for purges, and who waits for them."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from engine.site import Site, upsert
from mayflydb.engine import reaper, sweeper
from mayflydb.engine.billing import FEWEST, Billing
from mayflydb.engine.catalog import Definition
from mayflydb.engine.expiry_events import EventLimits
from mayflydb.engine.lifecycle.guard import Pass
from mayflydb.engine.purge_decision import NOTHING, purge_due
from mayflydb.engine.sweep_progress import FRUITLESS_SWEEPS
from mayflydb.expiry.rules import Rule
from mayflydb.expiry.sweep import Limits, PurgeRequest, Sweep
from mayflydb.model.instant import MINUTE
from mayflydb.store.interface import Outcome

GONE = 1
"""Seconds that the records of this file live."""


@pytest.mark.parametrize("store", ["sqlite-file"], indirect=True)
def test_a_poor_budget_makes_no_sweep_of_another_container_smaller(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    definition = Definition({}, site.now, rules=(Rule("default", GONE, hides=True),))
    create = site.engine.definitions.create
    poor, rich = (site.run(create(site.home, name, definition)).id for name in ("poor", "rich"))
    limits: dict[int, list[int]] = {poor: [], rich: []}

    async def affordable(self: Billing, container: int) -> tuple[int | None, int]:
        return (FEWEST, 0) if container == poor else (None, 0)

    def note(nodes: Any, container: int, limit: int, *given: Any) -> Any:
        limits[container].append(limit)
        return purge_due(nodes, container, limit, *given)

    monkeypatch.setattr(Billing, "affordable", affordable)
    monkeypatch.setattr(sweeper, "purge_due", note)
    # So much time that no sweep takes too long, on a busy machine either.
    site.engine.reaper._sweeper.limits = Limits(duration=MINUTE)
    for container in (poor, rich):
        for number in range(2 * FEWEST + 1):
            site.write(upsert(b"%d" % number, b"v"), container)
    site.pass_seconds(2)
    request = PurgeRequest(site.now, site.now, "sweep", within_budget=True)
    assert site.run(site.engine.reaper.sweep_due(request)) == {poor: 2 * FEWEST + 1, rich: 2 * FEWEST + 1}
    assert set(limits[poor]) == {FEWEST}
    assert set(limits[rich]) == {Limits().first}


@pytest.mark.parametrize("store", ["sqlite-file"], indirect=True)
def test_a_container_that_cannot_be_purged_holds_up_no_other(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    definition = Definition({}, site.now, rules=(Rule("default", GONE, hides=True),))
    create = site.engine.definitions.create
    stuck, free = (site.run(create(site.home, name, definition)).id for name in ("stuck", "free"))
    tried: list[int] = []

    def decide(nodes: Any, container: int, *rest: Any) -> Any:
        if container == stuck:
            tried.append(container)
            return Outcome((), NOTHING)
        return (yield from purge_due(nodes, container, *rest))

    monkeypatch.setattr(sweeper, "purge_due", decide)
    for container in (stuck, free):
        site.write(upsert(b"k", b"v"), container)
    site.pass_seconds(2)
    request = PurgeRequest(site.now, site.now, "sweep")
    assert +site.run(site.engine.reaper.sweep_due(request)) == {free: 1}
    assert len(tried) == FRUITLESS_SWEEPS
    # Only that request has left it out.
    monkeypatch.undo()
    assert +site.run(site.engine.reaper.sweep_due(request)) == {stuck: 1}


@pytest.mark.parametrize("store", ["contract-reference"], indirect=True)
@pytest.mark.parametrize(
    ("seconds", "kept", "comes_first"), [(60.0, 100, "purge"), (0.0, 100, "reader"), (60.0, 5, "reader")]
)
def test_a_reader_of_events_waits_for_a_purge_but_not_for_long(
    site: Site, monkeypatch: pytest.MonkeyPatch, seconds: float, kept: int, comes_first: str
) -> None:
    """`kept`: events at most. Three are unread: with half of five, the reader is far behind."""
    monkeypatch.setattr(reaper, "WAY_SECONDS", seconds)
    monkeypatch.setattr(site.engine.reaper.events, "_limits", EventLimits(kept, None))
    for key in (b"x", b"y", b"z"):
        site.write(upsert(key, b"v", GONE))
    site.pass_seconds(2)
    site.run(site.engine.reaper.sweep_due(PurgeRequest(site.now, site.now, "sweep")))
    order: list[str] = []

    async def work() -> None:
        await site.engine.reaper.give_way(0)  # Nothing is purged: at once.
        began, go_on = asyncio.Event(), asyncio.Event()

        async def hold(_: Sweep, limit: int, request: PurgeRequest, permit: Pass) -> int:
            began.set()
            await go_on.wait()
            return 0

        monkeypatch.setattr(site.engine.reaper._sweeper, "_sweep", hold)
        request = PurgeRequest(site.now, site.now, "sweep")

        async def purge() -> Counter[int]:
            done = await site.engine.reaper.sweep_due(request)
            order.append("purge")
            return done

        async def read() -> None:
            await site.engine.reaper.give_way(0)
            order.append("reader")
            go_on.set()

        purging = asyncio.create_task(purge())
        await began.wait()
        reading = asyncio.create_task(read())
        if comes_first == "purge":
            # A turn of the loop, in which the reader begins to wait.
            await asyncio.sleep(0)
            go_on.set()
        await asyncio.gather(purging, reading)

    site.write(upsert(b"a", b"v", GONE))
    site.pass_seconds(2)
    site.run(work())
    assert order[0] == comes_first
