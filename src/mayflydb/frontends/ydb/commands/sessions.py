"""Sessions of both services."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from mayflydb.frontends.ydb import wire
from mayflydb.frontends.ydb.calls import GrpcCall
from mayflydb.frontends.ydb.commands.discovery import NODE_ID
from mayflydb.frontends.ydb.services import Services, Streaming, Unary
from mayflydb.query.yql.faults import fault

_STATUS_READY = wire.int_field(1, 1)
# Field numbers of SessionState: an empty message in the field is the hint.
_HINT_FIELDS: Final = {"session_shutdown": 3, "node_shutdown": 4}


async def create_table_session(services: Services, call: GrpcCall, request: Any) -> bytes:
    """`TableService.CreateSession`"""
    session = services.sessions.create(call, "table")
    return wire.operation_response(result=wire.text_field(1, session.id), type_name="Ydb.Table.CreateSessionResult")


async def keep_alive(services: Services, call: GrpcCall, request: Any) -> bytes:
    """`KeepAlive`: marks the session used; its status is ready unless a request uses it."""
    session = services.sessions.get(call, request.session_id)
    # KeepAliveResult.session_status: 1 is READY, 2 is BUSY.
    status = wire.int_field(1, 2) if session.busy else _STATUS_READY
    return wire.operation_response(result=status, type_name="Ydb.Table.KeepAliveResult")


async def delete_table_session(services: Services, call: GrpcCall, request: Any) -> bytes:
    """`TableService.DeleteSession`"""
    _delete(services, call, request.session_id)
    return wire.operation_response()


async def create_query_session(services: Services, call: GrpcCall, request: Any) -> bytes:
    """`QueryService.CreateSession`"""
    session = services.sessions.create(call, "query")
    return wire.plain_response(rest=wire.text_field(3, session.id) + wire.int_field(4, NODE_ID))


async def attach(services: Services, call: GrpcCall, request: Any) -> AsyncIterator[bytes]:
    """`AttachSession`: one message at once, then an open stream until the session ends."""
    sessions = services.sessions
    session = sessions.get(call, request.session_id)
    sessions.attach(session)
    try:
        # At once: clients take a session for usable when the first message is there.
        yield wire.plain_response()
        hint = await session.wait_for_close()
        if hint is not None:
            yield wire.plain_response(rest=wire.bytes_field(_HINT_FIELDS[hint], b""))
    finally:
        sessions.detach(session)


async def delete_query_session(services: Services, call: GrpcCall, request: Any) -> bytes:
    """`QueryService.DeleteSession`"""
    _delete(services, call, request.session_id)
    return wire.plain_response()


def _delete(services: Services, call: GrpcCall, id: str) -> None:
    """Close a session.

    An unknown session is no error: client pools delete a session again when they learn that it has ended, and `ydb-sdk`
    ends the process if that fails.
    """
    if not id:
        raise fault("Session id is empty", status="BAD_REQUEST")
    session = services.sessions.find(call, id)
    if session is not None:
        services.sessions.close(session)


COMMANDS: Final[Mapping[str, Unary | Streaming]] = {
    "Ydb.Table.V1.TableService/CreateSession": create_table_session,
    "Ydb.Table.V1.TableService/DeleteSession": delete_table_session,
    "Ydb.Table.V1.TableService/KeepAlive": keep_alive,
    "Ydb.Query.V1.QueryService/CreateSession": create_query_session,
    "Ydb.Query.V1.QueryService/AttachSession": attach,
    "Ydb.Query.V1.QueryService/DeleteSession": delete_query_session,
}
