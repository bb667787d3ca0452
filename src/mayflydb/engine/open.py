"""Assembly of an engine from a store and a clock."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from mayflydb.clock import Clock
from mayflydb.engine.billing import Billing, Charge
from mayflydb.engine.budgets import Budgets
from mayflydb.engine.catalog import Nodes
from mayflydb.engine.definitions import Definitions
from mayflydb.engine.engine import Engine
from mayflydb.engine.housekeeping import DEFAULT_RETENTION, Retention
from mayflydb.engine.meter import Meter
from mayflydb.engine.monitor import Monitor
from mayflydb.engine.reads import Kept, keep_none
from mayflydb.engine.reaper import Lease, Reaper
from mayflydb.engine.runs import DEFAULT_PASS_SETTINGS, PassSettings
from mayflydb.engine.timekeeper import Timekeeper
from mayflydb.evaluation.evaluators import Evaluators
from mayflydb.expiry.guard import GuardLimits
from mayflydb.expiry.sweep import Limits
from mayflydb.model.instant import MILLISECOND, MINUTE, SECOND, Span
from mayflydb.model.quota import Quotas
from mayflydb.store.interface import DiskFacts, Holds, Store

INLINE_LIMIT: Span = 4 * MILLISECOND
"""The longest sweep of a store that works on the event loop itself."""

INLINE_BY_RECORD: Final = 24
"""Records that such a store purges one by one in about 2 ms."""

DATABASE_LIMITS: Final = Limits(most=2_000, duration=20 * MILLISECOND, first=1_000, fewest=500)
"""Sweeps of a database in processes of its own: the round trips of a sweep take as long as the purge of 200 records."""


async def open_engine(
    store: Store,
    clock: Clock,
    sweep_interval: Span = SECOND,
    lease: Lease | None = None,
    budgets: Budgets | None = None,
    charge: Charge = "leftover",
    pass_interval: Span = MINUTE,
    pass_settings: PassSettings = DEFAULT_PASS_SETTINGS,
    holds: Holds | None = None,
    monitored: str = "",
    evaluators: Evaluators | None = None,
    disk: Callable[[], Awaitable[DiskFacts]] | None = None,
    retention: Retention = DEFAULT_RETENTION,
    quotas: Quotas | None = None,
    kept: Kept = keep_none,
    guard: GuardLimits | None = None,
) -> Engine:
    """Assemble an engine over a store and a clock; the caller runs `engine.reaper.run()` as long as it serves.

    `lease`: for several nodes on one store. `budgets`: for requests with provisioned throughput. `charge`: the price of
    purging. `pass_interval`: the monitor's, until another one is set. `pass_settings`: the passes over containers with a schedule
    of their own. `holds`: keeps other nodes from purging records that are locked on this one. `monitored`: the name of the
    space whose containers the monitor counts and stops; empty: none. `evaluators`: the threads on which statements compute.
    `disk`: reads the state of the store's disk. `retention`: of expiry events and histories. `quotas`: the limits of the server.
    `kept`: finds a committed record that the store keeps in memory. `guard`: the limits of unexpected expiries.
    """
    nodes = Nodes()
    time = await Timekeeper.start(clock, store, shared=lease is not None)
    meter = Meter()
    billing = Billing(charge, store, nodes, budgets, meter)
    monitor = Monitor(store, clock.now(), pass_interval, monitored)
    await monitor.refresh(clock.now())
    reaper = Reaper(
        store, time, nodes, _limits(store, clock), billing, monitor, sweep_interval, lease,
        pass_settings, holds, retention, guard,
    )  # fmt: skip
    definitions = Definitions(store, nodes, reaper.invalidate)
    await reaper.survey()
    engine = Engine(
        store, time, reaper, nodes, definitions, meter, monitor, lease, budgets, evaluators, disk, quotas, kept
    )
    await engine.read_restores()
    return engine


def _limits(store: Store, clock: Clock) -> Limits:
    # By records alone: real milliseconds would make two runs of a test differ.
    if clock.mode != "real":
        return Limits(duration=None)
    if not store.durable:
        return Limits(duration=INLINE_LIMIT, by_record=INLINE_BY_RECORD)
    return DATABASE_LIMITS if store.description.startswith("postgresql:") else Limits()
