"""The scripting service: queries without a session, each in a transaction of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any, Final

from mayflydb.frontends.ydb import wire
from mayflydb.frontends.ydb.calls import GrpcCall
from mayflydb.frontends.ydb.commands.queries import decode_parameters, stats_message
from mayflydb.frontends.ydb.commands.table_queries import (
    COLLECT_BASIC,
    COLLECT_FULL,
    CollectedResults,
    parameter_types_field,
)
from mayflydb.frontends.ydb.results import ProtobufFormat, encode_results
from mayflydb.frontends.ydb.services import Services, Streaming, Unary
from mayflydb.query.yql.faults import Issue


async def execute_yql(services: Services, call: GrpcCall, request: Any) -> bytes:
    """`ExecuteYql`"""
    statement = services.environment.begin_statement(call)
    parameters = await decode_parameters(call, statement, request.parameters)
    sets = CollectedResults(services.options.result_rows)
    stats = None
    warnings: list[Issue] = []
    with_stats = request.collect_stats >= COLLECT_BASIC
    async for part in services.executor.execute(call, None, request.script, parameters, None, with_stats, statement):
        if part.index >= 0:
            sets.add(part.index, part.columns, part.rows)
        stats = part.stats
        warnings += part.warnings
    result = await sets.encode_fields(statement, 1)
    if stats is not None:
        result += wire.bytes_field(2, stats_message(stats, request.collect_stats >= COLLECT_FULL))
    return wire.operation_response(result=result, type_name="Ydb.Scripting.ExecuteYqlResult", issues=warnings)


async def stream_execute_yql(services: Services, call: GrpcCall, request: Any) -> AsyncIterator[bytes]:
    """`StreamExecuteYql`"""
    statement = services.environment.begin_statement(call)
    parameters = await decode_parameters(call, statement, request.parameters)
    with_stats = request.collect_stats >= COLLECT_BASIC
    results = services.executor.execute(
        call, None, request.script, parameters, None, with_stats, statement, streams=True
    )
    async with aclosing(results), aclosing(encode_results(results, ProtobufFormat(), statement)) as pieces:
        async for piece in pieces:
            index = wire.int_field(1, max(0, piece.index))
            content = b"" if piece.content is None else wire.bytes_field(3, index + wire.bytes_field(2, piece.content))
            stats = b""
            if piece.stats is not None:
                stats_bytes = stats_message(piece.stats, request.collect_stats >= COLLECT_FULL)
                stats = wire.bytes_field(3, index + wire.bytes_field(3, stats_bytes))
            if content or not stats:
                yield wire.plain_response(rest=content, issues=piece.warnings)
            if stats:
                yield wire.plain_response(rest=stats)


_PLAN: Final = 3


async def explain_yql(services: Services, call: GrpcCall, request: Any) -> bytes:
    """`ExplainYql`: validates a query and returns the types of its parameters, and the plan on request."""
    described = await services.executor.describe_query(call, request.script)
    result = parameter_types_field(1, described.parameters)
    if request.mode == _PLAN:
        result += wire.text_field(2, await described.explain())
    return wire.operation_response(result=result, type_name="Ydb.Scripting.ExplainYqlResult")


COMMANDS: Final[Mapping[str, Unary | Streaming]] = {
    "Ydb.Scripting.V1.ScriptingService/ExecuteYql": execute_yql,
    "Ydb.Scripting.V1.ScriptingService/StreamExecuteYql": stream_execute_yql,
    "Ydb.Scripting.V1.ScriptingService/ExplainYql": explain_yql,
}
