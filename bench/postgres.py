"""Mayfly on PostgreSQL: against the driver alone with the same statements, and two nodes against one.

The database is a real one, started for this on the same machine: its processes share the processors with both sides.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count, cycle
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import msgspec
from figures import Figure, not_run, ratio
from filling import load, many
from protocol import rounds
from servers import Running, mayfly, processor_seconds
from signed import DATABASE, IDS, ITEM_BYTES, Caller, item
from wrk import Wrk, reads, upserts

from mayflydb.clock import SystemClock, wall_us
from mayflydb.engine.catalog import Definition
from mayflydb.engine.engine import Engine
from mayflydb.engine.open import open_engine
from mayflydb.expiry.rules import Rule
from mayflydb.expiry.sweep import PurgeRequest
from mayflydb.model.instant import HOUR, SECOND
from mayflydb.serving.process import loop_factory

CONNECTIONS = 32
SECONDS = 2.0
COUNT = 60_000
PURGES = 3

READ = f"PostgreSQL: point read of 1 KB, {CONNECTIONS} connections, against asyncpg alone"
UPSERT = f"PostgreSQL: durable upsert of 1 KB, {CONNECTIONS} connections, against asyncpg alone"
SIZES = {"1 KB": ITEM_BYTES, "200 B": 200}
PURGES_OF = {
    size: (
        f"PostgreSQL: purge of records of {name}, against one bare DELETE",
        f"PostgreSQL: purge of records of {name}, against one DELETE that writes events",
    )
    for name, size in SIZES.items()
}
TWO = f"PostgreSQL: two nodes, {CONNECTIONS // 2} connections each, against one with {CONNECTIONS}"
APART = f"{TWO}, upserts of different containers"
SERVED = (READ, UPSERT, f"{TWO}, reads", f"{TWO}, upserts", APART)
NAMES = (*SERVED, *(name for names in PURGES_OF.values() for name in names))
SECOND_CONTAINER = "second"

_UPDATE = (
    "UPDATE mayfly.record SET written = $3, anchor = $4, lsn = $5, checksum = $6, value = $7"
    " WHERE container = $1 AND seq = $2"
)
"""The columns that an upsert changes; the indexes on two of them have to be kept, too."""

_COPY = (
    "INSERT INTO mayfly.record(container, seq, hash, identity, written, anchor, lsn, checksum, partition, key, value)"
    " SELECT (SELECT max(id) FROM mayfly.catalog),"
    " seq, hash, identity, written, anchor, lsn, checksum, partition, key, value FROM mayfly.record"
)
_DELETE = "DELETE FROM mayfly.record WHERE container = $1 AND anchor <= $2"
_TELLING_DELETE = (
    f"WITH gone AS ({_DELETE} RETURNING *), numbered AS (SELECT *, row_number() OVER () AS n FROM gone)"
    " INSERT INTO mayfly.expiry(id, hash, container, partition, key, version, lsn, anchor, override, cause, rule_version,"
    " deadline, purged, how) SELECT n, hash, container, partition, key, lsn, n, anchor, override, 'default', 1, anchor, $2,"
    " 'bench' FROM numbered"
)
"""What no sweep can do without: each purge writes its event in its transaction."""


def on_postgres(wrk: Wrk) -> Iterator[Figure]:
    """All rows on PostgreSQL."""
    # The database that the tests run on is theirs.
    sys.path.append(str(Path(__file__).parents[1] / "tests"))
    from postgres_cluster import Cluster

    try:
        cluster = Cluster()
    except RuntimeError as error:
        yield from (not_run(name, str(error)) for name in NAMES)
        return
    with cluster:
        # The tests' is a small one.
        cluster.sql("ALTER SYSTEM SET shared_buffers = '128MB'")
        cluster.stop()
        cluster.start()
        if wrk.program is None:
            yield from (not_run(name, "wrk is missing") for name in SERVED)
        else:
            yield from _served(wrk, cluster.fresh())
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            for size in PURGES_OF:
                yield from runner.run(_purging(cluster.fresh(), size, lambda: cluster.sql("CHECKPOINT")))


# --- requests ------------------------------------------------------------------------------------------------------------


class Node:
    """One of Mayfly's nodes under load."""

    def __init__(self, wrk: Wrk, name: str, server: Running) -> None:
        self._wrk = wrk
        self._server = server
        self._used: dict[str, list[float]] = {}
        apart = partial(upserts, collection=f"dbs/{DATABASE}/colls/{SECOND_CONTAINER}")
        made: dict[str, Callable[[int], list[str]]] = {"read": reads, "upsert": upserts, "apart": apart}
        self._scripts = {kind: wrk.script(f"{name}-{kind}", make(server.port)) for kind, make in made.items()}

    def rate(self, kind: str, connections: int = CONNECTIONS, seconds: float = SECONDS) -> float:
        """Requests per second."""
        used = processor_seconds(self._server.pid)
        rate = self._wrk.rate(self._server.port, self._scripts[kind], connections, seconds)
        used = processor_seconds(self._server.pid) - used
        self._used.setdefault(kind, []).append(used / seconds / rate * 1e6)
        return rate

    def cost(self, kind: str) -> float:
        """Microseconds of this process's processor time for a request."""
        return median(self._used[kind])


class Bare:
    """asyncpg in a process that does nothing else, on so many connections, each asking one thing after the other.

    Its records are a copy of Mayfly's, in a container of their own.
    """

    def __init__(self, url: str) -> None:
        self._runner = asyncio.Runner(loop_factory=loop_factory())
        self._used: dict[str, list[float]] = {}
        self._lsn = count(IDS + 1)
        self._value = item("bare")
        self._connections: list[Any] = []
        self._records: list[Any] = []
        self._runner.run(self._open(url))

    def __enter__(self) -> Bare:
        return self

    def __exit__(self, *_: object) -> None:
        for connection in self._connections:
            connection.terminate()
        self._runner.close()

    async def _open(self, url: str) -> None:
        import asyncpg

        self._connections = [await asyncpg.connect(url) for _ in range(CONNECTIONS)]
        await self._connections[0].execute(_COPY)
        self._records = await self._connections[0].fetch(
            "SELECT * FROM mayfly.record WHERE container = (SELECT max(id) FROM mayfly.catalog)"
        )
        if len(self._records) != IDS:
            raise RuntimeError(f"{len(self._records)} of {IDS} records were copied")

    def rate(self, kind: str, seconds: float = SECONDS) -> float:
        """Statements per second."""
        used = processor_seconds(os.getpid())
        rate = self._runner.run(self._load({"read": self._read, "upsert": self._write}[kind], seconds))
        used = processor_seconds(os.getpid()) - used
        self._used.setdefault(kind, []).append(used / seconds / rate * 1e6)
        return rate

    def cost(self, kind: str) -> float:
        """Microseconds of this process's processor time for a statement."""
        return median(self._used[kind])

    async def _load(self, act: Callable[[Any, Any], Awaitable[None]], seconds: float) -> float:
        began = perf_counter()
        done = 0

        async def ask(number: int) -> None:
            nonlocal done
            for record in cycle(self._records[number::CONNECTIONS]):
                await act(self._connections[number], record)
                done += 1
                if perf_counter() - began > seconds:
                    break

        await asyncio.gather(*(ask(number) for number in range(CONNECTIONS)))
        return done / (perf_counter() - began)

    async def _read(self, connection: Any, record: Any) -> None:
        from mayflydb.store.postgres.reads import _GETS

        one = ([record["container"]], [record["identity"]], [record["partition"]], [record["key"]])
        if len(await connection.fetch(_GETS, *one)) != 1:
            raise RuntimeError(f"there is no record {record['key']!r}")

    async def _write(self, connection: Any, record: Any) -> None:
        now = wall_us()
        place, life = (record["container"], record["seq"]), (now, now // SECOND * SECOND)
        done = await connection.execute(_UPDATE, *place, *life, next(self._lsn), record["checksum"], self._value)
        if done != "UPDATE 1":
            raise RuntimeError(f"an update of {record['key']!r} said {done}")


def _served(wrk: Wrk, url: str) -> Iterator[Figure]:
    with mayfly("--storage", url) as server:
        caller = Caller(server.port)
        caller.make()
        caller.store(f"i{number}" for number in range(IDS))
        caller.make(SECOND_CONTAINER)
        caller.make("bare")
        caller.close()
        with Bare(url) as bare:
            yield from _against_bare(Node(wrk, "alone", server), bare)
        with mayfly("--storage", url) as other:
            yield from _two(Node(wrk, "one", server), Node(wrk, "other", other))


def _against_bare(ours: Node, bare: Bare) -> Iterator[Figure]:
    for kind in ("upsert", "read"):
        ours.rate(kind, seconds=1.0)
        bare.rate(kind, 1.0)
    same = {
        "read": "the same statement, one key each; signatures checked",
        "upsert": "a commit for each UPDATE of a record and its indexes, synchronous_commit on",
    }
    for name, kind in ((READ, "read"), (UPSERT, "upsert")):
        measured = rounds([partial(ours.rate, kind), partial(bare.rate, kind)])
        what = f"{ours.cost(kind):.0f} us of processor time against {bare.cost(kind):.0f}, without the database's;"
        yield ratio(name, measured[0], measured[1], 0.5, f"{what} {same[kind]}")


def _two(one: Node, other: Node) -> Iterator[Figure]:
    """Both nodes serve the same records; then each writes to a container of its own."""

    def both(kind: str, seconds: float = SECONDS, of_other: str = "") -> float:
        with ThreadPoolExecutor(2) as threads:
            places = ((one, kind), (other, of_other or kind))
            rates = threads.map(lambda place: place[0].rate(place[1], CONNECTIONS // 2, seconds), places)
            return float(sum(rates))

    for kind in ("upsert", "read", "apart"):
        both(kind, 1.0)
    what = f"nodes, database and load generators share {os.cpu_count()} processors"
    for kind in ("read", "upsert"):
        measured = rounds([partial(both, kind), partial(one.rate, kind)])
        yield _without_target(
            ratio(f"{TWO}, {kind}s", measured[0], measured[1], 0, f"{what}; the same records on both nodes")
        )
    measured = rounds([partial(both, "upsert", of_other="apart"), partial(one.rate, "upsert")])
    yield _without_target(ratio(APART, measured[0], measured[1], 0, f"{what}; a container for each node"))


def _without_target(figure: Figure) -> Figure:
    return msgspec.structs.replace(figure, target="", met=None)


# --- purges --------------------------------------------------------------------------------------------------------------


async def _purging(url: str, size: int, checkpoint: Callable[[], object]) -> list[Figure]:
    import asyncpg

    from mayflydb.store.postgres import PostgresStore

    store = await PostgresStore.open(url)
    connection = await asyncpg.connect(url)
    try:
        engine = await open_engine(store, SystemClock())
        container = await _container(engine)
        purges: dict[str, Callable[[], Awaitable[None]]] = {
            "ours": lambda: _sweep(engine, container),
            "bare": lambda: _delete(connection, _DELETE, container),
            "told": lambda: _delete(connection, _TELLING_DELETE, container),
        }
        rates: dict[str, list[float]] = {name: [] for name in purges}
        for _ in range(PURGES):
            for name, purge in purges.items():
                await load(store, container, many(COUNT, item("n", size), wall_us() - 3 * HOUR, 20))
                # Nobody meets what another has left behind, nor pages that are still to be written.
                await connection.execute("TRUNCATE mayfly.expiry")
                await connection.execute("VACUUM ANALYZE mayfly.record")
                checkpoint()
                engine.reaper.invalidate(container)
                began = perf_counter()
                await purge()
                rates[name].append(COUNT / (perf_counter() - began))
    finally:
        connection.terminate()
        await store.close()
    what = f"{COUNT:,} due at once, in bounded sweeps"
    bare, told = PURGES_OF[size]
    plain = f"{what}; a DELETE alone leaves the indexes as they are, and writes no event"
    return [
        _without_target(ratio(bare, rates["ours"], rates["bare"], 0, plain)),
        ratio(told, rates["ours"], rates["told"], 0.8, f"{what}, against all of them in one statement"),
    ]


async def _container(engine: Engine) -> int:
    now = await engine.now()
    space = await engine.definitions.space("cosmos", now)
    database = await engine.definitions.create(space.id, "d", Definition({}, now))
    rule = Rule("default", 3600, overrides=True, hides=True)
    return (await engine.definitions.create(database.id, "c", Definition({}, now, rules=(rule,)))).id


async def _sweep(engine: Engine, container: int) -> None:
    """The reaper purges everything."""
    now = await engine.now()
    purged = await engine.reaper.sweep_due(PurgeRequest(now, now, "bench"))
    if purged[container] != COUNT:
        raise RuntimeError(f"{purged[container]} of {COUNT} records were purged")


async def _delete(connection: Any, statement: str, container: int) -> None:
    """The database deletes the same by itself."""
    done = await connection.execute(statement, container, wall_us() - HOUR)
    if done.split()[-1] != str(COUNT):
        raise RuntimeError(f"the database said {done}")
