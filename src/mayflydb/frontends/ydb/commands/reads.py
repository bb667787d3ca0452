"""Reads without a query (ReadRows and StreamReadTable), and scan queries (StreamExecuteScanQuery)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final

from mayflydb.evaluation.statement import Statement
from mayflydb.frontends.ydb import values, wire
from mayflydb.frontends.ydb.calls import GrpcCall
from mayflydb.frontends.ydb.commands import bulk
from mayflydb.frontends.ydb.commands.queries import decode_parameters, stats_message
from mayflydb.frontends.ydb.commands.table_queries import COLLECT_BASIC, COLLECT_FULL, query_text
from mayflydb.frontends.ydb.crossing import BYTES_OF_ROW, FromThread
from mayflydb.frontends.ydb.packing import rows_encoder
from mayflydb.frontends.ydb.query_run import SMALL_REQUEST, Columns
from mayflydb.frontends.ydb.results import DEFAULT_MESSAGE_BYTES, ProtobufFormat, RowMessages, encode_results
from mayflydb.frontends.ydb.schemes.entries import IndexEntry
from mayflydb.frontends.ydb.schemes.faults import unknown_path
from mayflydb.frontends.ydb.schemes.paths import resolve_path
from mayflydb.frontends.ydb.services import Services, Streaming, Unary
from mayflydb.frontends.ydb.tables import TableView
from mayflydb.frontends.ydb.transactions import TransactionControl
from mayflydb.query.yql.faults import Fault, fault
from mayflydb.query.yql.schemas import Access, KeyRange, Row, Table
from mayflydb.query.yql.types import ListType, StructType, TupleType, Type, Value, bare, format_type, optional


async def _get_readable(services: Services, call: GrpcCall, name: str) -> TableView | IndexEntry:
    path = resolve_path(call.database, None, name)
    entry = await services.schemes.find(path)
    if not isinstance(entry, (TableView, IndexEntry)):
        raise unknown_path(path)
    return entry


def _columns(table: Table, names: Sequence[str]) -> Columns:
    """Return the requested columns; all columns if the request names none."""
    types = {column.name: column.type for column in table.columns}
    for name in names:
        if name not in types:
            raise fault(f"Unknown column '{name}'", status="SCHEME_ERROR", code=2017)
    return tuple((name, types[name]) for name in names or types)


async def _read(
    services: Services,
    call: GrpcCall,
    statement: Statement,
    view: TableView | IndexEntry,
    access: Access,
    streams: bool = False,
) -> AsyncGenerator[Sequence[Row], None]:
    """Yield the rows of an access from one snapshot. They are decoded as those of a query are. `streams`: as of `execute`."""
    environment = services.environment
    snapshot = await environment.snapshot(call, "snapshot_read_only")
    statement.cheap = call.size <= SMALL_REQUEST
    crossing = FromThread(statement, streams)
    tables = environment.tables(snapshot, {view.table.path: view}, "snapshot_read_only", {}, crossing)
    try:
        async with aclosing(statement.iterate(tables.read(access), begins_here=True)) as batches:
            async for rows in batches:
                yield rows
    finally:
        snapshot.close()


# --- ReadRows ------------------------------------------------------------------------------------------------------------


async def read_rows(services: Services, call: GrpcCall, request: Any) -> bytes:
    """`ReadRows`: the existing rows among these keys."""
    view = await _get_readable(services, call, request.path)
    columns = _columns(view.table, request.columns)
    statement = services.environment.begin_statement(call)
    statement.cheap = call.size <= SMALL_REQUEST
    ranges = await statement.call(0, _parse_keys, view.table, request.keys)
    access = Access(view.table.path, tuple(name for name, _ in columns), None, ranges)
    found: list[Row] = []
    async with aclosing(_read(services, call, statement, view, access)) as batches:
        async for rows in batches:
            found.extend(rows)
    encode = rows_encoder(type for _, type in columns)
    content = await statement.call(BYTES_OF_ROW * len(found), encode, found)
    return wire.plain_response(rest=wire.bytes_field(3, values.columns_field(columns) + content))


def _parse_keys(table: Table, given: Any) -> tuple[KeyRange, ...]:
    type = values.decode_type(given.type)
    if not isinstance(type, ListType) or not isinstance(type.item, StructType):
        raise _bad_request("Keys must be a list of structs")
    members = type.item.members
    names = [name for name, _ in members]
    if missing := [name for name in table.key if name not in names]:
        raise _bad_request(f"Missing key columns: {', '.join(missing)}")
    if extra := [name for name in names if name not in table.key]:
        raise _bad_request(f"Columns that are not in the key: {', '.join(extra)}")
    types = dict(members)
    _check_types(table, [types[name] for name in table.key])
    places = [names.index(name) for name in table.key]
    keys = (tuple(row[place] for place in places) for row in values.decoder(type)(given.value))
    return tuple(KeyRange(key, key) for key in keys)


def _bad_request(text: str) -> Fault:
    return fault(text, status="BAD_REQUEST")


def _check_types(table: Table, given: Sequence[Type]) -> None:
    """Check that the types fit the first columns of the key."""
    columns = {column.name: column.type for column in table.columns}
    for name, type in zip(table.key, given, strict=False):
        if bare(type) != bare(columns[name]):
            raise _bad_request(f"Type mismatch for column {name}: {format_type(bare(type))}, expected {columns[name]}")


# --- StreamReadTable -----------------------------------------------------------------------------------------------------


async def stream_read_table(services: Services, call: GrpcCall, request: Any) -> AsyncIterator[bytes]:
    """`StreamReadTable`: rows of a table or an index in a key range, from one snapshot."""
    # The session is only marked as used: a stream may run beside other requests of its session.
    if request.session_id:
        services.sessions.get(call, request.session_id)
    view = await _get_readable(services, call, request.path)
    columns = _columns(view.table, request.columns)
    # FeatureFlag: 1 is ENABLED, 2 is DISABLED. Unless disabled, columns that are NOT NULL are sent as optional.
    sent_columns = (
        columns if request.return_not_null_data_as_optional == 2 else tuple((n, optional(t)) for n, t in columns)
    )
    within = _parse_range(view.table, request.key_range)
    limit = request.row_limit or None
    access = Access(view.table.path, tuple(name for name, _ in columns), None, (within,), False, limit)
    block = values.columns_field(sent_columns)
    encode = rows_encoder(type for _, type in sent_columns)
    most_bytes = min(request.batch_limit_bytes or DEFAULT_MESSAGE_BYTES, DEFAULT_MESSAGE_BYTES)
    statement = services.environment.begin_statement(call)
    messages = RowMessages(block, encode, most_bytes, request.batch_limit_rows, computing=statement)
    node = view.node if isinstance(view, TableView) else view.view.node
    # A VirtualTimestamp: plan_step in milliseconds, and the table's lsn as tx_id. Read before the snapshot begins, so
    # it is never newer than the rows.
    snapshot_field = wire.int_field(1, call.now // 1000) + wire.int_field(2, await services.engine.lsn(node.id))
    async with aclosing(_read(services, call, statement, view, access, streams=True)) as batches:
        async for rows in batches:
            async for content in messages.add(rows):
                yield _read_message(content, snapshot_field)
    yield _read_message(messages.flush(), snapshot_field)


def _read_message(result_set: bytes, snapshot_field: bytes) -> bytes:
    return wire.plain_response(
        rest=wire.bytes_field(3, wire.bytes_field(1, result_set)) + wire.bytes_field(4, snapshot_field)
    )


def _parse_range(table: Table, given: Any) -> KeyRange:
    lower, lower_open = _parse_bound(table, given, "from_bound", "greater")
    upper, upper_open = _parse_bound(table, given, "to_bound", "less")
    return KeyRange(lower, upper, lower_open, upper_open)


def _parse_bound(table: Table, given: Any, side: str, exclusive: str) -> tuple[tuple[Value, ...], bool]:
    which = given.WhichOneof(side)
    if which is None:
        return (), False
    type, value = values.decode_typed_value(getattr(given, which))
    if not isinstance(type, TupleType):
        raise _bad_request("A bound of a key range must be a tuple")
    if len(type.items) > len(table.key):
        raise _bad_request(f"A bound of a key range has {len(type.items)} values, and the key {len(table.key)} columns")
    _check_types(table, type.items)
    return tuple(value), which == exclusive


# --- scan queries --------------------------------------------------------------------------------------------------------

_EXPLAIN: Final = 1


async def stream_execute_scan_query(services: Services, call: GrpcCall, request: Any) -> AsyncIterator[bytes]:
    """`StreamExecuteScanQuery`: a query with a single result set of any length, over one snapshot."""
    executor = services.executor
    text = query_text(services, request.query)
    statement = services.environment.begin_statement(call)
    parameters = await decode_parameters(call, statement, request.parameters)
    types = {name: type for name, (type, _) in parameters.items()}
    described = await executor.describe_query(call, text, types, statement)
    if described.writes:
        raise fault("Scan query cannot have data modifications.", status="PRECONDITION_FAILED", code=2029)
    # A stream of a scan query does not number its result sets.
    if len(described.results) != 1:
        raise fault("Scan query should have a single result set.", status="PRECONDITION_FAILED", code=2029)
    if request.mode == _EXPLAIN:
        stats = wire.text_field(4, await described.explain()) + wire.text_field(5, described.text)
        yield wire.plain_response(rest=wire.bytes_field(3, wire.bytes_field(6, stats)))
        return
    control = TransactionControl(begin="snapshot_read_only", commit=True)
    with_stats = request.collect_stats >= COLLECT_BASIC
    results = executor.execute(call, None, text, parameters, control, with_stats, statement, streams=True)
    async with aclosing(results), aclosing(encode_results(results, ProtobufFormat(), statement)) as pieces:
        async for piece in pieces:
            content = wire.bytes_field(1, piece.content or b"")
            yield wire.plain_response(rest=wire.bytes_field(3, content), issues=piece.warnings)
            if piece.stats is not None:
                stats = stats_message(piece.stats, request.collect_stats >= COLLECT_FULL)
                yield wire.plain_response(rest=wire.bytes_field(3, wire.bytes_field(6, stats)))


COMMANDS: Final[Mapping[str, Unary | Streaming]] = {
    "Ydb.Table.V1.TableService/ReadRows": read_rows,
    "Ydb.Table.V1.TableService/StreamReadTable": stream_read_table,
    "Ydb.Table.V1.TableService/StreamExecuteScanQuery": stream_execute_scan_query,
    **bulk.COMMANDS,
}
