"""Messages that describe entries of directories, and tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mayflydb.frontends.ydb.changefeeds.options import FORMATS, MODES
from mayflydb.frontends.ydb.descriptors import message
from mayflydb.frontends.ydb.schemes.entries import (
    DirectoryEntry,
    Entry,
    IndexEntry,
    SystemEntry,
    TopicEntry,
    ViewEntry,
    created_of,
)
from mayflydb.frontends.ydb.schemes.from_wire import UNITS_BY_NUMBER
from mayflydb.frontends.ydb.schemes.paths import leaf
from mayflydb.frontends.ydb.schemes.physical import describe_other_settings, describe_partitioning
from mayflydb.frontends.ydb.serials import Sequence, sequence_name
from mayflydb.frontends.ydb.tables import Changefeed, TableBody, TableView, TtlSettings
from mayflydb.frontends.ydb.values import encode_type, encode_typed_value
from mayflydb.model.instant import MILLISECOND
from mayflydb.query.yql.schemas import Column, Index, Table

DIRECTORY: Final = 1
TABLE: Final = 2
DATABASE: Final = 4
COLUMN_TABLE: Final = 13
TOPIC: Final = 17
VIEW: Final = 20
SYS_VIEW: Final = 24

ENABLED: Final = 1
INITIAL_SCAN: Final = 3

READY: Final = 1
BUILDING: Final = 2

_UNIT_NUMBERS: Final = {unit: number for number, unit in UNITS_BY_NUMBER.items()}
_INDEX_FIELDS: Final = {
    "sync": "global_index",
    "async": "global_async_index",
    "unique": "global_unique_index",
}
_COMPRESSION: Final = {"off": 1, "lz4": 2}


def path_of(entry: Entry) -> str:
    """Return the absolute path of an entry."""
    return entry.table.path if isinstance(entry, TableView) else entry.path


def entry_message(entry: Entry) -> Any:
    """Return an entry as it stands in listings."""
    found = message("Ydb.Scheme.Entry")(name=leaf(path_of(entry)), owner="root@builtin", type=_entry_type(entry))
    if isinstance(entry, DirectoryEntry) and entry.is_database:
        found.name = entry.path
    if isinstance(entry, (TableView, ViewEntry, TopicEntry, DirectoryEntry)):
        found.owner = entry.body.owner
        for subject, names in entry.body.permissions.items():
            for into in (found.permissions, found.effective_permissions):
                into.add(subject=subject, permission_names=names)
    created = created_of(entry)
    if created:
        # A VirtualTimestamp, whose plan_step is in milliseconds.
        found.created_at.plan_step = created // MILLISECOND
        found.created_at.tx_id = 1
    return found


def _entry_type(entry: Entry) -> int:
    match entry:
        case TableView(body=body):
            return COLUMN_TABLE if body.column_store else TABLE
        case ViewEntry():
            return VIEW
        case TopicEntry():
            return TOPIC
        case DirectoryEntry(is_database=True):
            return DATABASE
        case SystemEntry():
            return SYS_VIEW
        case IndexEntry():
            return TABLE
        case _:
            return DIRECTORY


def describe_table(entry: Entry, sequences: Mapping[str, Sequence] | None = None, with_position: bool = False) -> Any:
    """Return a DescribeTableResult without statistics. Directories and views give their entry alone.

    `sequences`: the current state of the Serial columns' sequences. `with_position`: include the next number.
    """
    result = message("Ydb.Table.DescribeTableResult")()
    result.self.CopyFrom(entry_message(entry))
    if isinstance(entry, (DirectoryEntry, ViewEntry, TopicEntry)):
        return result
    _describe_columns(entry.table, result)
    if isinstance(entry, TableView):
        for column in result.columns:
            if sequences and column.name in sequences:
                _describe_sequence(column.name, sequences[column.name], column.from_sequence, with_position)
        for index in entry.table.indexes:
            _describe_index(index, result.indexes.add())
        body = entry.body
        if body.ttl is not None:
            describe_ttl(body.ttl, result.ttl_settings)
        result.attributes.update(body.attributes)
        for family in _families(body):
            _describe_family(family, result.column_families.add())
        describe_other_settings(body.settings, result)
        result.store_type = 2 if body.column_store else 1
        describe_partitioning(body.settings, result.partitioning_settings, body.column_store)
        for feed in body.changefeeds:
            _describe_changefeed(feed, result.changefeeds.add())
    return result


def _describe_columns(table: Table, result: Any) -> None:
    for column in table.columns:
        _describe_column(column, result.columns.add())
    result.primary_key.extend(table.key)


def _describe_column(column: Column, into: Any) -> None:
    into.name = column.name
    into.type.ParseFromString(encode_type(column.type))
    if column.not_null:
        into.not_null = True
    into.family = column.family
    if column.has_default:
        into.from_literal.ParseFromString(encode_typed_value(column.type, column.default))


def _describe_changefeed(feed: Changefeed, into: Any) -> None:
    into.name = feed.name
    into.mode, into.format = MODES.index(feed.mode) + 1, FORMATS.index(feed.format) + 1
    into.state = ENABLED if feed.scan is None else INITIAL_SCAN
    into.virtual_timestamps = feed.virtual_timestamps
    into.aws_region = feed.aws_region
    into.attributes.update(feed.attributes)
    if feed.scan is not None:
        into.initial_scan_progress.parts_total = 1


def _describe_sequence(column: str, sequence: Sequence, into: Any, with_position: bool) -> None:
    into.name = sequence_name(column)
    into.min_value, into.max_value = sequence.low, sequence.high
    into.start_value, into.increment = sequence.start, sequence.increment
    into.cache, into.cycle = sequence.cache, sequence.cycle
    if with_position:
        into.set_val.next_value, into.set_val.next_used = sequence.next, sequence.used


def _describe_index(index: Index, into: Any) -> None:
    into.name = index.name
    into.index_columns.extend(index.columns)
    into.data_columns.extend(index.cover)
    # An empty message: its presence is the information.
    getattr(into, _INDEX_FIELDS[index.kind]).SetInParent()
    into.status = READY if index.ready else BUILDING


def describe_ttl(ttl: TtlSettings, into: Any) -> None:
    """Fill in TtlSettings. The run interval is left out if the table has no setting of its own."""
    if ttl.unit is None:
        into.date_type_column.column_name = ttl.column
        into.date_type_column.expire_after_seconds = ttl.expire_after
    else:
        into.value_since_unix_epoch.column_name = ttl.column
        into.value_since_unix_epoch.column_unit = _UNIT_NUMBERS[ttl.unit]
        into.value_since_unix_epoch.expire_after_seconds = ttl.expire_after
    if ttl.run_interval is not None:
        into.run_interval_seconds = ttl.run_interval


def _families(body: TableBody) -> list[Mapping[str, Any]]:
    """Return the column families of a table. The family `default` always exists."""
    named = any(family["name"] == "default" for family in body.families)
    return [*body.families] if named else [{"name": "default"}, *body.families]


def _describe_family(family: Mapping[str, Any], into: Any) -> None:
    into.name = family["name"]
    if "data" in family:
        into.data.media = str(family["data"])
    into.compression = _COMPRESSION.get(str(family.get("compression", "off")), 1)
    if "cache_mode" in family:
        into.keep_in_memory = 1 if family["cache_mode"] == "in_memory" else 2
