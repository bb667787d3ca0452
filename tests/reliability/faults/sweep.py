"""The n-th call of the disk fails, for n = 1, 2, 3…: nothing acknowledged may be lost, and no failure may be called a success."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import apsw

from mayflydb.model.errors import Corrupt, MayflyError, OutcomeUnknown, Unavailable
from mayflydb.model.order import Order
from mayflydb.store.interface import Committed, Decision, Read, Scan, Urgency
from mayflydb.store.sqlite.reads import scan
from mayflydb.store.sqlite.space import SpaceLimits
from mayflydb.store.sqlite.store import SqliteStore
from reliability.disk.cuts import MODES, Durable, Image
from reliability.disk.judging import reopened
from reliability.disk.platter import Create, Kind, Platter, Sync, Write, failure
from reliability.disk.recording import PATH, Load, State, Stopped, commit_number, dump, early_checkpoints, halt

T = TypeVar("T")

TRANSACTIONS = 5
"""Of one scenario; the sweep covers every call of several scenarios."""

FAILURES: dict[str, tuple[Kind, Callable[[], apsw.Error], bool]] = {
    "write error": ("write", lambda: failure(apsw.IOError, apsw.SQLITE_IOERR_WRITE), False),
    "full": ("write", lambda: failure(apsw.FullError, apsw.SQLITE_FULL), False),
    "stays full": ("write", lambda: failure(apsw.FullError, apsw.SQLITE_FULL), True),
    "full beside a reserve": ("write", lambda: failure(apsw.FullError, apsw.SQLITE_FULL), False),
    "stays full beside a reserve": ("write", lambda: failure(apsw.FullError, apsw.SQLITE_FULL), True),
    "half a write beside a reserve": ("write", lambda: failure(apsw.FullError, apsw.SQLITE_FULL), False),
    "half a write": ("write", lambda: failure(apsw.FullError, apsw.SQLITE_FULL), False),
    "sync error": ("sync", lambda: failure(apsw.IOError, apsw.SQLITE_IOERR_FSYNC), False),
    "truncate error": ("truncate", lambda: failure(apsw.IOError, apsw.SQLITE_IOERR_TRUNCATE), False),
    "read error": ("read", lambda: failure(apsw.IOError, apsw.SQLITE_IOERR_READ), False),
    "short read": ("read", lambda: failure(apsw.IOError, apsw.SQLITE_IOERR_SHORT_READ), False),
}
"""Name -> (the call that fails, with what, whether all later ones do too until space is made)."""

PATIENCE = 30.0
"""Seconds that one run may take, hundreds of times what it needs."""

AFTERMATHS = ("continue", "reopen", "kill")


class Trap:
    """Springs at the n-th call of a kind."""

    def __init__(self, disk: Platter, failure: str, n: int) -> None:
        self.kind, self._error, self._stays = FAILURES[failure]
        self._n = n
        self._half = failure.startswith("half a write")
        self.short = failure == "short read"
        self.sprung = False
        self._disk = disk

    def arm(self) -> None:
        """From now on calls count."""
        if self._half:
            self._disk.short_write = lambda path: self._counts()
        elif self.short:
            self._disk.short_read = lambda path: self._counts()
        else:
            self._disk.fault = lambda kind, path: self._error() if kind == self.kind and self._counts() else None

    def disarm(self) -> None:
        """The disk is sound."""
        self._disk.fault = self._disk.short_write = self._disk.short_read = None

    def _counts(self) -> bool:
        if self.sprung:
            return self._stays
        self._n -= 1
        self.sprung = self._n == 0
        return self.sprung

    @contextmanager
    def aside(self) -> Iterator[None]:
        """What happens here is no part of the test."""
        kept = self._disk.fault, self._disk.short_write, self._disk.short_read
        self.disarm()
        try:
            yield
        finally:
            self._disk.fault, self._disk.short_write, self._disk.short_read = kept


class Reserve:
    """A disk whose reserve ends the trouble when it is given back."""

    def __init__(self) -> None:
        self.trap: Trap | None = None
        self._size = 0

    def free(self) -> int:
        return 1 << 40

    def reserve_size(self) -> int:
        return self._size

    def reserve(self, size: int) -> None:
        self._size = size

    def release(self) -> None:
        self._size = 0
        if self.trap is not None:
            self.trap.disarm()


@dataclass
class Expected:
    """The states that may be found: the last one acknowledged, or one of those whose commit has an unknown outcome."""

    acknowledged: State
    possible: list[State] = field(default_factory=list)
    prepared: State | None = None

    def acknowledge(self, state: State) -> None:
        self.acknowledged, self.possible, self.prepared = state, [], None

    def doubt(self) -> None:
        """The commit under way has failed, and nobody knows how far it came."""
        if self.prepared is not None:
            self.possible.append(self.prepared)
            self.prepared = None

    def allows(self, state: State) -> bool:
        return state == self.acknowledged or state in self.possible


@dataclass
class Result:
    """What came of one run. `sprung`: the n-th call existed."""

    sprung: bool
    wrong: str | None
    outcomes: Counter[str]


class Watched:
    """A store on a faulty disk: answers are held against commits, and whoever waits is told when the writer is gone."""

    def __init__(self, store: SqliteStore, trap: Trap) -> None:
        self.store = store
        self._writer = store._writer._task
        transaction = store._transaction
        self.expected = Expected(dump(transaction.connection))
        self.outcomes: Counter[str] = Counter()
        self.description, self.durable = store.description, store.durable
        prepare, committed, rollback = transaction.prepare, transaction.publish, transaction.rollback

        def prepared() -> None:
            prepare()
            with trap.aside():
                self.expected.prepared = dump(transaction.connection)

        def done() -> None:
            committed()
            assert self.expected.prepared is not None
            self.expected.acknowledge(self.expected.prepared)

        def undone() -> None:
            self.expected.doubt()
            rollback()

        transaction.rollback = undone  # type: ignore[method-assign]
        transaction.prepare = prepared  # type: ignore[method-assign]
        transaction.publish = done  # type: ignore[method-assign]

    @property
    def catalog_version(self) -> int:
        return self.store.catalog_version

    @property
    def answered(self) -> int:
        """The answers of a store that works. One that keeps a reserve may wait for space."""
        spared = self.outcomes["OutOfSpace"] if self.store._space is not None else 0
        return self.outcomes["done"] + self.outcomes["refused"] + spared

    async def read(self, request: Read[T]) -> T:
        return await self.store.read(request)

    async def write(self, decide: Callable[[], Decision[T]], urgency: Urgency = "user") -> Committed[T]:
        committed = await self.store.write(decide, urgency)
        assert committed.commit_seq <= commit_number(self.expected.acknowledged), "answered before it was committed"
        return committed

    async def reset(self) -> None:
        await self.store.reset()

    async def close(self) -> None:
        await self.store.close()

    async def wait(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Its result; None after a failure that was reported as it should be. Stopped when the process would have ended."""
        task = asyncio.ensure_future(work)
        await self.gone_or({task})
        try:
            result = await task
            self.outcomes["done"] += 1
            return result
        except Stopped:
            self._raise_end()
        except OutcomeUnknown:
            self.outcomes["unknown"] += 1
        except (Unavailable, Corrupt) as error:
            self.outcomes[type(error).__name__] += 1
        except MayflyError:
            self.outcomes["refused"] += 1
        except apsw.Error as error:
            raise AssertionError(f"the store let {error!r} escape") from error
        if self._writer.done():
            self._raise_end()
        return None

    async def gone_or(self, tasks: set[asyncio.Task[Any]]) -> None:
        """Wait for the tasks, as long as there is a writer to answer them."""
        while pending := {task for task in tasks if not task.done()}:
            await asyncio.wait({*pending, self._writer}, return_when=asyncio.FIRST_COMPLETED)
            if self._writer.done() and not all(task.done() for task in tasks):
                for task in tasks:
                    task.cancel()
        if self._writer.done() and not (self.store._writer._queues.closing and self._writer.exception() is None):
            self._raise_end()

    def _raise_end(self) -> None:
        # None: it was closed, and somebody had come too late.
        error = self._writer.exception()
        self.expected.doubt()
        if isinstance(error, Stopped):
            self.outcomes["stopped"] += 1
            raise error
        raise AssertionError(f"the writer is gone, and everybody waits for ever: {error!r}")


def template(seed: int) -> Image:
    """The files of a store that has some records, and a log that was not copied."""

    async def fill() -> Image:
        disk = Platter(seed)
        store = await SqliteStore.open(PATH, vfs=disk.name, halt=halt)
        load = Load(store, seed)
        await load.begin()
        for _ in range(12):
            await load.step()
        if load.engine.time._renewal is not None:
            await load.engine.time._renewal
        await store._writer.close()
        image = {path: bytes(content) for path, content in disk.files.items()}
        store._transaction.connection.close()
        return image

    return asyncio.run(fill())


def disk_of(image: Image, seed: int) -> Platter:
    """A disk that holds these files, durably."""
    disk = Platter(seed)
    for path, content in image.items():
        disk.files[path] = bytearray(content)
        disk.log += [Create(path), Write(path, 0, content), Sync(path)]
    return disk


def after(disk: Platter, mode: str, draw: random.Random) -> Image:
    """What the disk holds when power is lost now; `all`: when only the process ends."""
    durable = Durable()
    for event in disk.log:
        durable.take(event)
    return durable.image(mode, draw)


async def run(image: Image, seed: int, fault: str, n: int, aftermath: str, directory: Path) -> Result:
    """One scenario with one fault in it, and one way to go on afterwards."""
    disk = disk_of(image, seed)
    draw = random.Random(f"{seed} {fault} {n}")
    reserve = Reserve()
    limits = SpaceLimits(1, 0) if "reserve" in fault else None
    # Either the next look at the disk comes at once and finds space again, or none comes, and growing writes are refused.
    ticks = count(0, 500_000 if n % 2 else 0)
    store = await SqliteStore.open(
        PATH, vfs=disk.name, halt=halt, stopwatch=lambda: next(ticks), limits=limits, volume=reserve
    )
    if FAILURES[fault][0] == "read":
        store._transaction.connection.pragma("cache_size", 2)
    reserve.trap = trap = Trap(disk, fault, n)
    watched = Watched(store, trap)
    load = Load(watched, seed)
    await load.begin_again()
    mode = "all"
    trap.arm()
    try:
        await _scenario(load, watched, trap, aftermath)
        if aftermath == "reopen":
            trap.disarm()
            await watched.wait(store.close())
        else:
            await _quiet(load, watched)
            mode = "none" if aftermath == "continue" else "all"
    except Stopped:
        # After a failed sync nobody knows which of the pending pages the disk has.
        mode = draw.choice(tuple(MODES))
    except AssertionError as error:
        await _end(load, store, trap)
        return Result(trap.sprung, str(error), watched.outcomes)
    found = after(disk, mode, draw)
    if fault == "sync error" and trap.sprung and not watched.outcomes["stopped"]:
        await _end(load, store, trap)
        return Result(True, "a failed sync did not end the process", watched.outcomes)
    await _end(load, store, trap)
    return Result(trap.sprung, _judged(found, watched, fault, directory), watched.outcomes)


async def _scenario(load: Load, watched: Watched, trap: Trap, aftermath: str) -> None:
    for _ in range(TRANSACTIONS):
        await watched.wait(load.step())
        if trap.sprung and aftermath != "continue":
            break
    trap.disarm()
    if trap.sprung and aftermath == "continue":
        # The disk is sound again: the store must work as if nothing had been.
        for attempt in range(2):
            before = watched.answered
            await watched.wait(load.write())
            worked = watched.answered > before
            # Zeros that were read in place of a page stay in the cache until the next start.
            assert worked or attempt == 0 or trap.short, f"the disk is sound, and writes still fail: {watched.outcomes}"


async def _quiet(load: Load, watched: Watched) -> None:
    """No work is left in the background."""
    await watched.store._rounds.close()
    renewal = load.engine.time._renewal
    if renewal is not None:
        await watched.gone_or({renewal})
        if not renewal.cancelled():
            renewal.exception()
    for _ in range(5):
        await asyncio.sleep(0)
    await watched.gone_or(set())


async def _end(load: Load, store: SqliteStore, trap: Trap) -> None:
    trap.disarm()
    renewal = load.engine.time._renewal
    for task in (renewal, store._rounds._task, store._writer._task):
        if task is not None:
            task.cancel()
            await asyncio.wait({task})
            if not task.cancelled():
                task.exception()
    store._transaction.connection.close()


def _judged(image: Image, watched: Watched, fault: str, directory: Path) -> str | None:
    noticed = any(watched.outcomes[kind] for kind in ("Unavailable", "Corrupt", "unknown", "stopped"))
    try:
        state = reopened(image, directory)
    except Exception as error:  # noqa: BLE001 -- whatever it raises, the store does not come up.
        # Half a page that reads as zeros cannot be survived, only detected.
        return None if fault == "short read" else f"does not come up: {error!r}"
    if watched.expected.allows(state):
        return None
    if fault == "short read" and (noticed or _checksums_fail(directory)):
        return None
    return f"the state is neither what was acknowledged nor what may have been: {watched.outcomes}"


def _checksums_fail(directory: Path) -> bool:
    connection = apsw.Connection(str(directory / PATH))
    try:
        for (container,) in connection.execute("SELECT DISTINCT container FROM record").fetchall():
            scan(connection, Scan(int(str(container)), b"", None, Order.CREATED, None, 10_000))
    except Corrupt:
        return True
    finally:
        connection.close()
    return False


@dataclass
class Findings:
    """What a sweep found: how many calls failed, what the store said, and what was wrong."""

    points: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def sweep(seeds: Iterable[int], kinds: tuple[str, ...], aftermaths: tuple[str, ...], directory: Path) -> Findings:
    """Fail each call of these scenarios once. With several `kinds` and `aftermaths` they take turns from call to call."""
    findings = Findings()
    with early_checkpoints(8):
        for seed in seeds:
            image = template(seed)
            sprung, n = True, 0
            while sprung:
                n += 1
                fault, aftermath = kinds[(n + seed) % len(kinds)], aftermaths[(n // len(kinds)) % len(aftermaths)]
                try:
                    result = asyncio.run(asyncio.wait_for(run(image, seed, fault, n, aftermath, directory), PATIENCE))
                except TimeoutError:
                    result = Result(True, f"nothing ends within {PATIENCE} s", Counter())
                sprung = result.sprung
                findings.points += sprung
                findings.outcomes += result.outcomes
                if result.wrong is not None:
                    findings.wrong.append(f"seed {seed}, {fault} {n}, {aftermath}: {result.wrong}")
    return findings


def recover(seed: int, failure: str, n: int, directory: Path) -> tuple[bool, str | None]:
    """Opening a store meets the fault: it is refused by name or comes up right, and the next attempt comes up right.

    Beside a reserve, a full disk is no reason not to come up.
    """
    image = template(seed)
    expected = reopened(image, directory)
    disk = disk_of(image, seed)
    reserve = Reserve()
    reserve.trap = trap = Trap(disk, failure, n)
    limits = SpaceLimits(1, 0) if "reserve" in failure else None
    trap.arm()

    async def attempt() -> State | None:
        try:
            store = await SqliteStore.open(PATH, vfs=disk.name, halt=halt, limits=limits, volume=reserve)
        except (Unavailable, Stopped):
            return None
        trap.disarm()
        state = dump(store._transaction.connection)
        await store._writer.close()
        return state

    state = asyncio.run(attempt())
    trap.disarm()
    if state is None and limits is not None:
        return trap.sprung, f"{failure} {n} while opening: it did not come up"
    if state is not None and state != expected:
        return trap.sprung, f"{failure} {n} while opening: came up with another state"
    found = reopened(after(disk, "all", random.Random(n)), directory)
    return (
        trap.sprung,
        None if found == expected else f"{failure} {n} while opening: the next start found another state",
    )
