"""ExecuteQuery: a query in, parts of its result sets out."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any, Final

from mayflydb.evaluation.statement import Statement
from mayflydb.frontends.ydb import arrow, wire
from mayflydb.frontends.ydb.calls import GrpcCall
from mayflydb.frontends.ydb.query_run import SMALL_REQUEST, QueryStats
from mayflydb.frontends.ydb.results import ProtobufFormat, ResponsePart, ResultFormat, encode_results
from mayflydb.frontends.ydb.services import Services, Streaming
from mayflydb.frontends.ydb.sessions import Session
from mayflydb.frontends.ydb.transactions import TransactionControl, TransactionMode
from mayflydb.frontends.ydb.values import decode_typed_value
from mayflydb.query.yql.faults import Fault, fault
from mayflydb.query.yql.types import Type, Value

PARSE, VALIDATE, EXPLAIN, EXECUTE = 10, 20, 30, 50
STATS_BASIC, STATS_FULL = 20, 30
SYNTAX_PG: Final = 2
FORMAT_ARROW: Final = 2
SCHEMA_FIRST_ONLY: Final = 2

# The keys are the names of fields of TransactionSettings; the values are the same texts as literals of the type.
MODES: Final[Mapping[str, TransactionMode]] = {
    "serializable_read_write": "serializable_read_write",
    "online_read_only": "online_read_only",
    "stale_read_only": "stale_read_only",
    "snapshot_read_only": "snapshot_read_only",
    "snapshot_read_write": "snapshot_read_write",
}


def mode_of(settings: Any) -> TransactionMode:
    """Return the mode in TransactionSettings; serializable by default."""
    return MODES[settings.WhichOneof("tx_mode") or "serializable_read_write"]


def control_of(request: Any) -> TransactionControl | None:
    """Return the transaction control of a request; None if it has none."""
    if not request.HasField("tx_control"):
        return None
    given = request.tx_control
    if given.WhichOneof("tx_selector") == "begin_tx":
        return TransactionControl(begin=mode_of(given.begin_tx), commit=given.commit_tx)
    return TransactionControl(id=given.tx_id, commit=given.commit_tx)


def parameters_of(given: Any) -> dict[str, tuple[Type, Value]]:
    """Return the parameters by name, without `$`. Faults: BAD_REQUEST for a value that does not fit its type."""
    found: dict[str, tuple[Type, Value]] = {}
    for name, each in given.items():
        try:
            found[name.removeprefix("$")] = decode_typed_value(each)
        except Fault as error:
            raise fault(f"{name}: {error.message}", status=error.status) from error
    return found


async def decode_parameters(call: GrpcCall, statement: Statement, given: Any) -> dict[str, tuple[Type, Value]]:
    """Return the parameters of a request as `parameters_of` does; those of a large request are decoded on a thread."""
    return parameters_of(given) if call.size <= SMALL_REQUEST else await statement.call(call.size, parameters_of, given)


def _query_text(request: Any) -> str:
    if request.WhichOneof("query") is None or not request.query_content.text.strip():
        raise fault("Query content is empty", status="BAD_REQUEST")
    if request.query_content.syntax == SYNTAX_PG:
        raise fault("PostgreSQL syntax is not supported", status="UNSUPPORTED")
    text: str = request.query_content.text
    return text


async def execute_query(services: Services, call: GrpcCall, request: Any) -> AsyncIterator[bytes]:
    """`ExecuteQuery`

    Each message is held until the next one is there, because the session has to be free before the last one goes out.
    """
    with services.sessions.hold(call, request.session_id) as hold:
        text = _query_text(request)
        if request.exec_mode in (PARSE, VALIDATE, EXPLAIN):
            hold.session.statement = services.environment.begin_statement(call)
            answer = await _explain(services, call, hold.session, request, text)
            hold.release()
            yield answer
            return
        if request.exec_mode != EXECUTE:
            raise fault("Unexpected query mode", status="BAD_REQUEST")
        control = control_of(request)
        stats_mode = request.stats_mode
        statement = hold.session.statement = services.environment.begin_statement(call)
        parameters = await decode_parameters(call, statement, request.parameters)
        results = services.executor.execute(
            call, hold.session, text, parameters, control, stats_mode >= STATS_BASIC, statement, streams=True
        )
        held: bytes | None = None
        # A client that disconnects ends the query at once, before its session is free.
        async with (
            aclosing(results),
            aclosing(
                _encode_messages(
                    encode_results(results, _result_format(request), statement),
                    control is not None,
                    stats_mode >= STATS_FULL,
                )
            ) as messages,
        ):
            async for message in messages:
                if held is not None:
                    yield held
                held = message
        hold.release()
        if held is not None:
            yield held


def _result_format(request: Any) -> ResultFormat:
    if request.result_set_format == FORMAT_ARROW:
        return arrow.arrow_format(request.arrow_format_settings, request.schema_inclusion_mode == SCHEMA_FIRST_ONLY)
    return ProtobufFormat(request.response_part_limit_bytes, request.schema_inclusion_mode == SCHEMA_FIRST_ONLY)


async def _encode_messages(
    parts: AsyncGenerator[ResponsePart, None], in_transaction: bool, with_plan: bool
) -> AsyncGenerator[bytes, None]:
    """Yield the messages of a stream. The first message names the transaction."""
    is_tx_named = not in_transaction
    async with aclosing(parts) as pieces:
        async for piece in pieces:
            # Clients read the transaction from the first message, and need it before they ask for more.
            tx_id = None if is_tx_named else piece.tx_id
            is_tx_named = True
            stats = b"" if piece.stats is None else stats_message(piece.stats, with_plan)
            yield wire.query_response_part(
                max(0, piece.index), piece.content, tx_id=tx_id, stats=stats, issues=piece.warnings
            )


async def _explain(services: Services, call: GrpcCall, session: Session, request: Any, text: str) -> bytes:
    """Return the answer to a query that is only parsed, validated or explained: success alone, or the plan."""
    assert session.statement is not None
    statement = session.statement
    parameters = await decode_parameters(call, statement, request.parameters)
    types = {name: type for name, (type, _) in parameters.items()}
    if request.exec_mode == PARSE:
        await services.executor.planner.parse(statement, text)
        return wire.query_response_part()
    described = await services.executor.describe_query(call, text, types or None, statement, session=session)
    if request.exec_mode == VALIDATE:
        return wire.query_response_part()
    return wire.query_response_part(
        stats=wire.text_field(4, await described.explain()) + wire.text_field(5, described.text)
    )


def stats_message(stats: QueryStats, with_plan: bool) -> bytes:
    """Encode a QueryStats."""
    tables = b"".join(
        wire.bytes_field(
            2,
            wire.text_field(1, path)
            + _row_count_field(3, each.reads)
            + _row_count_field(4, each.updates)
            + _row_count_field(5, each.deletes),
        )
        for path, each in stats.row_counts.items()
    )
    # QueryStats: 1 query_phases {1 duration, 2 table_access {1 name, 3 reads, 4 updates, 5 deletes}, 3 CPU time}, 2
    # compilation {1 from_cache, 2 duration, 3 CPU time}, 3 CPU time of the process, 4 plan, 6 duration, 7 CPU time of
    # all. Times are microseconds; CPU time is not measured, and the duration stands for it.
    running = max(0, stats.total_us - stats.planning_us)
    phase = wire.int_field(1, running) + tables + wire.int_field(3, running)
    compilation = (
        wire.int_field(1, int(stats.cached))
        + wire.int_field(2, stats.planning_us)
        + wire.int_field(3, stats.planning_us)
    )
    return b"".join(
        (
            wire.bytes_field(1, phase),
            wire.bytes_field(2, compilation),
            wire.int_field(3, running),
            wire.text_field(4, stats.plan_json) if with_plan else b"",
            wire.int_field(6, stats.total_us),
            wire.int_field(7, stats.total_us),
        )
    )


def _row_count_field(field: int, count: int) -> bytes:
    return wire.bytes_field(field, wire.int_field(1, count)) if count else b""


COMMANDS: Final[Mapping[str, Streaming]] = {"Ydb.Query.V1.QueryService/ExecuteQuery": execute_query}
