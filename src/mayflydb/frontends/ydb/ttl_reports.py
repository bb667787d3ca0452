"""TTL of a table for the admin API: its column, spans, the preview of a change, and the deadline of a row."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Any, get_args

import msgspec

from mayflydb.engine.catalog import Node, next_number
from mayflydb.engine.proposals import Change, Proposal
from mayflydb.frontends.ydb.json_values import writer
from mayflydb.frontends.ydb.rows import RowLayout, partition_of
from mayflydb.frontends.ydb.schemes import paths
from mayflydb.frontends.ydb.schemes.catalog import Schemes
from mayflydb.frontends.ydb.schemes.columns import parse_stored_type
from mayflydb.frontends.ydb.schemes.definitions import body_of
from mayflydb.frontends.ydb.schemes.physical import partition_count
from mayflydb.frontends.ydb.schemes.showing import quote
from mayflydb.frontends.ydb.schemes.specs import AlterSpec, DropTtl, TtlSpec
from mayflydb.frontends.ydb.schemes.ttl import DATE_COLUMN_TYPES, NUMBER_COLUMN_TYPES, rule_of
from mayflydb.frontends.ydb.schemes.views import table_view
from mayflydb.frontends.ydb.tables import StoredColumn, TableBody, TtlSettings, Unit
from mayflydb.frontends.ydb.ttl_columns import anchor_of
from mayflydb.model.durations import format_iso
from mayflydb.model.errors import BadRequest, NotFound
from mayflydb.model.hints import Hint
from mayflydb.model.instant import SECOND, Instant, to_rfc3339
from mayflydb.model.record import Record
from mayflydb.query.yql.keys import decode_key, encode_key
from mayflydb.query.yql.texts import from_text, to_text
from mayflydb.query.yql.types import Type, bare

# --- keys ------------------------------------------------------------------------------------------------------------


def _key_types(node: Node) -> list[Type]:
    body = body_of(node.definition)
    types = {column.name: parse_stored_type(column.type) for column in body.columns}
    return [types[name] for name in body.key]


def key_text(node: Node, key: bytes) -> str:
    """Return a key as text: the value of a single column, or a JSON list of several. NULL is null."""
    types = _key_types(node)
    values = decode_key(types, key)
    texts = [None if value is None else to_text(bare(type), value) for type, value in zip(types, values, strict=True)]
    if len(texts) == 1 and texts[0] is not None:
        return texts[0]
    return msgspec.json.encode(texts).decode()


def parse_identities(node: Node, id: str) -> list[tuple[bytes, bytes]]:
    """Return the (partition, key) pairs that a text may stand for. BadRequest if the text is no key of the table."""
    types = _key_types(node)
    # A key of one column may be written bare or as a list of one; `[1]` may also be a text.
    readings: list[list[Any]] = [[id]] if len(types) == 1 else []
    try:
        given = msgspec.json.decode(id)
    except msgspec.DecodeError:
        given = None
    if isinstance(given, list) and len(given) == len(types):
        readings.append([each if each is None or isinstance(each, str) else str(each) for each in given])
    keys = [key for reading in readings if (key := _parse_key(types, reading)) is not None]
    if not keys:
        hint = f"write a JSON list of {len(types)} values" if len(types) > 1 else f"write a {bare(types[0])}"
        raise BadRequest(f"{id!r} is no key of {node.name}", hint=hint)
    return [(partition_of(key), key) for key in keys]


def _parse_key(types: list[Type], texts: list[str | None]) -> bytes | None:
    values = [None if text is None else from_text(bare(type), text) for type, text in zip(types, texts, strict=True)]
    if any(value is None and text is not None for value, text in zip(values, texts, strict=True)):
        return None
    return encode_key(types, values)


def row_json(node: Node, record: Record) -> dict[str, Any]:
    """Return a row as JSON, by the names of its columns."""
    view = table_view(node, node.name)
    values = RowLayout(view).decode(record.value)
    columns = zip(view.table.columns, view.numbers, strict=True)
    return {column.name: writer(column.type)(values[number]) for column, number in columns}


# --- TTL -------------------------------------------------------------------------------------------------------------


def ttl_columns(node: Node) -> list[dict[str, Any]]:
    """Return the TTL column: its name, span in seconds, what the span counts from, and the unit of a number."""
    ttl = body_of(node.definition).ttl
    if ttl is None:
        return []
    counted = "a date" if ttl.unit is None else f"a number of {ttl.unit.lower()}"
    column = {"name": ttl.column, "field": ttl.column, "expire_after_seconds": ttl.expire_after, "counts_from": counted}
    return [column | ({} if ttl.unit is None else {"unit": ttl.unit})]


def partitions_of(node: Node) -> int:
    """The number of partitions that a table reports."""
    return partition_count(body_of(node.definition).settings)


def _resolve_column(body: TableBody, change: Change) -> StoredColumn:
    """Return the column that a change names. BadRequest or NotFound if there is no such column."""
    name = change.field or change.index or (None if body.ttl is None else body.ttl.column)
    if name is None:
        raise BadRequest("the table has no TTL column", hint=Hint("ttl-column"))
    column = next((each for each in body.columns if each.name == name), None)
    if column is None:
        raise NotFound(f"there is no column {name}")
    return column


def _resolve_unit(body: TableBody, column: StoredColumn, change: Change) -> Unit | None:
    """Return the unit of a TTL column: the requested one, the current one, or seconds.

    None for a date. BadRequest for a unit that does not fit the type.
    """
    is_number = bare(parse_stored_type(column.type)) in NUMBER_COLUMN_TYPES
    if change.unit is not None:
        units: tuple[Unit, ...] = get_args(Unit)
        unit = next((each for each in units if each == change.unit), None)
        if unit is None or not is_number:
            hint = Hint("units", {"names": ", ".join(units).lower()}) if is_number else Hint("no-unit")
            raise BadRequest(f"{column.name} is {column.type}: it does not count in {change.unit}", hint=hint)
        return unit
    if body.ttl is not None and body.ttl.column == column.name:
        return body.ttl.unit
    return "SECONDS" if is_number else None


def _resolve_run_interval(body: TableBody, column: StoredColumn, change: Change) -> int | None:
    """Return the seconds between removal runs: the requested or the current setting; None: the server's default."""
    if change.run_interval is None and body.ttl is not None and body.ttl.column == column.name:
        return body.ttl.run_interval
    return change.run_interval or None


def preview_change(database: str, node: Node, change: Change) -> Proposal:
    """Return the preview of a TTL change made now. BadRequest if the table cannot have these settings."""
    body = body_of(node.definition)
    column = _resolve_column(body, change)
    current = body.ttl.expire_after if body.ttl is not None and body.ttl.column == column.name else None
    if change.seconds is None:
        return Proposal((), current, column.name, statements=_statements(database, node.name, None))
    if bare(parse_stored_type(column.type)) not in DATE_COLUMN_TYPES | NUMBER_COLUMN_TYPES:
        raise BadRequest(f"{column.name} is {column.type}: no row dies by it")
    if change.seconds < 0:
        raise BadRequest("a TTL column has a span of 0 seconds or more")
    unit, runs = _resolve_unit(body, column, change), _resolve_run_interval(body, column, change)
    has_dates = body.ttl is not None and (body.ttl.column, body.ttl.unit) == (column.name, unit)
    # The real change would give a new column or unit this number too.
    slot = body.ttl.slot if body.ttl is not None and has_dates else next_number(node.definition)
    ttl = TtlSettings(column.name, change.seconds, unit, runs, slot)
    rule = rule_of(ttl, body.attributes, hides=any(rule.hides for rule in node.definition.rules))
    add_date = None if has_dates else _date_adder(node, column, unit, slot)
    return Proposal((rule,), current, column.name, add_date, _statements(database, node.name, ttl))


def _date_adder(node: Node, column: StoredColumn, unit: Unit | None, slot: int) -> Callable[[Record], Record]:
    """Return the function that adds the date of a new TTL column or unit to a record.

    The store has no such dates yet, so the preview derives them from the rows.
    """
    layout, type_name = RowLayout(table_view(node, node.name)), str(bare(parse_stored_type(column.type)))

    def add_date(record: Record) -> Record:
        date = anchor_of(type_name, unit, layout.decode(record.value)[column.number])
        return record if date is None else msgspec.structs.replace(record, dates=(*record.dates, (slot, date)))

    return add_date


def date_reader(node: Node) -> Callable[[Record], dict[str, Instant]]:
    """Return the function that finds the dates in the columns of a row."""
    types = {column.name: bare(parse_stored_type(column.type)) for column in body_of(node.definition).columns}
    columns = [
        (column.name, column.number, str(types[column.name]))
        for column in body_of(node.definition).columns
        if types[column.name] in DATE_COLUMN_TYPES
    ]
    layout = RowLayout(table_view(node, node.name))

    def find_dates(record: Record) -> dict[str, Instant]:
        row = layout.decode(record.value) if columns else []
        dates = ((name, anchor_of(type_name, None, row[number])) for name, number, type_name in columns)
        return {name: date for name, date in dates if date is not None}

    return find_dates


async def change_ttl(schemes: Schemes, database: str, node: Node, change: Change) -> None:
    """Change the TTL of a table. Errors as of `preview_change`, and the refusals of TTL settings."""
    body = body_of(node.definition)
    column = _resolve_column(body, change)
    # Refuses what the preview refuses, in the same words.
    preview_change(database, node, change)
    now = await schemes.engine.now()
    path = paths.join_path(database, node.name)
    if change.seconds is None:
        if body.ttl is not None and body.ttl.column == column.name:
            await schemes.alter(path, AlterSpec(ttl=DropTtl()), now)
        return
    ttl = TtlSpec(
        column.name, change.seconds, _resolve_unit(body, column, change), _resolve_run_interval(body, column, change)
    )
    await schemes.alter(path, AlterSpec(ttl=ttl), now)


def possible_columns(node: Node) -> dict[str, bool]:
    """Return the columns that a TTL may use, in the order of the table; True for numbers, which need a unit."""
    body = body_of(node.definition)
    types = {column.name: bare(parse_stored_type(column.type)) for column in body.columns}
    return {
        name: type in NUMBER_COLUMN_TYPES
        for name, type in types.items()
        if type in DATE_COLUMN_TYPES | NUMBER_COLUMN_TYPES
    }


def _statements(database: str, name: str, ttl: TtlSettings | None) -> tuple[str, str]:
    """Return the YQL statement and the command line that set these TTL settings."""
    table, command = shlex.quote(name), f"ydb -d {shlex.quote(database)} table ttl"
    if ttl is None:
        return f"ALTER TABLE {quote(name)} RESET (TTL);", f"{command} reset {table}"
    unit = f" AS {ttl.unit}" if ttl.unit else ""
    flags = [f"--column {shlex.quote(ttl.column)} --expire-after {ttl.expire_after}"]
    flags += [f"--unit {ttl.unit.lower()}"] if ttl.unit else []
    flags += [f"--run-interval {ttl.run_interval}"] if ttl.run_interval else []
    span = f'Interval("{format_iso(ttl.expire_after * SECOND)}")'
    return (
        f"ALTER TABLE {quote(name)} SET (TTL = {span} ON {quote(ttl.column)}{unit});",
        f"{command} set {' '.join(flags)} {table}",
    )


# --- one row ---------------------------------------------------------------------------------------------------------


def describe_row(node: Node, record: Record) -> dict[str, Any]:
    """Return the last write of a row and the date in its TTL column."""
    found: dict[str, Any] = {"written": to_rfc3339(record.written)}
    body = body_of(node.definition)
    if body.ttl is None:
        return found
    column = next(each for each in body.columns if each.name == body.ttl.column)
    value = RowLayout(table_view(node, node.name)).decode(record.value)[column.number]
    date = anchor_of(str(bare(parse_stored_type(column.type))), body.ttl.unit, value)
    row: dict[str, Any] = {"index": column.name, "date": None if date is None else _date_text(date)}
    if date is None:
        row |= {"reason": "no-anchor", "text": f"{column.name} is NULL"}
    return {**found, "dates": [row]}


def _date_text(date: int) -> str:
    try:
        return to_rfc3339(date)
    except (OverflowError, ValueError):
        return "before year 1" if date < 0 else "after 9999"
