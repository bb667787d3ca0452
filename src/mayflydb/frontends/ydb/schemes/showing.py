"""SHOW CREATE: the statement that creates a table or view."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from mayflydb.frontends.ydb.schemes.columns import parse_stored_type
from mayflydb.frontends.ydb.schemes.entries import ViewEntry
from mayflydb.frontends.ydb.schemes.physical import NOT_IN_YQL
from mayflydb.frontends.ydb.serials import Sequence, sequence_name, serial_name
from mayflydb.frontends.ydb.tables import Changefeed, StoredColumn, TableView, TtlSettings
from mayflydb.frontends.ydb.topics.bodies import TopicBody
from mayflydb.model.durations import format_iso
from mayflydb.model.instant import SECOND
from mayflydb.query.yql.schemas import Index
from mayflydb.query.yql.types import bare, is_optional

_UNQUOTED_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_INDEX_KINDS: Final = {"sync": "GLOBAL SYNC", "async": "GLOBAL ASYNC", "unique": "GLOBAL UNIQUE SYNC"}


def quote(name: str) -> str:
    """Quote a name with backticks."""
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"


def ttl_text(ttl: TtlSettings) -> str:
    """Return a TTL setting as YQL: `INTERVAL('P7D') DELETE ON at`."""
    column = ttl.column if _UNQUOTED_NAME.match(ttl.column) else quote(ttl.column)
    unit = "" if ttl.unit is None else f" AS {ttl.unit}"
    return f"INTERVAL('{format_iso(ttl.expire_after * SECOND)}') DELETE ON {column}{unit}"


def show_table(
    view: TableView,
    name: str,
    sequences: Mapping[str, Sequence] | None = None,
    topics: Mapping[str, TopicBody] | None = None,
    temporary: bool = False,
) -> str:
    """Return `CREATE TABLE` of a table under a name, `ALTER SEQUENCE` for each sequence that differs from a new one, and what
    adds its changefeeds. `topics`: those of the changefeeds, by name.
    """
    lines = [_column(column) for column in view.body.columns]
    lines += [_index(index) for index in view.table.indexes]
    lines += [_family(family) for family in view.body.families]
    lines.append(f"PRIMARY KEY ({', '.join(map(quote, view.table.key))})")
    body = ",\n".join(f"    {line}" for line in lines)
    partition = view.body.settings.get("PARTITION_BY")
    partition_clause = f"\nPARTITION BY HASH ({', '.join(map(quote, partition))})" if partition else ""
    options = _options(view)
    with_clause = "\nWITH (\n" + ",\n".join(f"    {each}" for each in options) + "\n)" if options else ""
    sequence_changes = (_alter_sequence(view, column, state) for column, state in (sequences or {}).items())
    feeds = "".join(_show_changefeed(name, feed, (topics or {})[feed.name]) for feed in view.body.changefeeds if topics)
    create = "CREATE TEMPORARY TABLE" if temporary else "CREATE TABLE"
    return f"{create} {quote(name)} (\n{body}\n){partition_clause}{with_clause};\n{''.join(sequence_changes)}{feeds}"


def _show_changefeed(table: str, feed: Changefeed, topic: TopicBody) -> str:
    """Return the statements that add a changefeed and the consumers of its topic."""
    settings = [f"MODE = '{feed.mode}'", f"FORMAT = '{feed.format}'"]
    settings += ["VIRTUAL_TIMESTAMPS = TRUE"] if feed.virtual_timestamps else []
    settings += ["USER_SIDS = TRUE"] if feed.user_sids else []
    settings += [f"AWS_REGION = {_literal(feed.aws_region)}"] if feed.aws_region else []
    settings.append(f"RETENTION_PERIOD = INTERVAL('{format_iso(topic.retention * SECOND)}')")
    settings += [f"TOPIC_MIN_ACTIVE_PARTITIONS = {topic.partitions}"] if topic.partitions > 1 else []
    lines = f"\nALTER TABLE {quote(table)}\n    ADD CHANGEFEED {quote(feed.name)} WITH ({', '.join(settings)})\n;\n"
    consumers = ",\n".join(f"    ADD CONSUMER {quote(each.name)}" for each in topic.consumers)
    return lines + (f"\nALTER TOPIC {quote(f'{table}/{feed.name}')}\n{consumers}\n;\n" if consumers else "")


def _alter_sequence(view: TableView, column: str, state: Sequence) -> str:
    parts = [f"START WITH {state.start}"] if state.start != 1 else []
    parts += [f"INCREMENT BY {state.increment}"] if state.increment != 1 else []
    # A new sequence begins at 1. RESTART without a number goes back to the start.
    if state.next != 1:
        parts.append("RESTART" if state.next == state.start else f"RESTART WITH {state.next}")
    path = quote(f"{view.table.path}/{sequence_name(column)}")
    return f"\nALTER SEQUENCE {path} {' '.join(parts)};\n" if parts else ""


def _column(column: StoredColumn) -> str:
    type = parse_stored_type(column.type)
    parts = [quote(column.name), str(bare(type)) if column.sequence is None else serial_name(type)]
    if column.family:
        parts.append(f"FAMILY {quote(column.family)}")
    # In YQL a column takes NULL unless it says NOT NULL; in stored types it is the other way round.
    if not is_optional(type):
        parts.append("NOT NULL")
    if column.default is not None:
        parts.append(f"DEFAULT {column.default}")
    return " ".join(parts)


def _index(index: Index) -> str:
    cover = f" COVER ({', '.join(map(quote, index.cover))})" if index.cover else ""
    return f"INDEX {quote(index.name)} {_INDEX_KINDS[index.kind]} ON ({', '.join(map(quote, index.columns))}){cover}"


def _family(family: dict[str, Any]) -> str:
    settings = ", ".join(f"{name.upper()} = {_literal(value)}" for name, value in family.items() if name != "name")
    return f"FAMILY {quote(family['name'])} ({settings})"


def _options(view: TableView) -> list[str]:
    settings = {name: value for name, value in view.body.settings.items() if name not in NOT_IN_YQL}
    options = [f"{name} = {_setting_value(name, value)}" for name, value in settings.items()]
    if view.body.column_store:
        options.append("STORE = COLUMN")
    if view.body.ttl is not None:
        options.append(f"TTL = {ttl_text(view.body.ttl)}")
    return options


def _setting_value(name: str, value: Any) -> str:
    if name == "PARTITION_AT_KEYS":
        return "(" + ", ".join(_split_point(each) for each in value) + ")"
    return value if value in ("ENABLED", "DISABLED") else _literal(value)


def _split_point(values: list[Any]) -> str:
    parts = [_literal(value) for value in values]
    return parts[0] if len(parts) == 1 else f"({', '.join(parts)})"


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'" if isinstance(value, str) else str(value)


def show_view(entry: ViewEntry, name: str) -> str:
    """Return `CREATE VIEW` of a view under a name."""
    text = entry.body.text.strip().rstrip(";")
    return f"CREATE VIEW {quote(name)} WITH (security_invoker = TRUE) AS\n{text};\n"
