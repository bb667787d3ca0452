"""Measurements in Prometheus' text format, counted at each request."""

from __future__ import annotations

import platform
from collections import Counter

from mayflydb.admin.operations import Admin
from mayflydb.admin.targets import ContainerTarget
from mayflydb.clock import SystemClock, wall_us
from mayflydb.engine.count_budget import Allowance
from mayflydb.engine.runs import last_run, next_run
from mayflydb.metrics.requests import Sample, count_requests, measure_process, show_histogram
from mayflydb.model.errors import Unavailable
from mayflydb.model.instant import SECOND, Instant, Span
from mayflydb.version import __version__

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MAX_LABELLED_CONTAINERS = 200
"""Containers with a time series of their own. A monitoring system pays for each series; the rest are added up."""

# The names are a contract with dashboards. Those without the prefix mayfly_ are YDB's own.
HELP: dict[str, tuple[str, str]] = {
    "mayfly_build_info": ("gauge", "The version that runs."),
    "mayfly_ready": ("gauge", "1 while the server answers."),
    "mayfly_clock_virtual": ("gauge", "1 while people hold the clock."),
    "mayfly_clock_fenced": ("gauge", "1 while a jump of the host's clock is neither accepted nor rejected."),
    "mayfly_clock_jump_seconds": ("gauge", "How far that jump went; negative after a step back."),
    "mayfly_clock_offset_seconds": ("gauge", "How far the clock is ahead of the host's."),
    "mayfly_storage_bytes": (
        "gauge",
        "Bytes of the store by kind: database, wal, shm and reserve (files), memory, or tables, indexes and other (PostgreSQL).",
    ),
    "mayfly_disk_free_bytes": ("gauge", "Free bytes of the disk that holds the store's file."),
    "mayfly_disk_least_free_bytes": ("gauge", "Free bytes below which writes that make the store grow are refused."),
    "mayfly_disk_reserve_bytes": (
        "gauge",
        "Bytes that are kept for purges on a full disk; 0 after they were given back.",
    ),
    "mayfly_disk_reserve_wanted_bytes": ("gauge", "Bytes that are to be kept for purges on a full disk."),
    "mayfly_disk_short": ("gauge", "1 while writes are refused because the disk is full."),
    "mayfly_disk_refused_writes_total": (
        "counter",
        "Writes that were refused for a full disk since the server started.",
    ),
    "mayfly_queries_computing": ("gauge", "Steps of queries that compute on a thread now."),
    "mayfly_queries_waiting": ("gauge", "Steps of queries that wait for a thread."),
    "mayfly_query_steps_total": ("counter", "Steps of queries that have computed on a thread."),
    "mayfly_query_compute_seconds_total": ("counter", "Seconds that they took."),
    "mayfly_queries_stopped_total": ("counter", "Queries that were stopped while they computed, by reason."),
    "mayfly_queries_refused_total": ("counter", "Queries that were refused because too many waited."),
    "mayfly_loop_delay_seconds": ("histogram", "How late the event loop was, at ten looks a second."),
    "mayfly_loop_delay_longest_seconds": ("gauge", "How late it was at the most."),
    "mayfly_loop_stuck_total": ("counter", "Turns of the event loop of more than 250 ms; the log has their places."),
    "mayfly_budget_limit": ("gauge", "What all clients together may have: bytes, or a number."),
    "mayfly_budget_used": ("gauge", "What they have of it now."),
    "mayfly_budget_refused_total": ("counter", "Refusals for this limit since the server started."),
    "mayfly_requests_total": ("counter", "Requests since the server started, by operation and status."),
    "mayfly_request_duration_seconds": ("histogram", "Seconds from a request's arrival to its answer."),
    "mayfly_connections": ("gauge", "Open connections."),
    "process_cpu_seconds_total": ("counter", "Processor time of the process, user and system."),
    "process_resident_memory_bytes": ("gauge", "Memory of the process."),
    "process_open_fds": ("gauge", "Open file descriptors."),
    "process_start_time_seconds": ("gauge", "When the process was started, in seconds since 1970."),
    "process_max_fds": ("gauge", "The most file descriptors that it may open."),
    "mayfly_slow_requests_total": ("counter", "Requests that took at least --slow-request; the log has each."),
    "mayfly_access_log_dropped_total": (
        "counter",
        "Requests that are missing in the access log (--access-log): too many waited, or it could not be written.",
    ),
    "mayfly_trace_dropped_total": (
        "counter",
        "Spans that were not sent to --trace-endpoint: too many waited, or the collector did not take them.",
    ),
    "mayfly_items": ("gauge", "Records that are visible."),
    "mayfly_ttl_default_seconds": ("gauge", "The default ttl; -1 without a default, absent while off."),
    "mayfly_ttl_backlog_items": ("gauge", "Records that are due and not yet purged."),
    "mayfly_hold_preserved_records": (
        "gauge",
        "Versions of records that legal holds preserve after they left the container.",
    ),
    "mayfly_guard_held": ("gauge", "1 while the guard holds the purge of the container."),
    "mayfly_roll_up_held": ("gauge", "1 while the purge of the container waits because its roll-up fails."),
    "mayfly_touched_records_total": ("counter", "Records that got a new life by a read since the server started."),
    "mayfly_touches_missed_total": (
        "counter",
        "Reads that should have done so: too many waited, or no write was possible.",
    ),
    "mayfly_accesses_left_out_total": (
        "counter",
        "Accesses that advice on a ttl does not see: too many containers were in use at a time.",
    ),
    "mayfly_retired_versions": (
        "gauge",
        "Versions that are kept after their end, for events or for reads as of earlier instants.",
    ),
    "mayfly_webhook_waiting_events": ("gauge", "Expiry events that a webhook has not got yet, of any target."),
    "mayfly_webhook_dead_letters": (
        "gauge",
        "Messages that a webhook did not accept, and that are not repeated any more.",
    ),
    "mayfly_webhook_messages_total": ("counter", "Messages to a webhook since the server started, by their result."),
    "mayfly_archive_waiting_records": (
        "gauge",
        "Expired records that are not in a file of the archive yet: at most so many.",
    ),
    "mayfly_archive_stopped_containers": ("gauge", "Containers whose purge waits for the archive."),
    "mayfly_archive_files_total": ("counter", "Files of an archive since the server started, by their result."),
    "mayfly_archive_records_total": ("counter", "Records that were archived since the server started."),
    "mayfly_ttl_purged_total": ("counter", "Records purged since the server started."),
    "mayfly_erasure_lines": ("gauge", "Lines of the erasure log."),
    "mayfly_erasure_lag_events": ("gauge", "Expiry events that have no line in the erasure log yet, while it is on."),
    "mayfly_keys_destroyed_total": ("counter", "Keys of sealed records that were destroyed since the server started."),
    "mayfly_ttl_purge_lag_seconds": ("gauge", "Age of the oldest deadline that is due and not yet purged."),
    "mayfly_ttl_purge_delay_seconds": (
        "histogram",
        "Seconds from a deadline to the purge, by protocol: for each purge by one rule, of its earliest deadline.",
    ),
    "mayfly_ttl_next_expiry_timestamp_seconds": ("gauge", "When the next record dies."),
    "mayfly_ttl_next_run_timestamp_seconds": ("gauge", "When a table with a schedule of its own is purged next."),
    "mayfly_ttl_last_run_timestamp_seconds": ("gauge", "When it was purged last, be it that nothing was due."),
    "mayfly_ttl_last_run_processed": ("gauge", "Records that the last run has looked at."),
    "mayfly_ttl_last_run_erased": ("gauge", "Records that the last run has erased."),
    "SchemeShard_TTLEnabledTables": ("gauge", "Tables of YDB that have TTL."),
    "SchemeShard_NumShardsByTtlLag": (
        "gauge",
        "Their partitions, by the seconds since they were swept last, up to range.",
    ),
    "erase_rows_Processed": ("counter", "Rows that runs have looked at since the server started."),
    "erase_rows_Erased": ("counter", "Rows that runs have erased since the server started."),
    "mayfly_request_units_total": (
        "counter",
        "Request units spent since the server started; purge: by what expired.",
    ),
    "mayfly_throttled_requests_total": ("counter", "Requests answered 429, or 16500, since the server started."),
}

_COMBINED_BY_MINIMUM = (
    "mayfly_ttl_next_expiry_timestamp_seconds",
    "mayfly_ttl_next_run_timestamp_seconds",
    "mayfly_ttl_last_run_timestamp_seconds",
    "mayfly_ttl_default_seconds",
)
"""Of containers beyond MAX_LABELLED_CONTAINERS the least value is shown."""

_PROTOCOL_OF_CONNECTIONS = {
    "connections": "http",
    "mongo_connections": "mongo",
    "ydb_connections": "ydb",
    "ydb_tls_connections": "ydbs",
}
"""The protocol by the name of the limit of its connections."""

LAG_RANGES = (0, 900, 1800, 3600, 7200, 14400, 28800, 57600, 86400)
"""Upper bounds in seconds of the lags that YDB's SchemeShard counts partitions by."""

Labels = tuple[tuple[str, str], ...]


async def render_metrics(admin: Admin) -> str:
    """Return all metrics with help and type. LookupError for a sample whose metric has no row in `HELP`."""
    # The format wants all samples of a metric behind its help, so they are sorted by metric here.
    lines = {family: [f"# HELP {family} {text}", f"# TYPE {family} {kind}"] for family, (kind, text) in HELP.items()}
    for sample in (
        *await _clock(admin),
        *await _storage(admin),
        *await _disk(admin),
        *await _webhooks(admin),
        *await _archives(admin),
        *await _queries(admin),
        *await _loop(admin),
        *await _containers(admin),
        *await _purge_delays(admin),
        *await _background_removal(admin),
        *await _erasure_log(admin),
        *await _budgets(admin),
        *count_requests(admin.engine.requests),
        *measure_process(),
    ):
        # The samples of a histogram have names of their own: its name and _bucket, _sum or _count.
        family = sample[0] if sample[0] in lines else sample[0].rpartition("_")[0]
        if family not in lines:
            raise LookupError(f"the metric {sample[0]} has no row in HELP")
        lines[family].append(_line(*sample))
    return "\n".join(line for family in lines.values() for line in family) + "\n"


async def _clock(admin: Admin) -> list[Sample]:
    clock = admin.engine.time.clock
    jump = admin.engine.time.observe()
    offset = clock.shift if isinstance(clock, SystemClock) else await admin.engine.now() - wall_us()
    storage = admin.engine.storage
    build = {"version": __version__, "python": platform.python_version(), "storage": storage}
    return [
        ("mayfly_build_info", build, 1),
        ("mayfly_ready", {}, 1),
        ("mayfly_clock_virtual", {}, clock.mode != "real"),
        ("mayfly_clock_fenced", {}, jump is not None),
        ("mayfly_clock_jump_seconds", {}, 0 if jump is None else round(jump.size / SECOND, 3)),
        ("mayfly_clock_offset_seconds", {}, round(offset / SECOND, 3)),
    ]


async def _storage(admin: Admin) -> list[Sample]:
    """Return the sizes of the store. Nothing while they cannot be read."""
    sizes = admin.engine.storage_sizes
    recent = {} if sizes is None else await sizes.recent()
    return [("mayfly_storage_bytes", {"kind": kind}, size) for kind, size in recent.items()]


async def _disk(admin: Admin) -> list[Sample]:
    """Describe the disk of the store. Nothing where Mayfly does not know it, as with PostgreSQL, or cannot read it now."""
    if admin.engine.disk is None:
        return []
    try:
        facts = await admin.engine.disk()
    except Unavailable:
        return []
    return [
        ("mayfly_disk_free_bytes", {}, facts.free),
        ("mayfly_disk_least_free_bytes", {}, facts.least),
        ("mayfly_disk_reserve_bytes", {}, facts.reserve),
        ("mayfly_disk_reserve_wanted_bytes", {}, facts.reserve_wanted),
        ("mayfly_disk_short", {}, facts.short),
        ("mayfly_disk_refused_writes_total", {}, facts.refused),
    ]


async def _webhooks(admin: Admin) -> list[Sample]:
    samples: list[Sample] = []
    for webhook in (await admin.webhooks.list_all())["webhooks"]:
        name = {"webhook": webhook["name"]}
        samples += [
            ("mayfly_webhook_waiting_events", name, webhook["waiting"]),
            ("mayfly_webhook_dead_letters", name, len(webhook["dead_letters"])),
            ("mayfly_webhook_messages_total", {**name, "result": "accepted"}, webhook["sent"]),
            ("mayfly_webhook_messages_total", {**name, "result": "failed"}, webhook["failed"]),
        ]
    return samples


async def _archives(admin: Admin) -> list[Sample]:
    samples: list[Sample] = []
    for archive in (await admin.archives.list_all())["archives"]:
        name = {"archive": archive["name"]}
        samples += [
            ("mayfly_archive_waiting_records", name, archive["waiting"]),
            ("mayfly_archive_stopped_containers", name, len(archive["stopped"])),
            ("mayfly_archive_files_total", {**name, "result": "accepted"}, archive["files"]),
            ("mayfly_archive_files_total", {**name, "result": "failed"}, archive["failed"]),
            ("mayfly_archive_records_total", name, archive["records"]),
        ]
    return samples


async def _queries(admin: Admin) -> list[Sample]:
    evaluators = admin.engine.evaluators
    counts = evaluators.counts
    return [
        ("mayfly_queries_computing", {}, evaluators.running),
        ("mayfly_queries_waiting", {}, evaluators.waiting),
        ("mayfly_query_steps_total", {}, counts.calls),
        ("mayfly_query_compute_seconds_total", {}, round(counts.seconds, 6)),
        *(("mayfly_queries_stopped_total", {"reason": reason}, number) for reason, number in counts.stopped.items()),
        ("mayfly_queries_refused_total", {}, counts.refused),
    ]


async def _loop(admin: Admin) -> list[Sample]:
    watch, accesses, traces = admin.engine.loop_watch, admin.engine.access_log, admin.engine.traces
    return [
        *show_histogram("mayfly_loop_delay_seconds", {}, watch.delays),
        ("mayfly_touched_records_total", {}, admin.engine.accesses.touched),
        ("mayfly_touches_missed_total", {}, admin.engine.accesses.missed),
        ("mayfly_accesses_left_out_total", {}, admin.engine.accesses.ages.left_out),
        ("mayfly_loop_delay_longest_seconds", {}, watch.longest / SECOND),
        ("mayfly_loop_stuck_total", {}, watch.stuck),
        ("mayfly_slow_requests_total", {}, admin.engine.slow_log.slow),
        *([] if accesses is None else [("mayfly_access_log_dropped_total", {}, accesses.dropped)]),
        *([] if traces is None else [("mayfly_trace_dropped_total", {}, traces.dropped)]),
    ]


async def _erasure_log(admin: Admin) -> list[Sample]:
    log, shredding = admin.engine.erasure_log, admin.engine.reaper.shredding
    samples: list[Sample] = []
    if shredding.is_used:
        samples.append(("mayfly_keys_destroyed_total", {}, shredding.destroyed))
    if log.is_on:
        found = await log.progress()
        samples += [("mayfly_erasure_lines", {}, found.head.lines), ("mayfly_erasure_lag_events", {}, found.lag)]
    return samples


async def _budgets(admin: Admin) -> list[Sample]:
    """Return the limits of the server, what is used of them, and refusals."""
    samples: list[Sample] = []
    for quota in admin.engine.quotas:
        budget = {"budget": quota.name}
        samples += [
            ("mayfly_budget_limit", budget, quota.limit),
            ("mayfly_budget_used", budget, quota.used),
            ("mayfly_budget_refused_total", budget, quota.refused),
        ]
        if quota.name in _PROTOCOL_OF_CONNECTIONS:
            samples.append(("mayfly_connections", {"protocol": _PROTOCOL_OF_CONNECTIONS[quota.name]}, quota.used))
    return samples


async def _containers(admin: Admin) -> list[Sample]:
    """Count by container. Those beyond MAX_LABELLED_CONTAINERS are combined under the name `_other`."""
    now, allowance = await admin.engine.now(), admin.reports.allow()
    totals: dict[tuple[str, Labels], float] = {}
    for number, target in enumerate(await admin.targets.list_containers()):
        protocol, _, path = target.target.partition(":")
        database, container = "_other", "_other"
        if number < MAX_LABELLED_CONTAINERS:
            database, _, container = path.partition(target.front_end.separator)
            if target.front_end.databases is not None:
                # A path has several separators, so the text does not say where the database ends.
                database, container = target.database, target.node.name
        names = (("db", database), ("container", container))
        counts = [
            (family, (("protocol", protocol), *names), value)
            for family, value in await _counts(admin, target, now, allowance)
        ]
        units = [] if target.front_end.space == "ydb" else _request_units(admin, target)
        unit_samples = [(family, (("protocol", protocol), *names, *more), value) for family, more, value in units]
        for family, labels, value in [*counts, *unit_samples]:
            before = totals.get((family, labels))
            totals[family, labels] = value if before is None else _combine(family, before, value)
    return [(family, dict(labels), value) for (family, labels), value in totals.items()]


async def _counts(
    admin: Admin, container: ContainerTarget, now: Instant, allowance: Allowance
) -> list[tuple[str, float]]:
    counts = await admin.reports.counts(container, now, allowance)
    grace = container.node.definition.lifecycle.grace * SECOND
    backlog = await admin.reports.count_backlog(container, now - grace, allowance) if grace else counts["due"]
    oldest = await admin.engine.next_deadline(container.node.id) if backlog else None
    following = await admin.engine.next_deadline(container.node.id, now)
    default = container.front_end.default_ttl(container.node)
    values: dict[str, float | None] = {
        "mayfly_items": counts["records"],
        "mayfly_ttl_default_seconds": default,
        "mayfly_ttl_backlog_items": backlog,
        "mayfly_guard_held": int(container.node.definition.held is not None),
        "mayfly_hold_preserved_records": await admin.engine.holds.count_preserved(container.node),
        "mayfly_roll_up_held": int(container.node.definition.held_roll_up is not None),
        "mayfly_ttl_purged_total": admin.engine.reaper.purge_counts[container.node.id],
        "mayfly_ttl_purge_lag_seconds": 0 if oldest is None else (now - grace - oldest) / SECOND,
        "mayfly_ttl_next_expiry_timestamp_seconds": None if following is None else following / SECOND,
    }
    definition = container.node.definition
    home = None if definition.retired is None else await admin.engine.node_by_id(definition.retired)
    if home is not None:
        kept = await admin.engine.expiry_counts.count_records(home, now, allowance)
        values["mayfly_retired_versions"] = kept.records
    last = last_run(definition, now, counts["records"] + counts["hidden"])
    ahead = next_run(definition, now, admin.engine.reaper.pass_settings)
    values |= {
        "mayfly_ttl_next_run_timestamp_seconds": None if ahead is None else ahead / SECOND,
        "mayfly_ttl_last_run_timestamp_seconds": None if last is None else last.instant / SECOND,
        "mayfly_ttl_last_run_processed": None if last is None else last.processed,
        "mayfly_ttl_last_run_erased": None if last is None else last.erased,
    }
    return [(family, value) for family, value in values.items() if value is not None]


async def _purge_delays(admin: Admin) -> list[Sample]:
    return [
        sample
        for protocol, delays in admin.engine.reaper.purge_delays.items()
        for sample in show_histogram("mayfly_ttl_purge_delay_seconds", {"protocol": protocol}, delays)
    ]


async def _background_removal(admin: Admin) -> list[Sample]:
    """Return the counters of YDB's background removal under YDB's names."""
    now = await admin.engine.now()
    lags: Counter[str] = Counter()
    tables = 0
    for container in await admin.targets.list_containers():
        definition = container.node.definition
        if container.front_end.space == "ydb" and definition.schedule is not None and container.node.rules:
            tables += 1
            last = last_run(definition, now, 0)
            lag = None if last is None else now - last.instant
            lags[_lag_range(lag)] += container.front_end.ttl_settings(container.database, container.node)["partitions"]
    processed, erased = admin.engine.reaper.run_totals
    ranges: list[Sample] = [
        ("SchemeShard_NumShardsByTtlLag", {"range": each}, lags[each]) for each in (*map(str, LAG_RANGES), "inf")
    ]
    return [
        ("SchemeShard_TTLEnabledTables", {}, tables),
        *ranges,
        ("erase_rows_Processed", {}, processed),
        ("erase_rows_Erased", {}, erased),
    ]


def _lag_range(lag: Span | None) -> str:
    """Return the smallest of LAG_RANGES that a lag does not exceed; `inf` beyond all, or before the first run (None)."""
    return next((str(each) for each in LAG_RANGES if lag is not None and lag <= each * SECOND), "inf")


def _request_units(admin: Admin, container: ContainerTarget) -> list[tuple[str, Labels, float]]:
    """Return request units by operation (Cosmos DB) or command (MongoDB), and throttled requests."""
    meter, id = admin.engine.meter, container.node.id
    units: list[tuple[str, Labels, float]] = [
        ("mayfly_request_units_total", (("operation", operation),), round(value, 2))
        for operation, value in sorted(meter.units.get(id, {}).items())
    ]
    return [*units, ("mayfly_throttled_requests_total", (), meter.throttled[id])]


def _combine(family: str, before: float, value: float) -> float:
    """Add up the values of two containers, except of metrics that are named here."""
    if family == "mayfly_ttl_purge_lag_seconds":
        return max(before, value)
    if family in _COMBINED_BY_MINIMUM:
        return min(before, value)
    return before + value


def _line(family: str, labels: dict[str, str], value: float) -> str:
    shown = ",".join(f'{name}="{_escape(text)}"' for name, text in labels.items())
    number = str(int(value)) if float(value).is_integer() else repr(value)
    return f"{family}{{{shown}}} {number}" if shown else f"{family} {number}"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
