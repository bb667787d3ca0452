"""ExecuteScript and FetchScriptResults: queries in the background, and their results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mayflydb.frontends.ydb import wire
from mayflydb.frontends.ydb.calls import GrpcCall
from mayflydb.frontends.ydb.commands.queries import EXECUTE, STATS_BASIC, SYNTAX_PG, decode_parameters, stats_message
from mayflydb.frontends.ydb.operations import DEFAULT_LIFETIME, ScriptRun
from mayflydb.frontends.ydb.results import encode_result_set
from mayflydb.frontends.ydb.services import Services, Unary
from mayflydb.frontends.ydb.values import columns_field
from mayflydb.model.instant import SECOND
from mayflydb.query.yql.faults import fault

MAX_PAGE_ROWS: Final = 1000
"""Limit of rows in one answer of FetchScriptResults."""

_RUNNING, _CANCELLED, _COMPLETED, _FAILED = 10, 30, 40, 50


async def execute_script(services: Services, call: GrpcCall, request: Any) -> bytes:
    """`ExecuteScript`: starts the script and answers at once with its operation."""
    text: str = request.script_content.text
    if not text.strip():
        raise fault("Script content is empty", status="BAD_REQUEST")
    if request.script_content.syntax == SYNTAX_PG:
        raise fault("PostgreSQL syntax is not supported", status="UNSUPPORTED")
    if request.exec_mode != EXECUTE:
        raise fault("Scripts are supported in execute mode alone", status="UNSUPPORTED")
    lifetime = request.results_ttl.seconds * SECOND or DEFAULT_LIFETIME
    operations = services.operations
    script = ScriptRun(operations.new_id(), text, request.exec_mode, call.database, call.user, call.now, lifetime)
    statement = services.environment.begin_statement(call)
    parameters = await decode_parameters(call, statement, request.parameters)
    with_stats = request.stats_mode >= STATS_BASIC
    operations.start(script, services.executor.execute(call, None, text, parameters, None, with_stats, statement))
    return encode_operation(script)


async def fetch_script_results(services: Services, call: GrpcCall, request: Any) -> bytes:
    """`FetchScriptResults`: a page of one result set, and the token of the next page."""
    script = services.operations.get(request.operation_id, call.user, call.now)
    if script.status is None:
        raise fault("Script is running", status="BAD_REQUEST")
    if script.status != "SUCCESS":
        return wire.plain_response(script.status, issues=script.issues)
    found = script.results.get(request.result_set_index)
    if found is None:
        raise fault("Result set index is out of bounds", status="BAD_REQUEST")
    try:
        start = int(request.fetch_token or 0)
    except ValueError:
        raise fault("Invalid fetch token", status="BAD_REQUEST") from None
    if start < 0 or request.rows_limit < 0:
        raise fault("Invalid fetch token or limit", status="BAD_REQUEST")
    end = start + (min(request.rows_limit, MAX_PAGE_ROWS) or MAX_PAGE_ROWS)
    # The token of a page is the number of rows before it. A finished script does not change.
    following = str(end) if end < len(found.rows) else ""
    rows = encode_result_set(found.columns, found.rows[start:end])
    rest = wire.int_field(3, request.result_set_index) + wire.bytes_field(4, rows) + wire.text_field(5, following)
    return wire.plain_response(rest=rest)


def encode_operation(script: ScriptRun) -> bytes:
    """Encode an Operation message."""
    metadata = wire.any_message("Ydb.Query.ExecuteScriptMetadata", _metadata(script))
    if script.status is None:
        return wire.operation_message(id=script.id, ready=False, metadata=metadata)
    return wire.operation_message(script.status, issues=script.issues, id=script.id, metadata=metadata)


def _metadata(script: ScriptRun) -> bytes:
    states = {None: _RUNNING, "SUCCESS": _COMPLETED, "CANCELLED": _CANCELLED}
    sets = (script.results[index] for index in sorted(script.results))
    return b"".join(
        (
            wire.text_field(1, script.id.rpartition("id=")[2]),
            wire.int_field(2, states.get(script.status, _FAILED)),
            wire.bytes_field(3, wire.int_field(1, 1) + wire.text_field(2, script.text)),
            *(wire.bytes_field(4, columns_field(each.columns)) for each in sets),
            wire.int_field(5, script.mode),
            b"" if script.stats is None else wire.bytes_field(6, stats_message(script.stats, with_plan=True)),
        )
    )


COMMANDS: Final[Mapping[str, Unary]] = {
    "Ydb.Query.V1.QueryService/ExecuteScript": execute_script,
    "Ydb.Query.V1.QueryService/FetchScriptResults": fetch_script_results,
}
