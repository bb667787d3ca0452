"""Queries of the table service, whose answers are single messages, and transactions of both services."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

from mayflydb.frontends.ydb import values, wire
from mayflydb.frontends.ydb.calls import Call
from mayflydb.frontends.ydb.commands.queries import control_of, mode_of, parameters_of, stats_message
from mayflydb.frontends.ydb.packing import result_encoder
from mayflydb.frontends.ydb.query_run import Columns, Stats
from mayflydb.frontends.ydb.services import Services, Unary
from mayflydb.frontends.ydb.transactions import ONE_SHOT, uncommitted_refusal
from mayflydb.query.yql.faults import Issue, fault
from mayflydb.query.yql.schemas import Row
from mayflydb.query.yql.types import Type

BASIC, FULL = 2, 3
"""Modes of statistics: row counts from BASIC on, and the plan from FULL on."""


def types_block(field: int, types: Mapping[str, Type]) -> bytes:
    """Return a map field of the types of parameters, by name with `$`."""
    return _types_block(field, tuple(types.items()))


@lru_cache(2048)
def _types_block(field: int, types: tuple[tuple[str, Type], ...]) -> bytes:
    return b"".join(
        wire.block(field, wire.text(1, f"${name}") + wire.block(2, values.type_bytes(type))) for name, type in types
    )


class ResultSets:
    """Result sets collected in memory, up to a limit of rows in each (0: no limit)."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._columns: dict[int, Columns] = {}
        self._rows: dict[int, list[Row]] = {}

    def add(self, index: int, columns: Columns, rows: Iterable[Row]) -> None:
        """Add rows to a result set."""
        self._columns[index] = columns
        kept = self._rows.setdefault(index, [])
        if not self._most or len(kept) <= self._most:
            kept.extend(rows)

    def blocks(self, field: int) -> bytes:
        """Encode all result sets in order."""
        return b"".join(wire.block(field, self._one(index)) for index in sorted(self._columns))

    def _one(self, index: int) -> bytes:
        columns, rows = self._columns[index], self._rows[index]
        truncated = bool(self._most) and len(rows) > self._most
        head, encode = result_encoder(columns)
        kept = rows[: self._most] if truncated else rows
        return head + encode(kept) + wire.number(3, int(truncated))


def text_of(services: Services, query: Any) -> str:
    """Return the text of a Query message. NOT_FOUND for an unknown or dropped id."""
    if query.WhichOneof("query") != "id":
        text: str = query.yql_text
        return text
    found = services.executor.cache.text_of(query.id)
    if found is None:
        raise fault(f"Prepared query not found: {query.id}", status="NOT_FOUND")
    return found


async def execute_data_query(services: Services, call: Call, request: Any) -> bytes:
    """`ExecuteDataQuery`"""
    executor = services.executor
    with services.sessions.hold(call, request.session_id) as hold:
        text = text_of(services, request.query)
        control = control_of(request)
        if control is None:
            raise fault("Empty TxControl.", status="BAD_REQUEST")
        if control.begin in ONE_SHOT and not control.commit:
            raise uncommitted_refusal(control.begin)
        parameters = parameters_of(request.parameters)
        sets = ResultSets(services.options.result_rows)
        tx_id, stats = "", None
        warnings: list[Issue] = []
        with_stats = request.collect_stats >= BASIC
        async for part in executor.execute(call, hold.session, text, parameters, control, with_stats):
            if part.index >= 0:
                sets.add(part.index, part.columns, part.rows)
            tx_id, stats = part.tx_id, part.stats
            warnings += part.warnings
        result = sets.blocks(1) + wire.block(2, wire.text(1, tx_id))
        if request.query_cache_policy.keep_in_cache or request.query.WhichOneof("query") == "id":
            described = await executor.describe(call, text, {name: type for name, (type, _) in parameters.items()})
            result += wire.block(3, wire.text(1, described.id) + types_block(2, described.parameters))
    result += _stats_block(4, stats, request.collect_stats)
    return wire.operation(result=result, type_name="Ydb.Table.ExecuteQueryResult", issues=warnings)


def _stats_block(field: int, stats: Stats | None, mode: int) -> bytes:
    return b"" if stats is None else wire.block(field, stats_message(stats, mode >= FULL))


async def execute_scheme_query(services: Services, call: Call, request: Any) -> bytes:
    """`ExecuteSchemeQuery`: all definitions of a text. CREATE TABLE of an existing table succeeds with a notice."""
    with services.sessions.hold(call, request.session_id):
        notices = await services.executor.define(call, request.yql_text)
    return wire.operation(issues=notices)


async def prepare_data_query(services: Services, call: Call, request: Any) -> bytes:
    """`PrepareDataQuery`: returns an id under which any session may execute the text."""
    with services.sessions.hold(call, request.session_id):
        described = await services.executor.describe(call, request.yql_text)
    result = wire.text(1, described.id) + types_block(2, described.parameters)
    return wire.operation(result=result, type_name="Ydb.Table.PrepareQueryResult")


async def explain_data_query(services: Services, call: Call, request: Any) -> bytes:
    """`ExplainDataQuery`"""
    with services.sessions.hold(call, request.session_id):
        described = await services.executor.describe(call, request.yql_text)
    result = wire.text(1, described.text) + wire.text(2, described.plan)
    return wire.operation(result=result, type_name="Ydb.Table.ExplainQueryResult")


# --- transactions --------------------------------------------------------------------------------------------------------


async def begin(services: Services, call: Call, request: Any) -> str:
    """Begin a transaction in its session and return its id."""
    with services.sessions.hold(call, request.session_id) as hold:
        return services.executor.transactions(hold.session).begin(mode_of(request.tx_settings)).id


async def commit(services: Services, call: Call, request: Any) -> None:
    """Commit an open transaction."""
    with services.sessions.hold(call, request.session_id) as hold:
        await services.executor.commit(call, hold.session, request.tx_id)


async def roll_back(services: Services, call: Call, request: Any) -> None:
    """Roll back an open transaction."""
    with services.sessions.hold(call, request.session_id) as hold:
        transactions = services.executor.transactions(hold.session)
        transactions.end(transactions.get(request.tx_id))


async def begin_table(services: Services, call: Call, request: Any) -> bytes:
    """`TableService.BeginTransaction`"""
    meta = wire.text(1, await begin(services, call, request))
    return wire.operation(result=wire.block(1, meta), type_name="Ydb.Table.BeginTransactionResult")


async def commit_table(services: Services, call: Call, request: Any) -> bytes:
    """`TableService.CommitTransaction`"""
    await commit(services, call, request)
    return wire.operation(type_name="Ydb.Table.CommitTransactionResult")


async def roll_back_table(services: Services, call: Call, request: Any) -> bytes:
    """`TableService.RollbackTransaction`"""
    await roll_back(services, call, request)
    return wire.operation()


async def begin_query(services: Services, call: Call, request: Any) -> bytes:
    """`QueryService.BeginTransaction`"""
    return wire.direct(rest=wire.block(3, wire.text(1, await begin(services, call, request))))


async def commit_query(services: Services, call: Call, request: Any) -> bytes:
    """`QueryService.CommitTransaction`"""
    await commit(services, call, request)
    return wire.direct()


async def roll_back_query(services: Services, call: Call, request: Any) -> bytes:
    """`QueryService.RollbackTransaction`"""
    await roll_back(services, call, request)
    return wire.direct()


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
