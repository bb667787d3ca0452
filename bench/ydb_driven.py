"""YDB's protocol: the vendor's client against its own empty call, rows packed by hand against messages, bulk upserts, removal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from time import perf_counter, thread_time
from typing import Any

import ydb
from driven import rates
from figures import Figure, microseconds, rate, ratio
from servers import Meter, mayfly

import mayflydb

ROWS = 1_000
PAD = "x" * 100
SHARE = 0.5
"""Of the rate of empty calls, that a call with some work behind it is to reach."""

PACKED, TIMES = 1_000, 30
BULK, BATCHES = 1_000, 30
DYING = 20_000
SCANNED, SCAN_ROUNDS = 100_000, 3
SCANS = (
    ("scan", "SELECT COUNT(*) AS found FROM t WHERE text = 'none'u OR n = 7", SCANNED // 100),
    ("COUNT(*)", "SELECT COUNT(*) AS found FROM t", SCANNED),
)
"""Name, text and expected number."""

DEFINED = (
    "CREATE TABLE t (id Uint64 NOT NULL, n Int64, text Utf8, at Timestamp, PRIMARY KEY (id), INDEX by_n GLOBAL ON (n))"
)
SELECT = "DECLARE $id AS Uint64; SELECT id, n, text, at FROM t WHERE id = $id;"
UPSERT = """DECLARE $id AS Uint64; DECLARE $n AS Int64; DECLARE $text AS Utf8;
UPSERT INTO plain (id, n, text) VALUES ($id, $n, $text);"""

COLUMNS = (
    ydb.BulkUpsertColumns()
    .add_column("id", ydb.PrimitiveType.Uint64)
    .add_column("n", ydb.OptionalType(ydb.PrimitiveType.Int64))
    .add_column("text", ydb.OptionalType(ydb.PrimitiveType.Utf8))
    .add_column("at", ydb.OptionalType(ydb.PrimitiveType.Timestamp))
)


def through_sdk(place: Path) -> Iterator[Figure]:
    """Prepared statements of the table service, one after the other in one session, against calls that do nothing."""
    for where, arguments in (("memory", ("--memory",)), ("a file", (str(place / "ydb.db"),))):
        with mayfly("--ydb-port", "0", *arguments) as server, _driver(server.ydb) as driver:
            session = driver.table_client.session().create()
            session.execute_scheme(DEFINED)
            session.execute_scheme("CREATE TABLE plain (id Uint64 NOT NULL, n Int64, text Utf8, PRIMARY KEY (id))")
            driver.table_client.bulk_upsert("/local/t", _rows(0, ROWS), COLUMNS)
            select, upsert = session.prepare(SELECT), session.prepare(UPSERT)
            mode = ydb.SerializableReadWrite()

            def read(n: int, session: Any = session, select: Any = select, mode: Any = mode) -> Any:
                return session.transaction(mode).execute(select, {"$id": n % ROWS}, commit_tx=True)

            def write(n: int, session: Any = session, upsert: Any = upsert, mode: Any = mode) -> Any:
                values = {"$id": n % ROWS, "$n": n, "$text": PAD}
                return session.transaction(mode).execute(upsert, values, commit_tx=True)

            def keep_alive(_: int, session: Any = session) -> Any:
                return session.keep_alive()

            meter = Meter(server.pid)
            measured = rates({"empty": keep_alive, "SELECT": read, "UPSERT": write}, meter=meter)
        empty = measured.pop("empty")
        for name, found in measured.items():
            what = "one session, rows of 100 B, against KeepAlive"
            used = microseconds(meter.cost(name), meter.cost("empty"))
            yield ratio(f"prepared {name} of one row through the SDK, {where}", found, empty, SHARE, what, used)


def _driver(endpoint: str) -> Any:
    driver = ydb.Driver(endpoint=endpoint, database="/local")
    driver.wait(timeout=10, fail_fast=True)
    return driver


def _rows(first: int, count: int, at: int = 0) -> list[dict[str, Any]]:
    return [{"id": n, "n": n % 100, "text": PAD, "at": at} for n in range(first, first + count)]


def packing(place: Path) -> Iterator[Figure]:
    """Result rows as bytes, without a message for each value."""
    from mayflydb.frontends.ydb.descriptors import message
    from mayflydb.frontends.ydb.packing import rows_encoder
    from mayflydb.query.yql.types import INT64, TIMESTAMP, UINT64, UTF8, OptionalType

    types = (UINT64, OptionalType(INT64), OptionalType(UTF8), OptionalType(TIMESTAMP), OptionalType(UTF8))
    rows = [(n, n, PAD, n, None) for n in range(PACKED)]
    encode, result = rows_encoder(types), message("Ydb.ResultSet")

    def by_messages() -> bytes:
        made = result()
        for each in rows:
            row = made.rows.add()
            for field, value in zip(("uint64_value", "int64_value", "text_value", "uint64_value"), each, strict=False):
                setattr(row.items.add(), field, value)
            row.items.add().null_flag_value = 0
        packed: bytes = made.SerializeToString()
        return packed

    if encode(rows) != by_messages():
        raise RuntimeError("packed rows are not what messages give")
    ours, theirs = [], []
    for _ in range(TIMES):
        ours.append(_per_second(lambda: encode(rows)))
        theirs.append(_per_second(by_messages))
    yield ratio("result rows packed, against message objects", ours, theirs, 3.0, "rows of five columns")


def _per_second(work: Any) -> float:
    """By the processor's time, since nothing is waited for."""
    began = thread_time()
    work()
    return PACKED / (thread_time() - began)


def bulk(place: Path) -> Iterator[Figure]:
    """BulkUpsert of 1,000 rows a call."""
    for where, arguments in (("memory", ("--memory",)), ("a file", (str(place / "bulk.db"),))):
        with mayfly("--ydb-port", "0", *arguments) as server, _driver(server.ydb) as driver:
            driver.table_client.session().create().execute_scheme(DEFINED)
            meter, taken = Meter(server.pid), []
            for batch in range(BATCHES):
                rows = _rows(batch * BULK, BULK)
                meter.start()
                began = perf_counter()
                driver.table_client.bulk_upsert("/local/t", rows, COLUMNS)
                taken.append(perf_counter() - began)
                meter.stop("bulk", BULK)
        how = "rows of 100 B, one secondary index, 1,000 a call"
        yield rate(f"bulk upsert, {where}, rows", BULK / median(taken), None, how, microseconds(meter.cost("bulk")))


def removal(place: Path) -> Iterator[Figure]:
    """One run over rows that are all due, with one secondary index."""
    storages: Sequence[tuple[str, dict[str, Any]]] = (
        ("memory", {"memory": True}),
        ("a file", {"path": str(place / "removal.db")}),
    )
    for where, storage in storages:
        with (
            mayflydb.serve(port=0, ydb_port=0, clock="virtual", allow_time_travel=True, **storage) as server,
            _driver(server.ydb.endpoint) as driver,
        ):
            session = driver.table_client.session().create()
            session.execute_scheme(DEFINED + ' WITH (TTL = Interval("PT0S") ON at)')
            session.execute_scheme(DEFINED.replace("TABLE t", "TABLE kept"))
            driver.table_client.bulk_upsert("/local/kept", _rows(0, ROWS), COLUMNS)
            _fill(driver)
            began = perf_counter()
            removed = server.clock.advance(minutes=2)
            taken = perf_counter() - began
            if removed["purged"] != DYING:
                raise RuntimeError(f"{removed['purged']} of {DYING} rows were removed")
            _fill(driver)
            with ThreadPoolExecutor(1) as pool:
                run = pool.submit(server.clock.advance, hours=2)
                waits = _reads_until(session, run.done)
            if run.result()["purged"] != DYING:
                raise RuntimeError("the second run did not remove all rows")
        yield rate(f"rows removed, {where}", DYING / taken, None, f"{DYING:,} rows due, one secondary index, one run")
        slow = sorted(waits)[len(waits) * 99 // 100] * 1e3
        how = f"p99 of {len(waits)} reads of another table through the SDK in the same process; worst {max(waits) * 1e3:.1f} ms"
        yield Figure(f"reads while rows are removed, {where}", f"{slow:.1f} ms", "", None, how, slow)


def _fill(driver: Any) -> None:
    for first in range(0, DYING, BULK):
        driver.table_client.bulk_upsert("/local/t", _rows(first, BULK, at=1_000_000), COLUMNS)


def _reads_until(session: Any, is_over: Callable[[], bool]) -> list[float]:
    """Seconds that each read took."""
    query = session.prepare(SELECT.replace("FROM t", "FROM kept"))
    waits: list[float] = []
    while not is_over() or not waits:
        began = perf_counter()
        parameters = {"$id": len(waits) % ROWS}
        session.transaction(ydb.SerializableReadWrite()).execute(query, parameters, commit_tx=True)
        waits.append(perf_counter() - began)
    return waits


def scans(place: Path) -> Iterator[Figure]:
    """Queries that look at each row of a table: one that filters by a column without an index, and COUNT(*)."""
    with mayfly("--ydb-port", "0", str(place / "scans.db")) as server, _driver(server.ydb) as driver:
        driver.table_client.session().create().execute_scheme(DEFINED)
        for first in range(0, SCANNED, BULK):
            driver.table_client.bulk_upsert("/local/t", _rows(first, BULK), COLUMNS)
        meter = Meter(server.pid)
        with ydb.QuerySessionPool(driver, size=1) as pool:
            for name, text, expected in SCANS:
                taken = []
                for _ in range(SCAN_ROUNDS):
                    meter.start()
                    began = perf_counter()
                    found = pool.execute_with_retries(text)[0].rows[0][0]
                    taken.append(perf_counter() - began)
                    meter.stop(name, SCANNED)
                    if found != expected:
                        raise RuntimeError(f"{text} found {found}")
                how = f"{text}; {SCANNED:,} rows of 120 B in a file; {min(taken):.2f}-{max(taken):.2f} s a time"
                used = microseconds(meter.cost(name))
                yield rate(f"YQL: {name} of {SCANNED:,} rows, rows", SCANNED / median(taken), None, how, used)


def on_ydb(place: Path) -> Iterator[Figure]:
    """YDB's protocol."""
    for part in (through_sdk, packing, bulk, scans, removal):
        yield from part(place)
