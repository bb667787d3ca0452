"""The system's tables of a database, `.sys/...`: what they look like, and the rows they have when somebody reads them.

Names and types: https://ydb.tech/docs/en/devops/observability/system-views.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from mayflydb.engine.catalog import Run
from mayflydb.engine.runs import last_run
from mayflydb.frontends.ydb.schemes.entries import DirectoryEntry, SystemEntry
from mayflydb.frontends.ydb.schemes.paths import SYSTEM, joined
from mayflydb.frontends.ydb.schemes.physical import partitions
from mayflydb.frontends.ydb.schemes.statistics import KILOBYTE, NODE, share
from mayflydb.model.instant import Instant
from mayflydb.query.yql.schemas import Column, Row, Table
from mayflydb.query.yql.types import (
    DOUBLE,
    INTERVAL,
    TIMESTAMP,
    UINT32,
    UINT64,
    UTF8,
    OptionalType,
    Type,
)

if TYPE_CHECKING:
    from mayflydb.frontends.ydb.schemes.catalog import Schemes

PARTITION_STATS: Final = "partition_stats"
NODES: Final = "nodes"

IDS: Final = {PARTITION_STATS: 1, NODES: 2}
"""What kind of system view each is, by the numbers of `ydb/core/protos/sys_view_types.proto`."""

OWNER: Final = 72057594046678944
"""The id of the one tablet that owns all paths, as a YDB of one node has it."""

_COLUMNS: Final[dict[str, tuple[tuple[tuple[str, Type], ...], tuple[str, ...]]]] = {
    PARTITION_STATS: (
        (
            ("OwnerId", UINT64),
            ("PathId", UINT64),
            ("PartIdx", UINT64),
            ("FollowerId", UINT32),
            ("DataSize", UINT64),
            ("RowCount", UINT64),
            ("IndexSize", UINT64),
            ("CPUCores", DOUBLE),
            ("TabletId", UINT64),
            ("Path", UTF8),
            ("NodeId", UINT32),
            ("StartTime", TIMESTAMP),
            ("AccessTime", TIMESTAMP),
            ("UpdateTime", TIMESTAMP),
            ("InFlightTxCount", UINT32),
            ("LastTtlRunTime", TIMESTAMP),
            ("LastTtlRowsProcessed", UINT64),
            ("LastTtlRowsErased", UINT64),
        ),
        ("OwnerId", "PathId", "PartIdx", "FollowerId"),
    ),
    NODES: (
        (
            ("NodeId", UINT32),
            ("Address", UTF8),
            ("Host", UTF8),
            ("Port", UINT32),
            ("StartTime", TIMESTAMP),
            ("UpTime", INTERVAL),
            ("CpuThreads", UINT32),
            ("CpuUsage", DOUBLE),
            ("CpuIdle", DOUBLE),
        ),
        ("NodeId",),
    ),
}


@cache
def _table(database: str, name: str) -> SystemEntry:
    columns, key = _COLUMNS[name]
    path = joined(database, SYSTEM, name)
    described = tuple(Column(each, OptionalType(type)) for each, type in columns)
    return SystemEntry(path, name, Table(path, described, key, writable=False))


def system_tables(database: str) -> Iterator[SystemEntry]:
    """Those of a database, by name."""
    for name in sorted(_COLUMNS):
        yield _table(database, name)


def system_entry(database: str, name: str) -> SystemEntry | DirectoryEntry | None:
    """What is at a path `.sys` or below it."""
    if name == SYSTEM:
        return DirectoryEntry(joined(database, SYSTEM))
    leaf = name.removeprefix(f"{SYSTEM}/")
    return _table(database, leaf) if leaf in _COLUMNS else None


async def system_rows(schemes: Schemes, entry: SystemEntry) -> list[Row]:
    """The rows that a table of the system has now, in the order of its key."""
    now = await schemes.engine.now()
    if entry.name == NODES:
        # The one there is. Nodes of YDB talk to each other by address and port; this one has none for that.
        return [_row(entry, {"NodeId": NODE, "StartTime": schemes.started, "UpTime": now - schemes.started})]
    return await _partitions(schemes, entry, now)


async def _partitions(schemes: Schemes, entry: SystemEntry, now: Instant) -> list[Row]:
    database = entry.path.removesuffix(f"/{SYSTEM}/{entry.name}")
    views = [view for view in await schemes.tables() if view.table.path.startswith(f"{database}/")]
    found: list[Row] = []
    for view in sorted(views, key=lambda view: view.node.id):
        rows, kilobytes = await schemes.engine.insight.usage(view.node, now)
        count = partitions(view.body.settings)
        run = last_run(view.node.definition, now, rows)
        for part in range(count):
            told: dict[str, Any] = {
                "OwnerId": OWNER,
                "PathId": view.node.id,
                "PartIdx": part,
                "FollowerId": 0,
                "DataSize": share(kilobytes * KILOBYTE, count, part),
                "RowCount": share(rows, count, part),
                "IndexSize": 0,
                "CPUCores": 0.0,
                "TabletId": view.node.id << 16 | part,
                "Path": view.table.path,
                "NodeId": NODE,
                "StartTime": view.body.created,
                "UpdateTime": view.node.definition.written,
                "InFlightTxCount": 0,
                **_told(run, count, part),
            }
            found.append(_row(entry, told))
    return found


def _row(entry: SystemEntry, told: Mapping[str, Any]) -> Row:
    return tuple(told.get(column.name) for column in entry.table.columns)


def _told(run: Run | None, count: int, part: int) -> dict[str, int]:
    """What came of a run, shared by the partitions; nothing: there was none yet."""
    if run is None:
        return {}
    processed, erased = share(run.processed, count, part), share(run.erased, count, part)
    return {"LastTtlRunTime": run.instant, "LastTtlRowsProcessed": processed, "LastTtlRowsErased": erased}
