"""BulkUpsert: rows into one table, without session and transaction.

Texts: `ydb/core/tx/tx_proxy/upload_rows_common_impl.h` of https://github.com/ydb-platform/ydb.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from mayflydb.frontends.ydb import bulk, values, wire
from mayflydb.frontends.ydb.calls import GrpcCall
from mayflydb.frontends.ydb.crossing import FromThread
from mayflydb.frontends.ydb.query_run import SMALL_REQUEST
from mayflydb.frontends.ydb.schemes.paths import resolve_path
from mayflydb.frontends.ydb.services import Services, Unary
from mayflydb.frontends.ydb.tables import TableView
from mayflydb.query.yql import texts
from mayflydb.query.yql.faults import Fault, fault
from mayflydb.query.yql.schemas import Column, Effect, Row
from mayflydb.query.yql.types import BOOL, ListType, StructType, Type, Value, bare, format_type


def _bad_request(text: str) -> Fault:
    return fault(text, status="BAD_REQUEST")


async def bulk_upsert(services: Services, call: GrpcCall, request: Any) -> bytes:
    """`BulkUpsert`: all rows or none. Of several rows with one key, the last one counts."""
    view = await services.schemes.get_table(resolve_path(call.database, None, request.table))
    form = request.WhichOneof("data_format")
    if form == "arrow_batch_settings":
        raise fault("BulkUpsert of Apache Arrow batches is not supported", status="UNSUPPORTED")
    statement = services.environment.begin_statement(call)
    statement.cheap = call.size <= SMALL_REQUEST
    effect = await statement.call(0, _read_effect, view, form, request)
    with services.engine.evaluators.keep_collector_away():
        layout = services.environment.layouts.of(view)
        await bulk.write_effects(services.engine, [(layout, effect)], call.now, FromThread(statement), call.user)
    return wire.operation_response(type_name="Ydb.Table.BulkUpsertResult")


def _read_effect(view: TableView, form: str | None, request: Any) -> Effect:
    if form == "csv_settings":
        names, rows = _from_csv(view, request.csv_settings, request.data)
    else:
        names, rows = _from_list(view, request.rows)
    _check_nulls(view, names, rows)
    return Effect("UPSERT", view.table.path, tuple(names), rows)


def _from_list(view: TableView, given: Any) -> tuple[list[str], list[Row]]:
    type = values.decode_type(given.type)
    if not isinstance(type, ListType) or not isinstance(type.item, StructType):
        raise _bad_request("Rows must be a list of structs")
    members = type.item.members
    _check_columns(view, dict(members))
    return [name for name, _ in members], values.decoder(type)(given.value)


def _columns(view: TableView) -> dict[str, Column]:
    return {column.name: column for column in view.table.columns}


def _check_columns(view: TableView, types: Mapping[str, Type | None]) -> None:
    """Check that rows with these columns can be written. A type of None stands for the column's own type."""
    columns = _columns(view)
    for name, type in types.items():
        if name not in columns:
            raise fault(f"Unknown column: {name}", status="SCHEME_ERROR")
        wanted = columns[name].type
        if type is not None and bare(type) != bare(wanted):
            text = f"Type mismatch, got type {format_type(bare(type))} for column {name}, but expected"
            raise _bad_request(f"{text} {format_type(bare(wanted))}")
    if missing := [name for name in view.table.key if name not in types]:
        raise fault(f"Missing key columns: {', '.join(missing)}", status="SCHEME_ERROR")
    left = [each.name for each in columns.values() if each.not_null and not each.has_default and each.name not in types]
    if left:
        raise _bad_request(f"Missing not null columns: {', '.join(left)}")


def _check_nulls(view: TableView, names: Sequence[str], rows: Sequence[Row]) -> None:
    columns = _columns(view)
    for place, name in enumerate(names):
        if columns[name].not_null and any(row[place] is None for row in rows):
            raise _bad_request(f"Received NULL value for not null column: {name}")


# --- CSV -----------------------------------------------------------------------------------------------------------------


class _Dialect(csv.excel):
    """The CSV dialect of a request."""

    strict = True


def _from_csv(view: TableView, settings: Any, data: bytes) -> tuple[list[str], list[Row]]:
    try:
        # The csv module reads a dialect from the attributes of a class.
        dialect = type("_Given", (_Dialect,), _dialect_settings(settings))
        # Only CR and LF end a line here; Unicode has other line ends.
        lines = islice(io.StringIO(data.decode(), newline=""), settings.skip_rows, None)
        read = [line for line in csv.reader(lines, dialect=dialect) if line]
        null = settings.null_value.decode()
    except (ValueError, TypeError, csv.Error) as error:
        raise _bad_request(f"Cannot read CSV: {error}") from None
    names = [column.name for column in view.table.columns]
    if settings.header and read:
        names, read = read[0], read[1:]
    _check_columns(view, dict.fromkeys(names))
    return names, list(_parse_rows(view, names, read, null))


def _dialect_settings(settings: Any) -> dict[str, Any]:
    delimiter = settings.delimiter.decode() or ","
    if len(delimiter) != 1:
        raise _bad_request(f"Invalid CSV delimiter: '{delimiter}'")
    quoting = settings.quoting
    return {
        "delimiter": delimiter,
        "quoting": csv.QUOTE_NONE if quoting.disabled else csv.QUOTE_MINIMAL,
        "quotechar": None if quoting.disabled else quoting.quote_char.decode() or '"',
        "doublequote": not quoting.double_quote_disabled,
    }


def _parse_rows(view: TableView, names: Sequence[str], lines: Sequence[Sequence[str]], null: str) -> Iterator[Row]:
    columns = _columns(view)
    parsers = [_field_parser(columns[name]) for name in names]
    for number, line in enumerate(lines, 1):
        if len(line) != len(names):
            raise _bad_request(
                f"Cannot read CSV: row {number} has {len(line)} fields, and there are {len(names)} columns"
            )
        yield tuple([None if text == null else read(text) for read, text in zip(parsers, line, strict=True)])


def _field_parser(column: Column) -> Callable[[str], Value]:
    type = bare(column.type)

    def parse(text: str) -> Value:
        value = texts.from_text(type, text.lower() if type == BOOL else text)
        if value is None:
            raise _bad_request(f"Cannot read CSV: '{text}' is no {format_type(type)}, for column {column.name}")
        return value

    return parse


COMMANDS: Final[Mapping[str, Unary]] = {"Ydb.Table.V1.TableService/BulkUpsert": bulk_upsert}
