"""Queries of the table service, whose answers are single messages, and transactions of both services."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from mayflydb.evaluation.statement import Statement
from mayflydb.frontends.ydb import values, wire
from mayflydb.frontends.ydb.calls import GrpcCall
from mayflydb.frontends.ydb.commands.queries import control_of, decode_parameters, mode_of, stats_message
from mayflydb.frontends.ydb.packing import result_encoder
from mayflydb.frontends.ydb.query_run import Columns, QueryStats
from mayflydb.frontends.ydb.results import SLICE_ROWS
from mayflydb.frontends.ydb.services import Services, Unary
from mayflydb.frontends.ydb.transactions import QUERY_ONLY_MODES, uncommitted_refusal
from mayflydb.query.yql.faults import Issue, fault
from mayflydb.query.yql.schemas import Row
from mayflydb.query.yql.types import Type

COLLECT_BASIC, COLLECT_FULL = 2, 3
"""Modes of statistics: row counts from COLLECT_BASIC on, and the plan from COLLECT_FULL on."""


def parameter_types_field(field: int, types: Mapping[str, Type]) -> bytes:
    """Return a map field of the types of parameters, by name with `$`."""
    return _parameter_types_field(field, tuple(types.items()))


@lru_cache(2048)
def _parameter_types_field(field: int, types: tuple[tuple[str, Type], ...]) -> bytes:
    return b"".join(
        wire.bytes_field(field, wire.text_field(1, f"${name}") + wire.bytes_field(2, values.encode_type(type)))
        for name, type in types
    )


class CollectedResults:
    """Result sets collected in memory, up to a limit of rows in each (0: no limit)."""

    def __init__(self, max_rows: int) -> None:
        self._max_rows = max_rows
        self._columns: dict[int, Columns] = {}
        self._rows: dict[int, list[Row]] = {}
        self._count = 0

    def add(self, index: int, columns: Columns, rows: Sequence[Row]) -> None:
        """Add rows to a result set."""
        self._columns[index] = columns
        kept = self._rows.setdefault(index, [])
        # Rows above the limit show that the set is truncated. Further ones are read and dropped, so memory stays
        # bounded.
        if not self._max_rows or len(kept) <= self._max_rows:
            kept.extend(rows)
            self._count += len(rows)

    async def encode_fields(self, statement: Statement, field: int) -> bytes:
        """Encode all result sets in order. Many rows are encoded on a thread."""
        if self._count <= SLICE_ROWS:
            return self._encode_all(field)
        return await statement.call(0, self._encode_all, field)

    def _encode_all(self, field: int) -> bytes:
        return b"".join(wire.bytes_field(field, self._encode(index)) for index in sorted(self._columns))

    def _encode(self, index: int) -> bytes:
        columns, rows = self._columns[index], self._rows[index]
        truncated = bool(self._max_rows) and len(rows) > self._max_rows
        head, encode = result_encoder(columns)
        kept = rows[: self._max_rows] if truncated else rows
        return head + encode(kept) + wire.int_field(3, int(truncated))


def query_text(services: Services, query: Any) -> str:
    """Return the text of a Query message. NOT_FOUND for an unknown or dropped id."""
    if query.WhichOneof("query") != "id":
        text: str = query.yql_text
        return text
    found = services.executor.planner.cache.text_of(query.id)
    if found is None:
        raise fault(f"Prepared query not found: {query.id}", status="NOT_FOUND")
    return found


async def execute_data_query(services: Services, call: GrpcCall, request: Any) -> bytes:
    """`ExecuteDataQuery`"""
    executor = services.executor
    with services.sessions.hold(call, request.session_id) as hold:
        text = query_text(services, request.query)
        control = control_of(request)
        if control is None:
            raise fault("Empty TxControl.", status="BAD_REQUEST")
        if control.begin in QUERY_ONLY_MODES and not control.commit:
            raise uncommitted_refusal(control.begin)
        statement = hold.session.statement = services.environment.begin_statement(call)
        parameters = await decode_parameters(call, statement, request.parameters)
        sets = CollectedResults(services.options.result_rows)
        tx_id, stats = "", None
        warnings: list[Issue] = []
        with_stats = request.collect_stats >= COLLECT_BASIC
        results = executor.execute(
            call,
            hold.session,
            text,
            parameters,
            control,
            with_stats,
            statement,
            streams=services.options.result_rows > 0,
        )
        async for part in results:
            if part.index >= 0:
                sets.add(part.index, part.columns, part.rows)
            tx_id, stats = part.tx_id, part.stats
            warnings += part.warnings
        # Fields of ExecuteQueryResult: 1 result_sets, 2 tx_meta, 3 query_meta (id, types of parameters), 4 query_stats.
        result = await sets.encode_fields(statement, 1) + wire.bytes_field(2, wire.text_field(1, tx_id))
        if request.query_cache_policy.keep_in_cache or request.query.WhichOneof("query") == "id":
            described = await executor.describe_query(
                call,
                text,
                {name: type for name, (type, _) in parameters.items()},
                statement,
                session=hold.session,
            )
            result += wire.bytes_field(
                3, wire.text_field(1, described.id) + parameter_types_field(2, described.parameters)
            )
    result += _stats_field(4, stats, request.collect_stats)
    return wire.operation_response(result=result, type_name="Ydb.Table.ExecuteQueryResult", issues=warnings)


def _stats_field(field: int, stats: QueryStats | None, mode: int) -> bytes:
    return b"" if stats is None else wire.bytes_field(field, stats_message(stats, mode >= COLLECT_FULL))


async def execute_scheme_query(services: Services, call: GrpcCall, request: Any) -> bytes:
    """`ExecuteSchemeQuery`: all definitions of a text. CREATE TABLE of an existing table succeeds with a notice."""
    with services.sessions.hold(call, request.session_id):
        notices = await services.executor.run_scheme_query(call, request.yql_text)
    return wire.operation_response(issues=notices)


async def prepare_data_query(services: Services, call: GrpcCall, request: Any) -> bytes:
    """`PrepareDataQuery`: returns an id under which any session may execute the text."""
    with services.sessions.hold(call, request.session_id) as hold:
        described = await services.executor.describe_query(call, request.yql_text, session=hold.session)
    result = wire.text_field(1, described.id) + parameter_types_field(2, described.parameters)
    return wire.operation_response(result=result, type_name="Ydb.Table.PrepareQueryResult")


async def explain_data_query(services: Services, call: GrpcCall, request: Any) -> bytes:
    """`ExplainDataQuery`"""
    with services.sessions.hold(call, request.session_id) as hold:
        described = await services.executor.describe_query(call, request.yql_text, session=hold.session)
    result = wire.text_field(1, described.text) + wire.text_field(2, await described.explain())
    return wire.operation_response(result=result, type_name="Ydb.Table.ExplainQueryResult")


# --- transactions --------------------------------------------------------------------------------------------------------


async def begin_transaction(services: Services, call: GrpcCall, request: Any) -> str:
    """Begin a transaction in its session and return its id."""
    with services.sessions.hold(call, request.session_id) as hold:
        return services.executor.transactions(hold.session).begin(mode_of(request.tx_settings)).id


async def commit_transaction(services: Services, call: GrpcCall, request: Any) -> None:
    """Commit an open transaction."""
    with services.sessions.hold(call, request.session_id) as hold:
        await services.executor.commit(call, hold.session, request.tx_id)


async def roll_back_transaction(services: Services, call: GrpcCall, request: Any) -> None:
    """Roll back an open transaction."""
    with services.sessions.hold(call, request.session_id) as hold:
        transactions = services.executor.transactions(hold.session)
        transactions.end(transactions.get(request.tx_id))


async def begin_table(services: Services, call: GrpcCall, request: Any) -> bytes:
    """`TableService.BeginTransaction`"""
    meta = wire.text_field(1, await begin_transaction(services, call, request))
    return wire.operation_response(result=wire.bytes_field(1, meta), type_name="Ydb.Table.BeginTransactionResult")


async def commit_table(services: Services, call: GrpcCall, request: Any) -> bytes:
    """`TableService.CommitTransaction`"""
    await commit_transaction(services, call, request)
    return wire.operation_response(type_name="Ydb.Table.CommitTransactionResult")


async def roll_back_table(services: Services, call: GrpcCall, request: Any) -> bytes:
    """`TableService.RollbackTransaction`"""
    await roll_back_transaction(services, call, request)
    return wire.operation_response()


async def begin_query(services: Services, call: GrpcCall, request: Any) -> bytes:
    """`QueryService.BeginTransaction`"""
    return wire.plain_response(
        rest=wire.bytes_field(3, wire.text_field(1, await begin_transaction(services, call, request)))
    )


async def commit_query(services: Services, call: GrpcCall, request: Any) -> bytes:
    """`QueryService.CommitTransaction`"""
    await commit_transaction(services, call, request)
    return wire.plain_response()


async def roll_back_query(services: Services, call: GrpcCall, request: Any) -> bytes:
    """`QueryService.RollbackTransaction`"""
    await roll_back_transaction(services, call, request)
    return wire.plain_response()


COMMANDS: Final[Mapping[str, Unary]] = {
    "Ydb.Table.V1.TableService/ExecuteDataQuery": execute_data_query,
    "Ydb.Table.V1.TableService/ExecuteSchemeQuery": execute_scheme_query,
    "Ydb.Table.V1.TableService/PrepareDataQuery": prepare_data_query,
    "Ydb.Table.V1.TableService/ExplainDataQuery": explain_data_query,
    "Ydb.Table.V1.TableService/BeginTransaction": begin_table,
    "Ydb.Table.V1.TableService/CommitTransaction": commit_table,
    "Ydb.Table.V1.TableService/RollbackTransaction": roll_back_table,
    "Ydb.Query.V1.QueryService/BeginTransaction": begin_query,
    "Ydb.Query.V1.QueryService/CommitTransaction": commit_query,
    "Ydb.Query.V1.QueryService/RollbackTransaction": roll_back_query,
}
