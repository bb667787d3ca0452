"""A machine whose clocks a test moves, and processes on it that come and go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from mayflydb.clock import Belief, Pace, SystemClock
from mayflydb.embedded import settings_from
from mayflydb.engine.timekeeper import Timekeeper
from mayflydb.serving.clocks import build_host_clock
from mayflydb.serving.stores import OpenedStore
from mayflydb.store.interface import Committed, Decision, Read, Store, Urgency
from store_suite.reference import ReferenceStore

T = TypeVar("T")

S = 1_000_000
MINUTE, HOUR, DAY, YEAR = 60 * S, 3600 * S, 86_400 * S, 31_557_600 * S
START = 1_893_456_000 * S


async def _read_no_sizes() -> dict[str, int]:
    return {}


class Disk:
    """A durable store of which only this much survives a power cut: what was committed."""

    description, durable, catalog_version = "sqlite", True, 0

    def __init__(self) -> None:
        self.store = ReferenceStore()
        self.delay = 0
        self.failing = False

    async def read(self, request: Read[T]) -> T:
        return await self.store.read(request)

    async def write(self, decide: Callable[[], Decision[T]], urgency: Urgency = "user") -> Committed[T]:
        for _ in range(self.delay):
            await asyncio.sleep(0)
        if self.failing:
            raise OSError("no power")
        return await self.store.write(decide, urgency)


class Host:
    """A machine: `pass_` lets time pass, `step` sets the wall clock, `boot_again` begins a new boot.

    `reads` counts how often its clocks were read.
    """

    def __init__(self) -> None:
        self.wall, self.boot, self.boot_id = START, 1000 * S, 7
        self.reads = 0

    def pass_(self, span: int) -> None:
        self.wall += span
        self.boot += span

    def step(self, span: int) -> None:
        self.wall += span

    def boot_again(self) -> None:
        self.boot, self.boot_id = 5 * S, self.boot_id + 1

    def look_at_wall(self) -> int:
        self.reads += 1
        return self.wall

    def look_at_boot(self) -> int:
        self.reads += 1
        return self.boot

    def clock(
        self, mark: int | None = None, belief: Belief | None = None, shift: int = 0, pace: Pace | None = None
    ) -> SystemClock:
        return SystemClock(
            mark, self.look_at_wall, self.look_at_boot, belief or Belief(), shift, pace, boot_id=self.boot_id
        )

    async def process(self, disk: Disk, shared: bool = False) -> Timekeeper:
        """The timekeeper of a process that starts on the store now. `shared`: on a database of several nodes."""
        store: Store = disk  # type: ignore[assignment]
        settings = settings_from(None, not shared, {"storage": "postgresql://u@h/d"} if shared else {})
        opened = OpenedStore(
            store,
            _read_no_sizes,
            self.look_at_wall,
            boot=self.look_at_boot,
            boot_id=lambda: 0 if shared else self.boot_id,
        )
        return await Timekeeper.start(await build_host_clock(settings, opened), store, shared)
