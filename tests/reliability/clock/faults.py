"""Faults of the clock, each a function that sets up a server, does the fault, and returns what it has measured.

The clocks of the machine are injected, so that neither a fault nor a wait for an hour takes time; a stopped process is a real
one. Each can be called alone: `FAULTS["-2 h"]({"path": file})` with a new file, `stopped_process(directory)`.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import ydb
from azure.cosmos import CosmosClient
from pymongo import MongoClient

from mayflydb.clock import wall_us
from mayflydb.config.settings import StorageSettings
from mayflydb.embedded import RunningServer, serve
from mayflydb.engine.timekeeper import MARK
from mayflydb.model.instant import to_datetime
from mayflydb.serving import stores
from mayflydb.serving.stores import OpenedStore
from mayflydb.store.interface import NamedNumber
from reliability.clock.shop import WIRES, Shop
from reliability.kill9.process import Server
from served import Http

MINUTE, HOUR, DAY = 60, 3600, 86_400
LIVES: Mapping[str, int | None] = {"a second": 1, "half an hour": 30 * MINUTE, "five days": 5 * DAY, "ever": None}
EMULATOR_KEY = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="


class Measured(msgspec.Struct):
    """What a fault did to records on three wires.

    `looks`: how often all records were looked for. `early`: records that could not be read before their end, `dead`: that could
    be read after it. `purged_early`: records that were purged before their end. `alarm`: the fault was told of by `clock show`.
    `mark_ahead`: seconds by which the stored mark is ahead of true time in the end. `starts_again`: so does the server, without
    an alarm; False where there is nothing to start with.
    """

    fault: str
    looks: int = 0
    early: int = 0
    dead: int = 0
    purged_early: int = 0
    alarm: bool = False
    mark_ahead: float = 0.0
    starts_again: bool = False


class Machine:
    """The clocks of a machine, moved from outside. True time is what passes, real or not."""

    def __init__(self) -> None:
        self._step = self._passed = 0
        self._boot_id = 1

    def step(self, seconds: float) -> None:
        """Set the wall clock."""
        self._step += round(seconds * 1_000_000)

    def pass_(self, seconds: float) -> None:
        """Let time pass."""
        self._passed += round(seconds * 1_000_000)

    def boot(self) -> None:
        """Begin a new boot."""
        self._boot_id += 1

    @property
    def true(self) -> datetime:
        return to_datetime(wall_us() + self._passed).replace(tzinfo=UTC)

    @contextmanager
    def serve(self, **keywords: Any) -> Iterator[RunningServer]:
        """Serve a store on this machine."""

        async def open_store(storage: StorageSettings, alone: bool, secure: bool) -> OpenedStore:
            opened = await stores.open_store(storage, alone, secure)
            return opened._replace(
                wall=lambda: opened.wall() + self._passed + self._step,
                boot=lambda: opened.boot() + self._passed,
                boot_id=lambda: self._boot_id,
            )

        with (
            patch("mayflydb.serving.engines.open_store", open_store),
            serve(**keywords, port=0, mongo_expiry="hide", ydb_hide_expired=True, sweep_interval="10ms") as server,
        ):
            yield server


class Trial:
    """One fault on one server, whose shop is stocked at the beginning."""

    def __init__(self, fault: str, place: Mapping[str, Any]) -> None:
        self.machine = Machine()
        self.measured = Measured(fault)
        self.stopped = timedelta()
        """How long time stood still: records live as much longer."""

        self._place = place
        self._began = self.machine.true
        self._hidden: set[str] = set()

    @contextmanager
    def server(self) -> Iterator[Running]:
        with ExitStack() as stack:
            server = stack.enter_context(self.machine.serve(**self._place))
            running = Running(self, server, stack)
            yield running
            self.measured.mark_ahead = running.mark_ahead()

    def stock(self, running: Running) -> None:
        running.shop.open()
        self._began = self.machine.true
        running.shop.stock(self._began, LIVES)
        # Dead before the fault, and to stay so.
        self.machine.pass_(2)
        running.look()

    def alive(self) -> set[str]:
        """What should be readable now, by true time."""
        age = (self.machine.true - self._began - self.stopped).total_seconds()
        return {id for id, life in LIVES.items() if life is None or life > age}


class Running:
    """The server of a trial, and its clients."""

    def __init__(self, trial: Trial, server: RunningServer, stack: ExitStack) -> None:
        self._trial = trial
        self.server = server
        driver = stack.enter_context(server.ydb.driver())
        self.shop = Shop(server.cosmos.client(), stack.enter_context(server.mongo.client()), driver)
        stack.callback(self.shop.close)

    def look(self, hidden: bool = False) -> None:
        """Compare what can be read, and what is stored, with what should be. `hidden`: a wrong time may hide records."""
        measured, alive = self._trial.measured, self._trial.alive()
        found = self.shop.readable(LIVES)
        measured.looks += 1
        measured.early += 0 if hidden else sum(len(alive - found[wire]) for wire in WIRES)
        measured.dead += sum(len(found[wire] - alive) for wire in WIRES)
        self.server.purge()
        counts = self.server.stats()["targets"].values()
        measured.purged_early += sum(max(0, len(alive) - each["records"] - each["hidden"]) for each in counts)
        measured.alarm |= self.jump() is not None

    def jump(self) -> dict[str, Any] | None:
        shown: dict[str, Any] = self.server._home.call(self.server._admin.clock.show())
        jump: dict[str, Any] | None = shown["jump"]
        return jump

    def now(self) -> datetime:
        return self.server.clock.now()

    def decide(self, verdict: Any) -> None:
        self.server._home.call(self.server._admin.clock.settle(verdict))

    def mark_ahead(self) -> float:
        """How far the store's mark, or in memory the latest instant that was used, is ahead of true time."""
        engine = self.server._admin.engine
        mark = self.server._home.call(engine.store.read(NamedNumber(MARK))) or engine.time.latest
        return round((mark - wall_us() - self._trial.machine._passed) / 1_000_000, 3)


def step_back(place: Mapping[str, Any]) -> Measured:
    """The wall clock goes back two hours, and is set right a quarter of an hour later. Time stands still meanwhile."""
    trial = Trial("clock -2 h", place)
    with trial.server() as running:
        trial.stock(running)
        before = running.now()
        trial.machine.step(-2 * HOUR)
        for _ in range(3):
            running.look()
            trial.machine.pass_(5 * MINUTE)
            trial.stopped += timedelta(minutes=5)
        running.look()
        assert running.now() - before < timedelta(minutes=1), "time did not stand still"
        trial.machine.step(2 * HOUR)
        trial.stopped = timedelta()
        trial.machine.pass_(HOUR)
        running.look()
    return _restarted(trial)


def ten_days_for_a_second(place: Mapping[str, Any]) -> Measured:
    """The wall clock goes forward ten days, and is set right a second later. Nothing follows."""
    trial = Trial("clock +10 d for 1 s", place)
    with trial.server() as running:
        trial.stock(running)
        trial.machine.step(10 * DAY)
        running.look()
        trial.machine.pass_(1)
        running.look()
        trial.machine.step(-10 * DAY)
        running.look()
        assert running.jump() is None, "the alarm goes on"
        trial.machine.pass_(HOUR)
        running.look()
    return _restarted(trial)


def thirty_days_at_start(place: Mapping[str, Any], boots: bool) -> Measured:
    """The wall clock goes forward thirty days while the server is down; it is rejected, and set right later.

    `boots`: the machine is booted meanwhile, so that a jump and a long stop look alike: reads follow until it is rejected. With
    PostgreSQL this is always so.
    """
    trial = Trial("clock +30 d at start" + (", after a boot" if boots else ""), place)
    with trial.server() as running:
        trial.stock(running)
    trial.machine.step(30 * DAY)
    if boots:
        trial.machine.boot()
    with trial.server() as running:
        follows = boots or "storage" in place
        running.look(hidden=follows)
        running.decide("reject")
        running.look()
        trial.machine.pass_(HOUR)
        running.look()
    with trial.server() as running:
        running.look()
        trial.machine.step(-30 * DAY)
        running.look()
    return _restarted(trial)


def _restarted(trial: Trial) -> Measured:
    if "memory" not in trial._place:
        # A start goes on from the mark, which is a second ahead.
        trial.machine.pass_(2)
        with trial.server() as running:
            running.look()
            trial.measured.starts_again = running.jump() is None
    return trial.measured


def stopped_process(directory: Path, seconds: float = 3.0) -> Measured:
    """The process is stopped (SIGSTOP) for longer than some records live, and goes on (SIGCONT)."""
    measured = Measured(f"SIGSTOP for {seconds:g} s")
    lives: Mapping[str, int | None] = {"a moment": 2, "an hour": HOUR, "ever": None}
    with Hiding(directory, ydb=True) as server, ExitStack() as stack:
        server.start()
        shop = _shop_of(server, stack)
        shop.open()
        shop.stock(datetime.now(UTC), lives)
        os.kill(server.pid, signal.SIGSTOP)
        try:
            threading.Event().wait(seconds)
        finally:
            os.kill(server.pid, signal.SIGCONT)
        found = shop.readable(lives)
        measured.looks = 1
        measured.early = sum(len({"an hour", "ever"} - found[wire]) for wire in WIRES)
        measured.dead = sum("a moment" in found[wire] for wire in WIRES)
        measured.alarm = Http(server.port).get("clock")["jump"] is not None
    return measured


class Hiding(Server):
    """A server that hides what is due on all wires."""

    @property
    def _arguments(self) -> list[str]:
        return [*super()._arguments, "--mongo-port", "0", "--mongo-expiry", "hide", "--ydb-hide-expired"]


def _shop_of(server: Server, stack: ExitStack) -> Shop:
    ports = Http(server.port).get("info")["ports"]
    driver = stack.enter_context(ydb.Driver(endpoint=server.ydb, database="/local"))
    driver.wait(timeout=10, fail_fast=True)
    mongo: MongoClient[dict[str, Any]] = MongoClient("127.0.0.1", ports["mongo"])
    stack.callback(mongo.close)
    shop = Shop(CosmosClient(f"http://127.0.0.1:{server.port}", EMULATOR_KEY), mongo, driver)
    stack.callback(shop.close)
    return shop


FAULTS: Mapping[str, Callable[[Mapping[str, Any]], Measured]] = {
    "-2 h": step_back,
    "+10 d for 1 s": ten_days_for_a_second,
    "+30 d at start": lambda place: thirty_days_at_start(place, False),
    "+30 d at start, after a boot": lambda place: thirty_days_at_start(place, True),
}
"""Faults of the wall clock, by what they are called. Each is given the place of a new store, as keywords of `serve`."""
