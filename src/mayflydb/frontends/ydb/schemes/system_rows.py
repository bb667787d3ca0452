"""Rows of the system tables, computed when a query reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mayflydb.engine.catalog import Run
from mayflydb.engine.runs import last_run
from mayflydb.frontends.ydb.schemes.entries import SystemEntry
from mayflydb.frontends.ydb.schemes.lookup import Lookup
from mayflydb.frontends.ydb.schemes.paths import SYSTEM_DIRECTORY
from mayflydb.frontends.ydb.schemes.physical import partition_count
from mayflydb.frontends.ydb.schemes.statistics import KILOBYTE, NODE_ID, partition_share
from mayflydb.frontends.ydb.schemes.system import NODES, OWNER_ID
from mayflydb.model.instant import Instant
from mayflydb.query.yql.schemas import Row


async def system_rows(lookup: Lookup, entry: SystemEntry, started: Instant) -> list[Row]:
    """Return the current rows of a system table, in key order. `started`: the instant of the server's start."""
    now = await lookup.engine.now()
    if entry.name == NODES:
        # Mayfly shows one node. Address and port are NULL: in YDB they are those by which nodes reach each other.
        return [_row(entry, {"NodeId": NODE_ID, "StartTime": started, "UpTime": now - started})]
    return await _partition_rows(lookup, entry, now)


async def _partition_rows(lookup: Lookup, entry: SystemEntry, now: Instant) -> list[Row]:
    database = entry.path.removesuffix(f"/{SYSTEM_DIRECTORY}/{entry.name}")
    views = [view for view in await lookup.tables() if view.table.path.startswith(f"{database}/")]
    found: list[Row] = []
    for view in sorted(views, key=lambda view: view.node.id):
        rows, kilobytes = await lookup.engine.expiry_counts.usage(view.node, now)
        count = partition_count(view.body.settings)
        run = last_run(view.node.definition, now, rows)
        for part in range(count):
            values: dict[str, Any] = {
                "OwnerId": OWNER_ID,
                "PathId": view.node.id,
                "PartIdx": part,
                "FollowerId": 0,
                "DataSize": partition_share(kilobytes * KILOBYTE, count, part),
                "RowCount": partition_share(rows, count, part),
                "IndexSize": 0,
                "CPUCores": 0.0,
                # Any number that differs for each partition.
                "TabletId": view.node.id << 16 | part,
                "Path": view.table.path,
                "NodeId": NODE_ID,
                "StartTime": view.body.created,
                "UpdateTime": view.node.definition.written,
                "InFlightTxCount": 0,
                **_run_columns(run, count, part),
            }
            found.append(_row(entry, values))
    return found


def _row(entry: SystemEntry, values: Mapping[str, Any]) -> Row:
    return tuple(values.get(column.name) for column in entry.table.columns)


def _run_columns(run: Run | None, count: int, part: int) -> dict[str, int]:
    """Return the columns of the last removal run, its counts divided among the partitions; empty if no run has been
    made.
    """
    if run is None:
        return {}
    processed, erased = partition_share(run.processed, count, part), partition_share(run.erased, count, part)
    return {"LastTtlRunTime": run.instant, "LastTtlRowsProcessed": processed, "LastTtlRowsErased": erased}
