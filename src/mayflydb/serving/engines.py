"""Opens the store that the settings name with its engine and reaper, and closes them again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from os import urandom
from typing import Any

from mayflydb.announcement import StartFailed
from mayflydb.clock import SystemClock, monotonic_us
from mayflydb.config.settings import QuerySettings, Settings
from mayflydb.engine.budgets import Budgets
from mayflydb.engine.engine import Engine
from mayflydb.engine.expiry_events import EventLimits
from mayflydb.engine.housekeeping import Retention
from mayflydb.engine.lifecycle.scrubbing import Scrubber
from mayflydb.engine.open import open_engine
from mayflydb.engine.runs import PassSettings
from mayflydb.engine.selftest import prove
from mayflydb.engine.slow_log import SlowLog
from mayflydb.engine.storage_sizes import StorageSizes
from mayflydb.engine.throughput import ceiling
from mayflydb.evaluation.evaluators import EvaluationLimits, Evaluators
from mayflydb.expiry.guard import GuardLimits
from mayflydb.frontends.mongo.targets import MongoTargets
from mayflydb.model.errors import OutOfSpace
from mayflydb.model.instant import DAY, SECOND, Span
from mayflydb.model.quota import Quotas
from mayflydb.moving.copy import is_unfinished
from mayflydb.serving.clocks import build_clock, trusted_host_clock
from mayflydb.serving.stores import OpenedStore, open_store
from mayflydb.store.interface import Store

log = logging.getLogger("mayflydb.server")

EVENT_RETENTION: Span = 7 * DAY

COMPUTING_GRACE_SECONDS = 1.0
"""Seconds that queries in work are given to compute."""

LOGGING_GRACE_SECONDS = 2.0
"""Seconds in which the erasure log writes the lines of the last events at the end; the rest waits for the next start."""

OBSERVING_GRACE_SECONDS = 2.0
"""Seconds in which the ages of the last accesses are written at the end."""


class RunningEngine:
    """An engine, its store and its reaper, from `start` to `close`. `host_clock`: builds a clock that believes the host's."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._store: Store | None = None
        self._engine: Engine | None = None
        self._background: list[asyncio.Task[None]] = []
        self.host_clock: Callable[[], SystemClock] = SystemClock

    async def start(self, quotas: Quotas, report: Callable[[str], None]) -> Engine:
        """Open the store, test it, and start to purge. `report`: takes the state of the store, for `ready`.

        MayflyError or StartFailed if the store cannot be served.
        """
        settings, ttl = self._settings, self._settings.ttl
        opened = await open_store(settings.storage, settings.clock.mode == "virtual", ttl.erase == "secure")
        self._store = opened.store
        if await is_unfinished(opened.store):
            # A store that is half filled would answer 404 for records that are still to come.
            hint = "start the copy or import again: it goes on where it was"
            raise StartFailed(
                f"{settings.storage.shown} holds an unfinished copy", setting="storage.url", hint=hint, exit_code=4
            )
        self.host_clock = partial(trusted_host_clock, settings, opened)
        report("checking")
        engine = self._engine = await open_engine(
            opened.store,
            await build_clock(settings, opened),
            ttl.sweep_interval,
            opened.lease,
            Budgets(ceiling) if settings.cosmos.throttling else None,
            ttl.charge,
            ttl.mongo_sweep_interval,
            PassSettings(ttl.ydb_tick, ttl.ydb_retry_interval, ttl.ydb_removal),
            opened.holds,
            MongoTargets.space,
            Evaluators(evaluation_limits(settings.queries)),
            opened.disk,
            retention_of(settings),
            quotas,
            opened.kept,
            GuardLimits(ttl.guard_records, ttl.guard_percent) if ttl.guard else None,
        )
        engine.snapshots = opened.snapshots
        engine.reaper.shredding.keys = opened.keys
        engine.storage_sizes = StorageSizes(opened.sizes, monotonic_us)
        try:
            await prove(engine)
        except OutOfSpace as error:
            log.warning("the store was not tested, and is served for reads and deletes: %s", error)
        engine.slow_log = SlowLog(monotonic_us, settings.server.slow_request)
        await engine.undeletes.resume()
        await engine.holds.releases.resume()
        self._run(engine.reaper.run(), "reaper", "nothing is purged")
        self._prove_erasure(engine, opened)
        if ttl.sample_accesses:
            engine.accesses.sample(ttl.sample_accesses)
            self._run(engine.accesses.ages.run(), "access ages", "what is seen of accesses is not kept")
        report("ok")
        return engine

    def _prove_erasure(self, engine: Engine, opened: OpenedStore) -> None:
        """Start the erasure log and secure erase, as they are set."""
        if self._settings.ttl.erasure_log:
            engine.erasure_log.turn_on(urandom)
            self._run(engine.erasure_log.run(), "erasure log", "expiries get no lines")
        if opened.scrub is not None:
            engine.scrubber = Scrubber(opened.store, engine.reaper.notifier, engine.erasure_log, opened.scrub)
            self._run(engine.scrubber.run(), "secure erase", "nothing is overwritten for good")

    def _run(self, loop: Coroutine[Any, Any, None], name: str, without: str) -> None:
        """Run a loop in the background until `close`. `without`: the effect of its end, for the log."""

        def log_end(task: asyncio.Task[None]) -> None:
            if not task.cancelled() and (error := task.exception()) is not None:
                log.critical("the %s stopped: %s until the server is started again", name, without, exc_info=error)

        task = asyncio.create_task(loop, name=name)
        task.add_done_callback(log_end)
        self._background.append(task)

    def limit_computing(self, grace: float) -> None:
        """End the queries that still compute in `grace` seconds, or in one second if that is less: each gets an error."""
        if self._engine is not None:
            delay = min(grace, COMPUTING_GRACE_SECONDS)
            asyncio.get_running_loop().call_later(delay, self._engine.evaluators.close)

    async def close(self) -> None:
        """Stop to purge, then flush and close the store. Safe after a failed start."""
        for task in self._background:
            task.cancel()
            await asyncio.wait([task])
        if self._engine is not None:
            await self._engine.accesses.close()
            await self._engine.accesses.ages.finish(OBSERVING_GRACE_SECONDS)
            await self._engine.erasure_log.finish(LOGGING_GRACE_SECONDS)
            await self._engine.undeletes.close()
            await self._engine.holds.releases.close()
            await self._engine.indexes.close()
            self._engine.evaluators.close()
            # Generators that are not closed by then are reported by the interpreter, as it frees them.
            await self._engine.evaluators.finish()
            self._engine.loop_watch.stop()
        if self._store is not None:
            await self._store.close()


def evaluation_limits(queries: QuerySettings) -> EvaluationLimits:
    """Return the limits of evaluations. If there are several threads, one client may use all but one of them."""
    return EvaluationLimits(
        threads=queries.threads,
        per_client=max(1, queries.threads - 1),
        memory=queries.memory,
        seconds=queries.time_limit / SECOND,
    )


def retention_of(settings: Settings) -> Retention:
    """Return the retention of events and histories. On a virtual clock, age counts only if it is set: tests move it by days."""
    age = settings.ttl.event_retention
    usual = EVENT_RETENTION if age is None else age
    return Retention(EventLimits(settings.ttl.event_limit, usual, age), settings.storage.history_limit)
