"""One run of the engine on a simulated disk: its log, what was acknowledged when, and the state after each commit."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeAlias, TypeVar
from unittest.mock import patch

import apsw

from mayflydb.clock import SystemClock
from mayflydb.engine.catalog import Definition
from mayflydb.engine.commands import Command, Draft, Mode
from mayflydb.engine.engine import BatchRefused, Engine
from mayflydb.engine.open import open_engine
from mayflydb.engine.timekeeper import MARK
from mayflydb.expiry.sweep import PurgeRequest
from mayflydb.frontends.cosmos.rules import rules_of
from mayflydb.model.errors import Conflict, NotFound
from mayflydb.model.instant import DAY
from mayflydb.model.record import Entry
from mayflydb.store.interface import Committed, Decision, NamedNumber, Read, Store, Urgency
from mayflydb.store.sqlite import checkpoint
from mayflydb.store.sqlite.doctor.contents import PLACES_MISSING, PLACES_WRONG, PURGED_LIVING
from mayflydb.store.sqlite.store import SqliteStore
from reliability.disk.platter import Event, Platter
from reliability.oracle import MICROS

T = TypeVar("T")
State: TypeAlias = tuple[tuple[Any, ...], ...]

START = 1_893_456_000 * MICROS
TABLES = ("meta", "setting", "catalog", "dropped", "record", "directory", "purged", "entry", "expiry", "history")
PATH = "store.db"


REFUSALS = (NotFound, Conflict, BatchRefused)
"""What this load must expect to be told."""


PLACES = (PLACES_MISSING, PLACES_WRONG, PURGED_LIVING)
"""Statements that find contradictions between the directory and the records."""


class Stopped(Exception):
    """What `halt` does here instead of ending the process."""


def halt(reason: str) -> NoReturn:
    """The process would have ended."""
    raise Stopped(reason)


def dump(connection: apsw.Connection) -> State:
    """Everything that is stored."""
    return tuple(tuple(connection.execute(f"SELECT * FROM {table}")) for table in TABLES)


def commit_number(state: State) -> int:
    """Which commit a state is of."""
    return int(dict(state[0])["commit_seq"])


def clock_mark(state: State) -> int:
    """The mark that time goes on from."""
    return int(dict(state[1]).get("clock_mark", 0))


class Coroner:
    """Holds each commit to this: every event it wrote is of a version that the same commit removed, and of none twice.

    The history tells the same deaths, and every version that the commit left. The directory leads to each record.
    """

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._event = 0
        self._stored = self._versions()
        self._told = self._lines()

    def _versions(self) -> set[tuple[Any, ...]]:
        return set(self._connection.execute("SELECT container, lsn FROM record"))

    def _lines(self) -> set[tuple[Any, ...]]:
        return set(self._connection.execute("SELECT container, kind, lsn, previous FROM history"))

    def look(self) -> None:
        """After a commit."""
        events = self._connection.execute(
            "SELECT id, container, version FROM expiry WHERE id > ?", (self._event,)
        ).fetchall()
        stored = self._versions()
        for version, times in Counter(event[1:] for event in events).items():
            seen = version in self._stored, version in stored
            assert (times, *seen) == (1, True, False), (
                f"{times} events about {version}, stored before and after: {seen}"
            )
        lines = self._lines()
        new = lines - self._told
        ended = sorted((container, previous) for container, kind, _, previous in new if kind == "expire")
        assert ended == sorted(event[1:] for event in events), f"the history tells of {ended}, and there are {events}"
        written = {(container, lsn) for container, kind, lsn, _ in new if kind in ("create", "replace")}
        assert stored - self._stored <= written, f"{stored - self._stored - written} are not in the history"
        for statement in PLACES:
            wrong = self._connection.execute(statement).fetchall()
            assert not wrong, f"the directory and the records contradict each other: {wrong}"
        self._told = lines
        self._event = max((int(str(event[0])) for event in events), default=self._event)
        self._stored = stored


# No repr: `asyncio.run` of Python 3.11 makes one of the result of its task, twice, which took a tenth of the power cuts.
@dataclass(repr=False)
class Recording:
    """`states` by commit number."""

    log: list[Event] = field(default_factory=list)
    states: dict[int, State] = field(default_factory=dict)


class Witness:
    """The store as clients see it: whatever is answered is noted in the disk's log, in its place."""

    def __init__(self, store: SqliteStore, disk: Platter) -> None:
        self.store = store
        self.disk = disk
        self.description = store.description
        self.durable = True

    @property
    def catalog_version(self) -> int:
        return self.store.catalog_version

    async def read(self, request: Read[T]) -> T:
        return await self.store.read(request)

    async def write(self, decide: Callable[[], Decision[T]], urgency: Urgency = "user") -> Committed[T]:
        committed = await self.store.write(decide, urgency)
        self.disk.mark("ack", committed.commit_seq)
        return committed

    async def reset(self) -> None:
        await self.store.reset()

    async def close(self) -> None:
        await self.store.close()


@contextmanager
def early_checkpoints(pages: int = 24) -> Iterator[None]:
    """The log is copied and free pages are given back after kilobytes instead of megabytes."""
    with (
        patch.object(checkpoint, "PASSIVE_PAGES", pages),
        patch.object(checkpoint, "CAP_PAGES", pages * 3),
        patch.object(checkpoint, "FREE_FLOOR_PAGES", 4),
        patch.object(checkpoint, "VACUUM_STEP_PAGES", 3),
    ):
        yield


class Load:
    """Random writes of every kind, their time running on its own."""

    def __init__(self, store: Store, seed: int, answered: Callable[[int], None] = lambda now: None) -> None:
        self.store = store
        self.random = random.Random(seed)
        self.time = START
        self._answered = answered
        self.containers: list[int] = []
        self.engine: Engine
        self._names = 0
        self._database = 0

    async def begin(self) -> None:
        """A database with two containers."""
        self.engine = await open_engine(self.store, SystemClock(None, self._look, self._look))
        now = await self.now()
        space = await self.engine.definitions.space("cosmos", now)
        self._database = (await self.engine.definitions.create(space.id, "db", Definition({}, now))).id
        for _ in range(2):
            await self.create()

    async def begin_again(self) -> None:
        """With whatever containers the store holds already."""
        self.time = (await self.store.read(NamedNumber(MARK)) or START) + MICROS
        self.engine = await open_engine(self.store, SystemClock(None, self._look, self._look))
        space = await self.engine.node("cosmos", "db")
        assert space is not None
        self._database = space.id
        containers = await self.engine.children(space.id)
        self.containers = [container.id for container in containers]
        self._names = max(int(container.name[1:]) for container in containers)
        await self.now()

    def _look(self) -> int:
        return self.time

    async def now(self) -> int:
        """The instant of a request, which its client may see."""
        now = await self.engine.now()
        self._answered(now)
        return now

    async def create(self) -> None:
        self._names += 1
        rules = rules_of(self.random.choice((None, -1, 2, 5)))
        definition = Definition({}, self.time, rules=rules, history=DAY)
        node = await self.engine.definitions.create(self._database, f"c{self._names}", definition)
        self.containers.append(node.id)

    def command(self) -> Command:
        draw = self.random
        key = b"k%d" % draw.randrange(12)
        if draw.random() < 0.15:
            return Command(Mode.DELETE, b"p", key)
        entries = (Entry(0, b"u%d" % draw.randrange(12)),) if draw.random() < 0.7 else ()
        size = draw.choice((10, 10, 300, 300, 3000, 9000))
        return Command(
            Mode.UPSERT, b"p", key, Draft(draw.randbytes(size), draw.choice((None, -1, 1, 3)), None, entries)
        )

    async def write(self) -> None:
        await self.engine.write(await self._container(), self.command(), await self.now())

    async def _container(self) -> int:
        if not self.containers:
            # The last one was dropped, and the disk failed when another was to take its place.
            await self.create()
        return self.random.choice(self.containers)

    async def several(self) -> None:
        """Writes that commit as one group."""
        writes = (self.write() for _ in range(self.random.randint(2, 5)))
        for outcome in await asyncio.gather(*writes, return_exceptions=True):
            if isinstance(outcome, BaseException) and not isinstance(outcome, REFUSALS):
                raise outcome

    async def batch(self) -> None:
        commands = [self.command() for _ in range(self.random.randint(2, 4))]
        await self.engine.write_all(await self._container(), commands, await self.now())

    async def rule(self) -> None:
        rules = rules_of(self.random.choice((None, -1, 2, 5)))
        container = await self._container()
        definition = Definition({}, self.time, rules=rules, history=DAY)
        await self.engine.definitions.replace(container, lambda node: definition, self.time)

    async def drop(self) -> None:
        container = await self._container()
        self.containers.remove(container)
        await self.engine.definitions.drop(container)
        await self.engine.reaper._housekeeping.clear_dropped()
        await self.create()

    async def sweep(self) -> None:
        await self.engine.reaper.sweep_due(PurgeRequest(self.engine.time.horizon(), await self.now(), "sweep"))

    async def run(self, steps: int) -> None:
        """From an empty store on."""
        await self.begin()
        for _ in range(steps):
            await self.step()
        if self.engine.time._renewal is not None:
            await self.engine.time._renewal

    async def step(self) -> None:
        """One of them; refusals are part of the game."""
        self.time += self.random.choice((1, 1000, 300_000, MICROS))
        moves = (self.write, self.several, self.batch, self.rule, self.drop, self.sweep)
        with suppress(*REFUSALS):
            await self.random.choices(moves, (10, 5, 4, 1, 0.5, 4))[0]()


async def with_writer(store: SqliteStore, work: Coroutine[Any, Any, None]) -> None:
    """Do it, as long as there is a writer to answer; AssertionError with its end when it ends before."""
    task, writer = asyncio.ensure_future(work), store._writer._task
    await asyncio.wait({task, writer}, return_when=asyncio.FIRST_COMPLETED)
    if not task.done():
        task.cancel()
        raise AssertionError(f"the writer ended: {writer.exception()!r}")
    await task


async def record(seed: int, steps: int, synchronous: str | None = None, lying: bool = False) -> Recording:
    """Run that many steps and return what the disk saw. `synchronous` other than FULL and `lying` disks are for controls."""
    disk = Platter(seed, lying)
    recording = Recording(disk.log)
    store = await SqliteStore.open(PATH, vfs=disk.name, halt=halt)
    transaction = store._transaction
    if synchronous is not None:
        transaction.connection.pragma("synchronous", synchronous)
    committed = transaction.publish
    coroner = Coroner(transaction.connection)

    def noted() -> None:
        committed()
        recording.states[transaction.commit_seq] = dump(transaction.connection)
        coroner.look()
        disk.mark("done", transaction.commit_seq)

    recording.states[0] = dump(transaction.connection)
    disk.mark("ack", 0)
    load = Load(Witness(store, disk), seed, lambda now: disk.mark("now", now))
    with patch.object(transaction, "publish", noted), early_checkpoints():
        await with_writer(store, load.run(steps))
        await store._writer.close()
    with suppress(apsw.Error):
        transaction.connection.close()
    return recording
