"""The settings of the store, of queries that compute, and of the clock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mayflydb.config import values as read
from mayflydb.config.row import Row

STORAGE_ROWS: Final[Sequence[Row]] = (
    Row(
        "storage.url",
        ("--storage",),
        "sqlite:///./mayfly.db",
        read.storage,
        "memory; sqlite:/// and a path (absolute unless it starts with ./); or a URL as libpq has it, such as "
        "postgresql://user@host:port/database or postgresql:///database?host=/run/postgresql.",
        "URL",
    ),
    Row(
        "storage.reserve",
        ("--storage-reserve",),
        "auto",
        read.optional_size,
        "Disk space kept beside a file's store, so that purges and deletes work on a full disk; 0: none. Default: 128MiB.",
        "SIZE",
    ),
    Row(
        "storage.min_free",
        ("--storage-min-free",),
        "auto",
        read.optional_size,
        "Free space of a file's disk below which writes are refused that make the store grow; 0: none are. Default: 64MiB.",
        "SIZE",
    ),
    Row(
        "storage.key_file",
        ("--storage-key-file",),
        "",
        read.optional_path,
        "File with the keys of records that are to be shredded, away from backups. Default: beside the data file, with -keys.",
        "PATH",
    ),
    Row(
        "storage.history_limit",
        ("--history-limit",),
        1_000_000,
        read.positive,
        "Versions that the history of one container keeps at most, for change feeds of all versions and for change streams.",
        "VERSIONS",
    ),
    Row(
        "queries.threads",
        ("--query-threads",),
        2,
        read.positive,
        "Queries that compute at the same time; one client has at most one less. Small ones need no thread.",
        "THREADS",
    ),
    Row(
        "queries.memory",
        ("--query-memory",),
        "192MiB",
        read.size_in_mib,
        "Memory that all queries together may take; beyond it the one that took most is stopped. A number without a unit: MiB.",
        "SIZE",
    ),
    Row(
        "queries.time_limit",
        ("--query-time-limit",),
        "60s",
        read.interval,
        "The longest time of one query, whatever its client asks for.",
        "DURATION",
    ),
    Row(
        "clock.mode",
        ("--clock",),
        "real",
        read.choice("real", "virtual"),
        "A virtual clock stands still until it is moved.",
        "real|virtual",
    ),
    Row(
        "clock.start",
        ("--clock-start",),
        "",
        read.optional_time,
        "Time at which a virtual clock starts. Default: the real current second.",
        "TIME",
    ),
    Row(
        "clock.jump",
        ("--clock-jump",),
        "5s",
        read.clock_jump,
        "A longer step of the host's clock forward is not believed at once.",
        "DURATION",
    ),
    Row(
        "clock.hold",
        ("--clock-hold",),
        "1m",
        read.clock_wait,
        "Time for which such a step must hold before reads follow it.",
        "DURATION",
    ),
    Row(
        "clock.steady",
        ("--clock-steady",),
        "1h",
        read.clock_wait,
        "Time for which such a step must hold before purges follow it; not shorter than --clock-hold.",
        "DURATION",
    ),
)
