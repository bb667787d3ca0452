"""Execution of stored procedures, each in one transaction over the logical partition that the request names."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import msgspec

from mayflydb.engine import prices
from mayflydb.engine.commands import Mode
from mayflydb.frontends.cosmos.calls import CosmosCall
from mayflydb.frontends.cosmos.commands.scripts import KINDS, get_script
from mayflydb.frontends.cosmos.headers import AUTHORIZATION, SCRIPT_ENABLE_LOGGING, SCRIPT_LOG
from mayflydb.frontends.cosmos.paths import Resource
from mayflydb.frontends.cosmos.scopes import admit_partition
from mayflydb.frontends.cosmos.scripting.attempts import ScriptAttempt, transact
from mayflydb.frontends.cosmos.scripting.program import Program, ScriptContext, ScriptResult
from mayflydb.frontends.cosmos.wire import Headers, Response
from mayflydb.model.errors import BadRequest, MayflyError


def script_headers(call: CosmosCall) -> dict[str, str]:
    """Return the headers of a request that its scripts may read: all but credentials."""
    return {
        name.decode("latin-1"): value.decode("latin-1")
        for name, value in call.request.headers.items()
        if name not in (AUTHORIZATION, b"cookie")
    }


async def execute(call: CosmosCall) -> Response:
    """POST …/sprocs/{s} with an array of arguments."""
    view = await call.get_owning_container()
    script = await get_script(call, view, KINDS[Resource.STORED_PROCEDURE], call.target.id or "")
    arguments = _parse_arguments(call)
    partition = admit_partition(call, view, prices.likely, Mode.READ, 0)
    logs = call.request.flag(SCRIPT_ENABLE_LOGGING)
    context = ScriptContext(
        "sproc", msgspec.Raw(msgspec.json.encode(arguments)), headers=script_headers(call), logs=logs
    )

    async def work(attempt: ScriptAttempt) -> ScriptResult:
        return await Program(script, context, arguments, attempt.transaction, attempt.time_budget).run(
            attempt.collection
        )

    try:
        committed = await transact(call, partition, work)
    except MayflyError as error:
        headers = [
            *view.item_headers(partition, await call.engine.lsn(view.id)),
            *_log_headers(error.detail.get("log"), logs),
        ]
        error.detail = {**error.detail, "headers": headers}
        raise
    headers = [*view.item_headers(partition, await call.engine.lsn(view.id)), *_log_headers(committed.result.log, logs)]
    # The script ran before its commit and may have answered with provisional rids and etags.
    body = committed.replace_provisional((committed.result.response or '""').encode())
    return Response(200, body, headers, prices.METADATA + committed.attempt.collection.charge)


def _log_headers(text: object, wanted: bool) -> Headers:
    return [(SCRIPT_LOG, quote(text).encode())] if wanted and isinstance(text, str) else []


def _parse_arguments(call: CosmosCall) -> list[Any]:
    arguments = call.parse_body() if call.request.body.strip() else []
    if not isinstance(arguments, list):
        raise BadRequest("The body must be an array with the arguments of the stored procedure.")
    return arguments
