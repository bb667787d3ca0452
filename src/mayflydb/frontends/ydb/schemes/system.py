"""The system tables of a database, `.sys/...`: names, columns and keys.

Names and types: https://ydb.tech/docs/en/devops/observability/system-views.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Final

from mayflydb.frontends.ydb.schemes.entries import DirectoryEntry, SystemEntry
from mayflydb.frontends.ydb.schemes.paths import SYSTEM_DIRECTORY, join_path
from mayflydb.query.yql.schemas import Column, Table
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

PARTITION_STATS: Final = "partition_stats"
NODES: Final = "nodes"

VIEW_TYPES: Final = {PARTITION_STATS: 1, NODES: 2}
"""Types of system views, by the numbers of `ydb/core/protos/sys_view_types.proto`."""

OWNER_ID: Final = 72057594046678944
"""The id of the tablet that owns all paths, as in a YDB of one node."""

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
def _system_entry(database: str, name: str) -> SystemEntry:
    columns, key = _COLUMNS[name]
    path = join_path(database, SYSTEM_DIRECTORY, name)
    # All columns of system views may be NULL, keys included, as in YDB.
    described = tuple(Column(each, OptionalType(type)) for each, type in columns)
    return SystemEntry(path, name, Table(path, described, key, writable=False))


def system_tables(database: str) -> Iterator[SystemEntry]:
    """Yield the system tables of a database, by name."""
    for name in sorted(_COLUMNS):
        yield _system_entry(database, name)


def system_entry(database: str, name: str) -> SystemEntry | DirectoryEntry | None:
    """Return the entry at a path `.sys` or below it."""
    if name == SYSTEM_DIRECTORY:
        return DirectoryEntry(join_path(database, SYSTEM_DIRECTORY))
    leaf = name.removeprefix(f"{SYSTEM_DIRECTORY}/")
    return _system_entry(database, leaf) if leaf in _COLUMNS else None
