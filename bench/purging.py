"""Purging: how fast with nothing else to do, and what readers notice of it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import NamedTuple

import apsw
from figures import Figure, at_most, microseconds, rate
from filling import fill, load, many
from log_bytes import LogBytes
from pacing import KEYS, Reader
from servers import Running, asked, script
from signed import Caller, item
from watchdog import Lateness, Watchdog

from mayflydb.clock import SystemClock, wall_us
from mayflydb.engine.catalog import Definition
from mayflydb.engine.open import open_engine
from mayflydb.expiry.rules import Rule
from mayflydb.expiry.sweep import PurgeRequest
from mayflydb.model.instant import HOUR, SECOND, floor_to_second
from mayflydb.serving.process import loop_factory
from mayflydb.store.sqlite import SqliteStore

COUNT = 60_000
ROUNDS = 3
SIZES = {"1 KB": 1024, "200 B": 200}
TARGET, BLOCK_MS = 400_000, 5.0
LOG_SHARE = 0.3
"""Bytes of log for a byte that is purged."""

_BARE = """CREATE TABLE record (key BLOB PRIMARY KEY, anchor INTEGER, value BLOB);
CREATE INDEX by_anchor ON record (anchor);
CREATE TABLE event (key BLOB, anchor INTEGER);"""

PACE = 5_000
"""Items that fall due in a second while readers are watched."""

PHASE = 4.0
READS = 400
"""Point reads a second, sent at their time whether or not the one before has been answered."""


# --- with nothing else to do ---------------------------------------------------------------------------------------------


class Purged(NamedTuple):
    """Items per second, how late the loop was, microseconds of processor time of an item, bytes of log."""

    rate: float
    late: Lateness
    used: float
    logged: int


def unloaded(place: Path) -> Iterator[Figure]:
    """Rows for the rate of purging, and for how long a sweep keeps the event loop."""
    blocks: dict[str, list[Lateness]] = {}
    for name, path in (("a file", place / "purge.db"), ("memory", None)):
        for size, length in SIZES.items():
            found = []
            for _ in range(ROUNDS):
                with asyncio.Runner(loop_factory=loop_factory()) as runner:
                    found.append(runner.run(_purge(path, length)))
            blocks.setdefault(name, []).extend(each.late for each in found)
            rates = [each.rate for each in found]
            how = f"{COUNT:,} items due at once, an event for each; rounds {min(rates):,.0f}-{max(rates):,.0f}"
            target = TARGET if path is not None and length == 1024 else None
            used = microseconds(median(each.used for each in found))
            yield rate(f"purge from {name}, items of {size}, unloaded", median(rates), target, how, used)
            if path is not None:
                share = median(each.logged for each in found) / COUNT / length
                most = LOG_SHARE if length == 1024 else None
                yield _log(size, share, most)
                yield _bare(path.with_name("bare.db"), size, length)
    for name, worst in blocks.items():
        what = f"a backlog of {COUNT:,} items, nothing else to do"
        yield _lateness(f"event loop blocked by sweeps at worst, {name}", worst, what)


def _lateness(name: str, worst: list[Lateness], what: str) -> Figure:
    own = median(each.own for each in worst)
    how = f"{what}; worst of each of {len(worst)} runs, their median; {own:.2f} ms of it while the process computed"
    return at_most(name, median(each.wall for each in worst), "ms", BLOCK_MS, how)


def _log(size: str, share: float, most: float | None) -> Figure:
    name, how = f"log of a purge, items of {size}", "bytes of SQLite's write-ahead log for each byte of the items"
    if most is None:
        return Figure(name, f"{share:.2f} bytes", "", None, how, share)
    return at_most(name, share, "bytes", most, how)


def _bare(path: Path, size: str, length: int) -> Figure:
    """The least that SQLite itself needs: a table with a key and an ordered entry, and an event for each row in one commit."""
    rates, used = [], []
    for _ in range(ROUNDS):
        for each in path.parent.glob(path.name + "*"):
            each.unlink()
        connection = apsw.Connection(str(path))
        connection.pragma("journal_mode", "wal")
        connection.pragma("synchronous", 2)
        connection.execute(_BARE)
        with connection:
            rows = ((b"n%07d" % number, number, item("n", length)) for number in range(COUNT))
            connection.executemany("INSERT INTO record VALUES (?, ?, ?)", rows)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        worked, began = process_time(), perf_counter()
        with connection:
            connection.execute("INSERT INTO event SELECT key, anchor FROM record WHERE anchor < ?", (COUNT,))
            connection.execute("DELETE FROM record WHERE anchor < ?", (COUNT,))
        rates.append(COUNT / (perf_counter() - began))
        used.append((process_time() - worked) / COUNT * 1e6)
        connection.close()
    how = f"{COUNT:,} rows of one key and one ordered entry, nothing else; rounds {min(rates):,.0f}-{max(rates):,.0f}"
    name = f"bare SQLite, file, items of {size}: DELETE of all in one statement, with an event each"
    return rate(name, median(rates), None, how, microseconds(median(used)))


async def _purge(path: Path | None, length: int) -> Purged:
    """Work off one backlog as the reaper does."""
    if path is not None:
        for each in path.parent.glob(path.name + "*"):
            each.unlink()
    store = await SqliteStore.open(None if path is None else str(path))
    engine = await open_engine(store, SystemClock())
    now = await engine.now()
    space = await engine.definitions.space("cosmos", now)
    database = await engine.definitions.create(space.id, "d", Definition({}, now))
    rule = Rule("default", 3600, overrides=True, hides=True)
    container = await engine.definitions.create(database.id, "c", Definition({}, now, rules=(rule,)))
    await load(store, container.id, many(COUNT, item("n", length), now - 3 * HOUR, 20))
    engine.reaper.invalidate(container.id)
    watchdog = Watchdog()
    await asyncio.sleep(0.2)
    watchdog.restart()
    with nullcontext() if path is None else LogBytes(path) as log:
        worked, began = process_time(), perf_counter()
        purged = await engine.reaper.sweep_due(PurgeRequest(now, now, "bench"))
        taken, worked = perf_counter() - began, process_time() - worked
    await asyncio.sleep(0.005)
    late = watchdog.restart()
    watchdog.stop()
    await store.close()
    if purged[container.id] != COUNT:
        raise RuntimeError(f"{purged[container.id]} of {COUNT} items were purged")
    return Purged(COUNT / taken, late, worked / COUNT * 1e6, 0 if log is None else log.count)


# --- what readers notice -------------------------------------------------------------------------------------------------


def under_readers(place: Path) -> Iterator[Figure]:
    """The p99 of point reads while items fall due at a steady pace, against the same server when nothing does."""
    path = place / "readers.db"
    watched = Path(__file__).with_name("watched.py")
    with script(watched, str(path)) as server:
        caller = Caller(server.port)
        caller.make()
        caller.make("dying")
        caller.store(f"i{number}" for number in range(KEYS))
        caller.close()
    oldest = floor_to_second(wall_us()) - HOUR
    seconds = int((PHASE + 2) * ROUNDS) + 1
    # Anchors are whole seconds, as the protocol has them: all items of a second fall due together.
    lives = (
        (partition, key, value, anchor // SECOND * SECOND)
        for partition, key, value, anchor in many(PACE * seconds, item("n"), oldest, SECOND // PACE)
    )
    fill(path, "dying", lives)
    with script(watched, str(path)) as server:
        yield from _phases(server, oldest)


def _phases(server: Running, oldest: int) -> Iterator[Figure]:
    caller = Caller(server.port)
    idle, purging, quiet_late, late, purged = [], [], [], [], 0
    with Reader(server.port) as reader:
        reader.p99(READS, 1.0)
        for _ in range(ROUNDS):
            asked(server, "restart")
            idle.append(reader.p99(READS, PHASE))
            before = asked(server, "")
            quiet_late.append(Lateness(**before["late"]))
            # From here on the oldest item that is left is due, and every second the items of another second.
            default = (wall_us() - oldest) // SECOND
            caller.set_default_ttl(default, "dying")
            purging.append(reader.p99(READS, PHASE))
            after = asked(server, "")
            late.append(Lateness(**after["late"]))
            oldest = wall_us() // SECOND * SECOND - (default - 1) * SECOND
            caller.set_default_ttl(None, "dying")
            purged += after["purged"] - before["purged"]
    caller.close()
    share = [loaded / quiet for loaded, quiet in zip(purging, idle, strict=True)]
    per_second = purged / ROUNDS / PHASE
    if per_second < PACE / 2:
        raise RuntimeError(f"only {per_second:.0f} items were purged per second: the readers met no purge")
    how = (
        f"{median(purging) * 1e3:.2f} ms against {median(idle) * 1e3:.2f} ms at {READS} reads/s from a file while"
        f" {per_second:,.0f} items/s are purged; rounds {min(share):.2f}-{max(share):.2f}"
    )
    yield at_most("p99 of point reads under a paced purge, against idle", median(share), "x", 1.2, how)
    what = f"{PHASE:g} s of purge and reads; idle {median(each.wall for each in quiet_late):.2f} ms"
    yield _lateness("event loop late at worst under that purge", late, what)
