"""A long write holds the store's writer, and with it the clock's mark: reads do not wait for it, and no answer is taken back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from mayflydb.engine import timekeeper
from mayflydb.engine.catalog import Definition
from mayflydb.engine.commands import Command, Draft, Mode
from mayflydb.engine.engine import LONG_WRITE, Engine
from mayflydb.engine.open import open_engine
from mayflydb.engine.timekeeper import FURTHER, MARK, Timekeeper
from mayflydb.expiry.rules import Rule
from mayflydb.model.errors import Unavailable
from mayflydb.store.interface import Committed, Decision, NamedNumber, Urgency
from reliability.clock.host import START, Disk, Host, S

T = TypeVar("T")

RULES = (Rule("default", None, overrides=True, hides=True),)


class HeldDisk(Disk):
    """One writer, in the order of the writes; each waits while `opened` is not set, which `passes` more writes clear.

    `full`: no write is possible.
    """

    def __init__(self) -> None:
        super().__init__()
        self.opened = asyncio.Event()
        self.opened.set()
        self.passes = -1
        self.full = False
        self._writer = asyncio.Lock()

    async def write(self, decide: Callable[[], Decision[T]], urgency: Urgency = "user") -> Committed[T]:
        async with self._writer:
            await self.opened.wait()
            if self.full:
                raise Unavailable("the disk is full")
            self.passes -= 1
            if not self.passes:
                self.opened.clear()
            return await super().write(decide, urgency)

    async def close(self) -> None:
        await self.store.close()

    async def mark(self) -> int:
        return await self.store.read(NamedNumber(MARK)) or 0


Scene = Callable[[Host, HeldDisk], Coroutine[Any, Any, None]]


@pytest.fixture(autouse=True)
def without_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests wait for no reservation behind a long write, not even for the milliseconds that are allowed."""
    monkeypatch.setattr(timekeeper, "PATIENCE", 0)


def play(scene: Scene) -> None:
    async def run() -> None:
        await scene(Host(), HeldDisk())

    asyncio.run(run())


async def turns() -> None:
    """Let all tasks go on until they wait for the disk."""
    for _ in range(30):
        await asyncio.sleep(0)


async def settled(time: Timekeeper) -> int:
    now = await time.now()
    if time._renewal is not None:
        await time._renewal
    return now


def test_time_goes_on_while_a_long_write_has_the_writer() -> None:
    async def scene(host: Host, disk: HeldDisk) -> None:
        time = await host.process(disk)
        async with time.long_write():
            assert await disk.mark() == START + FURTHER
            disk.opened.clear()
            for passed in range(4):
                assert await time.now() == START + passed * S
                host.pass_(S)
            disk.opened.set()
        host.pass_(S)
        await settled(time)
        assert await disk.mark() == START + 6 * S, "after the long write, a second is reserved ahead as before"

    play(scene)


def test_reads_behind_a_longer_one_see_time_stand_still_and_nothing_is_taken_back() -> None:
    async def scene(host: Host, disk: HeldDisk) -> None:
        time = await host.process(disk)
        async with time.long_write():
            disk.opened.clear()
            host.pass_(10 * S)
            assert [await time.now(), await time.now()] == [START + FURTHER] * 2
            assert time.stands_still
            assert time.horizon() <= START + FURTHER, "no record is purged that reads still see"
            # The power is cut here, and the clock comes back an hour late.
            host.step(-3600 * S)
            later = await host.process(disk)
            assert await later.now() >= START + FURTHER
            host.step(3600 * S)
            disk.opened.set()
            await time.catch_up()
            assert await time.now() == START + 10 * S
            assert time.horizon() == START + 10 * S
            assert not time.stands_still

    play(scene)


def test_a_mark_that_was_queued_long_ago_is_of_the_instant_at_which_it_is_decided() -> None:
    async def scene(host: Host, disk: HeldDisk) -> None:
        time = await host.process(disk)
        async with time.long_write():
            disk.opened.clear()
            host.pass_(5 * S)
            await time.now()
            await turns()
            host.pass_(5 * S)
        # The long write has ended, and the mark behind it is not committed yet.
        assert await time.now() == START + FURTHER
        disk.opened.set()
        await settled(time)
        assert await disk.mark() == START + 11 * S
        assert await time.now() == START + 10 * S

    play(scene)


def test_a_long_write_whose_client_has_left_holds_the_writer_as_well() -> None:
    async def scene(host: Host, disk: HeldDisk) -> None:
        engine, it = await start_engine(host, disk)
        disk.passes = 1
        many = [put(number) for number in range(LONG_WRITE)]
        long = asyncio.create_task(engine.write_all(it, many, await engine.now()))
        await turns()
        long.cancel()
        await turns()
        host.pass_(20 * S)
        assert await engine.now() == START + FURTHER
        disk.opened.set()
        await engine.time.catch_up()
        assert await engine.now() == START + 20 * S
        disk.opened.clear()
        host.pass_(20 * S)
        reader = asyncio.create_task(engine.now())
        await turns()
        assert not reader.done()
        disk.opened.set()
        assert await reader == START + 40 * S
        await engine.indexes.close()

    play(scene)


def test_requests_wait_where_no_long_write_is_under_way() -> None:
    """After an idle hour, the end of the last reservation is no answer."""

    async def scene(host: Host, disk: HeldDisk) -> None:
        time = await host.process(disk)
        await settled(time)
        host.pass_(3600 * S)
        disk.opened.clear()
        reader = asyncio.create_task(time.now())
        await turns()
        assert not reader.done()
        disk.opened.set()
        assert await reader == START + 3600 * S

    play(scene)


def test_a_node_among_others_does_not_stand_still() -> None:
    """Others see a record dead meanwhile, so it must not be alive here."""

    async def scene(host: Host, disk: HeldDisk) -> None:
        time = await host.process(disk, shared=True)
        async with time.long_write():
            disk.opened.clear()
            host.pass_(10 * S)
            reader = asyncio.create_task(time.now())
            await turns()
            assert not reader.done()
            disk.opened.set()
            assert await reader == START + 10 * S

    play(scene)


def test_a_disk_that_takes_no_mark_refuses_the_write_itself() -> None:
    """The reservation ahead is no reason of its own to refuse."""

    async def scene(host: Host, disk: HeldDisk) -> None:
        time = await host.process(disk)
        await settled(time)
        disk.full = True
        host.pass_(10 * S)
        async with time.long_write():
            assert await time.now() == START + S

    play(scene)


def put(key: int, life: int | None = None) -> Command:
    return Command(Mode.UPSERT, b"p", key.to_bytes(4), Draft(b"value", life))


async def start_engine(host: Host, disk: HeldDisk) -> tuple[Engine, int]:
    engine = await open_engine(disk, host.clock())  # type: ignore[arg-type]
    home = await engine.definitions.space("site", await engine.now())
    made = await engine.definitions.create(home.id, "it", Definition({}, await engine.now(), rules=RULES))
    return engine, made.id


def test_requests_beside_a_write_of_many_commands() -> None:
    """A read is answered at once. A write waits for time to go on: it lives as long as it should."""

    async def scene(host: Host, disk: HeldDisk) -> None:
        engine, it = await start_engine(host, disk)
        # Its reservation is committed, and its own commit is held.
        disk.passes = 1
        many = [put(number) for number in range(LONG_WRITE)]
        long = asyncio.create_task(engine.write_all(it, many, await engine.now()))
        await turns()
        assert not disk.opened.is_set()
        host.pass_(20 * S)
        now = await engine.now()
        assert now == START + FURTHER
        small = asyncio.create_task(engine.write(it, put(LONG_WRITE, life=2), now))
        await turns()
        assert not long.done() and not small.done()
        disk.opened.set()
        await long
        written = (await small).record.written
        assert written == START + 20 * S
        assert await disk.mark() >= written
        host.pass_(S)
        node = await engine.node_by_id(it)
        assert node is not None
        assert await engine.get(node, b"p", LONG_WRITE.to_bytes(4), await engine.now()) is not None
        await engine.indexes.close()

    play(scene)


def test_a_small_write_reserves_no_more_than_before() -> None:
    async def scene(host: Host, disk: HeldDisk) -> None:
        engine, it = await start_engine(host, disk)
        await engine.write_all(it, [put(number) for number in range(LONG_WRITE - 1)], await engine.now())
        assert await disk.mark() == START + S
        await engine.indexes.close()

    play(scene)
