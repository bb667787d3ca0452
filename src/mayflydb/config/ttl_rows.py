"""The settings of expiry: intervals of purges, events, charges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mayflydb.config import values as read
from mayflydb.config.row import Row

TTL_ROWS: Final[Sequence[Row]] = (
    Row(
        "ttl.sweep_interval",
        ("--sweep-interval",),
        "1s",
        read.interval,
        "Interval at which expired items are purged.",
        "DURATION",
    ),
    Row(
        "ttl.event_retention",
        ("--event-retention",),
        "auto",
        read.optional_retention,
        "Age up to which expiry events are kept. Default: 7d, and without a limit while the clock is virtual.",
        "DURATION",
    ),
    Row(
        "ttl.event_limit",
        ("--event-limit",),
        1_000_000,
        read.positive,
        "Expiry events that are kept at most; the oldest go first.",
        "EVENTS",
    ),
    Row(
        "ttl.mongo_sweep_interval",
        ("--mongo-sweep-interval",),
        "60s",
        read.interval,
        "Interval at which documents that expired by a date are removed; clients may set ttlMonitorSleepSecs.",
        "DURATION",
    ),
    Row(
        "ttl.guard",
        ("--guard/--no-guard",),
        True,
        read.switch,
        "Hold the purge of a container in which too many records expire unexpectedly: by a changed rule, a step of the clock, or "
        "dates of the past. Not on a clock that people move, unless a container has limits of its own.",
        switch=True,
    ),
    Row(
        "ttl.guard_records",
        ("--guard-records",),
        100_000,
        read.positive,
        "Unexpected expiries of a container that are purged without confirmation, whatever their share.",
        "RECORDS",
    ),
    Row(
        "ttl.guard_percent",
        ("--guard-percent",),
        25,
        read.percent,
        "Share of a container whose unexpected expiry is purged without confirmation, whatever its number.",
        "PERCENT",
    ),
    Row(
        "ttl.erasure_log",
        ("--erasure-log/--no-erasure-log",),
        False,
        read.switch,
        "Keep a log of what expired: when, under which rule, and a keyed hash of its key, in a chain that shows later changes.",
        switch=True,
    ),
    Row(
        "ttl.erase",
        ("--erase",),
        "normal",
        read.choice("normal", "secure"),
        "secure: what expired is overwritten in the store's file and its log, within a minute. For a file alone.",
        "normal|secure",
    ),
    Row(
        "ttl.sample_accesses",
        ("--sample-accesses",),
        128,
        read.count,
        "For advice on a ttl, the ages of one in so many reads and updates of a busy container are noted, of all in others; "
        "0: of none.",
        "N",
    ),
    Row(
        "ttl.charge",
        ("--ttl-charge",),
        "leftover",
        read.choice("leftover", "free", "serverless"),
        "What purging costs. leftover: as deletes, and with throttling only what requests left over of each second; serverless: "
        "as deletes, never waiting; free: nothing.",
        "leftover|free|serverless",
    ),
    Row(
        "ttl.ydb_run_interval",
        ("--ydb-run-interval",),
        "1h",
        read.run_interval,
        "Interval at which due rows of a YDB table are erased, unless its TTL settings have another one.",
        "DURATION",
    ),
    Row(
        "ttl.ydb_min_run_interval",
        ("--ydb-min-run-interval",),
        "15m",
        read.run_interval,
        "The least run interval that the TTL settings of a YDB table may ask for.",
        "DURATION",
    ),
    Row(
        "ttl.ydb_tick",
        ("--ydb-tick",),
        "60s",
        read.run_interval,
        "Interval between the instants at which runs over YDB tables may begin.",
        "DURATION",
    ),
    Row(
        "ttl.ydb_retry_interval",
        ("--ydb-retry-interval",),
        "5m",
        read.run_interval,
        "Time after a failed run before a YDB table has its next one.",
        "DURATION",
    ),
    Row(
        "ttl.ydb_removal",
        ("--ydb-removal/--no-ydb-removal",),
        True,
        read.switch,
        "Erase rows of YDB tables in the background; otherwise only by runs on demand.",
        switch=True,
    ),
)
