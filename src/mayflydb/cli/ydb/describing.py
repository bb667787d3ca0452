"""The output of `scheme describe`, section by section.

Texts and order: https://github.com/ydb-platform/ydb `ydb/public/lib/ydb_cli/common/describe.cpp`, `print_utils.cpp`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from mayflydb.cli.ydb.boxes import render_box, terminal_width
from mayflydb.cli.ydb.json_values import to_json
from mayflydb.frontends.ydb.values import decode_type, decode_typed_value
from mayflydb.query.yql.types import format_type

VIEW: Final = 20
SYS_VIEW: Final = 24

_TYPE_NAMES: Final = {
    1: "dir",
    2: "table",
    3: "topic",
    4: "sub-domain",
    12: "column-store",
    13: "column-table",
    15: "sequence",
    17: "topic",
    20: "view",
    24: "sys-view",
}
_INDEX_TYPES: Final = {
    "global_index": "GlobalSync",
    "global_async_index": "GlobalAsync",
    "global_unique_index": "GlobalUnique",
}
_UNIT_NAMES: Final = {1: "Seconds", 2: "MilliSeconds", 3: "MicroSeconds", 4: "NanoSeconds"}
_ENABLED: Final = 1
_COMPRESSION_NAMES: Final = {1: "None", 2: "LZ4"}


class Sections(msgspec.Struct, frozen=True):
    """The optional sections that the command line asks for."""

    permissions: bool = False
    stats: bool = False
    bounds: bool = False
    partition_stats: bool = False


def type_name(type: int) -> str:
    """Return the name of an entry's type: `table`, `dir`."""
    return _TYPE_NAMES.get(type, "unknown")


def quote_path(path: str) -> str:
    """Quote a path with backticks, for YQL."""
    return "`" + path.replace("\\", "\\\\").replace("`", "\\`") + "`"


def size_text(size: int) -> str:
    """Return a number of bytes as text: `0 b`, `4.50 Kb`."""
    number, unit = float(size), "b"
    for larger in ("Kb", "Mb", "Gb", "Tb", "Pb", "Eb"):
        # 1024 bytes are still bytes here, as in YDB's program.
        if number <= 1024:
            break
        number, unit = number / 1024, larger
    return f"{number:.0f} {unit}" if unit == "b" else f"{number:.2f} {unit}"


def time_text(time: Any) -> str:
    """Return a Timestamp message as local time: `Tue, 01 Jan 2030 00:00:00 UTC`."""
    # An empty Timestamp message stands for an unknown time.
    if not time.seconds and not time.nanos:
        return "Unknown"
    return datetime.fromtimestamp(time.seconds, UTC).astimezone().strftime("%a, %d %b %Y %H:%M:%S %Z")


def unused_options_note(path: str, options: Sequence[str]) -> str:
    """Return the note about options that only tables have."""
    many = len(options) > 1
    verbs = ("are", "have") if many else ("is", "has")
    listed = ", ".join(options)
    return (
        f'Note: "{path}" is not a table. Option{"s" if many else ""} {listed} {verbs[0]} used only for tables '
        f"and thus {verbs[1]} no effect for this command."
    )


def entry_text(entry: Any, permissions: bool) -> str:
    """Return type and name of an entry, and its permissions on request."""
    head = f"<{type_name(entry.type)}> {entry.name}\n"
    return f"{head}\n{permissions_text(entry)}" if permissions else head


def system_view_text(entry: Any, described: Any) -> str:
    """Return the text of a DescribeSystemViewResult."""
    return f"{entry_text(entry, False)}Id: {described.sys_view_id} ({described.sys_view_name})\n\n{_columns(described)}"


def permissions_text(entry: Any) -> str:
    """Return owner, own permissions and effective permissions of an entry."""
    own, effective = _subjects(entry.permissions), _subjects(entry.effective_permissions)
    return f"Owner: {entry.owner}\n\nPermissions: \n{own}\nEffective permissions: \n{effective}"


def _subjects(permissions: Sequence[Any]) -> str:
    lines = [f"{each.subject}:{','.join(each.permission_names)}\n" for each in permissions]
    return "".join(lines) or "none\n"


def table_text(entry: Any, table: Any, sections_wanted: Sections) -> str:
    """Return all sections of a DescribeTableResult, each after a blank line; empty ones are left out."""
    sections = [
        _columns(table),
        _indexes(table),
        _storage(table),
        _families(table),
        _attributes(table),
        _ttl(table),
        _partitioning(table),
        f"Bloom filter by key: {_flag_text(table.key_bloom_filter)}\n" if table.key_bloom_filter else "",
        _replicas(table),
        permissions_text(entry) if sections_wanted.permissions else "",
        _statistics(table) if sections_wanted.stats else "",
        _partitions(table, sections_wanted) if sections_wanted.bounds or sections_wanted.partition_stats else "",
    ]
    return "\n".join([entry_text(entry, False), *(each for each in sections if each)])


def _box(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return render_box(names, rows, width=terminal_width())


def _flag_text(status: int) -> str:
    """Return a FeatureFlag as text."""
    return "true" if status == _ENABLED else "false"


def _columns(table: Any) -> str:
    key = list(table.primary_key)
    rows = [
        (
            column.name,
            format_type(decode_type(column.type)),
            column.family,
            f"K{key.index(column.name)}" if column.name in key else "",
        )
        for column in table.columns
    ]
    return "Columns:\n" + _box(("Name", "Type", "Family", "Key"), rows) if rows else ""


def _indexes(table: Any) -> str:
    rows = [
        (
            index.name,
            _INDEX_TYPES.get(index.WhichOneof("type"), "Unknown"),
            ",".join(index.index_columns),
            ",".join(index.data_columns),
        )
        for index in table.indexes
    ]
    return "Indexes:\n" + _box(("Name", "Type", "Index columns", "Cover columns"), rows) if rows else ""


def _storage(table: Any) -> str:
    settings = table.storage_settings
    lines = [
        f"{title}: {getattr(settings, name).media}\n"
        for name, title in (
            ("tablet_commit_log0", "Internal channel 0 commit log storage pool"),
            ("tablet_commit_log1", "Internal channel 1 commit log storage pool"),
            ("external", "External blobs storage pool"),
        )
        if settings.HasField(name)
    ]
    if settings.store_external_blobs:
        lines.append(f'Store large values in "external blobs": {_flag_text(settings.store_external_blobs)}\n')
    return "".join(("Storage settings: \n", *lines)) if lines else ""


def _families(table: Any) -> str:
    rows = [
        (
            family.name,
            family.data.media,
            _COMPRESSION_NAMES.get(family.compression, ""),
            {1: "1", 2: "0"}.get(family.keep_in_memory, ""),
        )
        for family in table.column_families
    ]
    return "Column families: \n" + _box(("Name", "Data", "Compression", "Keep in memory"), rows) if rows else ""


def _attributes(table: Any) -> str:
    rows = sorted(table.attributes.items())
    return "Attributes: \n" + _box(("Name", "Value"), rows) if rows else ""


def _seconds(count: int) -> str:
    return f"{count}.000000s"


def _ttl(table: Any) -> str:
    if not table.HasField("ttl_settings"):
        return ""
    settings = table.ttl_settings
    if settings.WhichOneof("mode") == "date_type_column":
        mode = settings.date_type_column
        lines = ["Ttl settings (date type column):", f"Column name: {mode.column_name}"]
    else:
        mode = settings.value_since_unix_epoch
        lines = [
            "Ttl settings (value since unix epoch):",
            f"Column name: {mode.column_name}",
            f"Column unit: {_UNIT_NAMES.get(mode.column_unit, 'Unknown')}",
        ]
    lines.append(f"Expire after: {_seconds(mode.expire_after_seconds)}")
    if settings.run_interval_seconds:
        lines.append(f"Run interval: {_seconds(settings.run_interval_seconds)}")
    return "\n".join(lines) + "\n"


def _partitioning(table: Any) -> str:
    settings = table.partitioning_settings
    by_size, by_load = settings.partitioning_by_size, settings.partitioning_by_load
    if not by_size and not by_load:
        return ""
    lines = [
        "Auto partitioning settings: ",
        f"Partitioning by size: {_flag_text(by_size)}",
        f"Partitioning by load: {_flag_text(by_load)}",
    ]
    for title, count in (
        ("Preferred partition size (Mb)", settings.partition_size_mb if by_size else 0),
        ("Min partitions count", settings.min_partitions_count),
        ("Max partitions count", settings.max_partitions_count),
    ):
        if count:
            lines.append(f"{title}: {count}")
    return "\n".join(lines) + "\n"


def _replicas(table: Any) -> str:
    kind = table.read_replicas_settings.WhichOneof("settings")
    if kind is None:
        return ""
    counts = table.read_replicas_settings
    if kind == "per_az_read_replicas_count":
        return f"Read replicas settings: \nRead replicas count in each AZ: {counts.per_az_read_replicas_count}\n"
    return f"Read replicas settings: \nRead replicas total count in all AZs: {counts.any_az_read_replicas_count}\n"


def _statistics(table: Any) -> str:
    stats = table.table_stats
    return (
        "Table stats:\n"
        f"Partitions count: {stats.partitions}\n"
        f"Approximate number of rows: {stats.rows_estimate}\n"
        f"Approximate size of table: {size_text(stats.store_size)}\n"
        f"Last modified: {time_text(stats.modification_time)}\n"
        f"Created: {time_text(stats.creation_time)}\n"
    )


def _partitions(table: Any, wanted: Sections) -> str:
    stats = list(table.table_stats.partition_stats) if wanted.partition_stats else []
    bounds = [to_json(*decode_typed_value(each)) for each in table.shard_key_bounds] if wanted.bounds else []
    title, names = "Partitions stats:\n", ["#"]
    if wanted.bounds:
        title = "Partitions info:\n" if wanted.partition_stats else "Partitions key boundaries:\n"
        names += ["", "From", "To", ""]
    if wanted.partition_stats:
        names += ["Rows", "Size"]
    # n bounds divide a table into n + 1 partitions.
    count = max(len(stats), len(bounds) + 1 if wanted.bounds else 0)
    rows = [[str(number + 1), *_partition(number, bounds, stats, wanted)] for number in range(count)]
    return title + (_box(names, rows) if rows else "No data.\n")


def _partition(number: int, bounds: Sequence[str], stats: Sequence[Any], wanted: Sections) -> Iterator[str]:
    if wanted.bounds:
        # Partitions include their lower bound, and exclude the upper one.
        yield from ("[", bounds[number - 1]) if 0 < number <= len(bounds) else ("(", "-Inf")
        yield from (bounds[number], ")") if number < len(bounds) else ("+Inf", ")")
    if wanted.partition_stats:
        each = stats[number] if number < len(stats) else None
        yield from ("", "") if each is None else (str(each.rows_estimate), size_text(each.store_size))
