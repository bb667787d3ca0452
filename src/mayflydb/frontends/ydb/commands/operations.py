"""Long-running operations, and health checks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mayflydb.frontends.ydb import wire
from mayflydb.frontends.ydb.calls import GrpcCall
from mayflydb.frontends.ydb.commands.scripts import encode_operation
from mayflydb.frontends.ydb.operations import SCRIPT_KIND
from mayflydb.frontends.ydb.services import Services, Unary
from mayflydb.query.yql.faults import fault

DEFAULT_PAGE_SIZE: Final = 10
MAX_PAGE_SIZE: Final = 1000

INDEX_BUILD_KIND: Final = "buildindex"
"""The kind of index builds. Its list is always empty, since ALTER TABLE is answered when its indexes are complete."""

_SELF_CHECK_GOOD: Final = wire.int_field(1, 1)


async def get_operation(services: Services, call: GrpcCall, request: Any) -> bytes:
    """`GetOperation`"""
    return wire.bytes_field(1, encode_operation(services.operations.get(request.id, call.user, call.now)))


async def list_operations(services: Services, call: GrpcCall, request: Any) -> bytes:
    """`ListOperations`: in pages, latest first."""
    if request.kind not in (SCRIPT_KIND, INDEX_BUILD_KIND):
        raise fault(f"Listing operations of kind {request.kind!r} is not supported", status="UNSUPPORTED")
    found = services.operations.scripts_of(call.user, call.now) if request.kind == SCRIPT_KIND else []
    size = min(request.page_size or DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE)
    try:
        start = int(request.page_token or 0)
    except ValueError:
        raise fault("Invalid page token", status="BAD_REQUEST") from None
    if start < 0 or size < 0:
        raise fault("Invalid page token or size", status="BAD_REQUEST")
    page = b"".join(wire.bytes_field(3, encode_operation(each)) for each in found[start : start + size])
    # The token of a page is the number of operations before it.
    following = str(start + size) if start + size < len(found) else ""
    return wire.plain_response(rest=page + wire.text_field(4, following))


async def cancel_operation(services: Services, call: GrpcCall, request: Any) -> bytes:
    """`CancelOperation`"""
    operations = services.operations
    operations.cancel(operations.get(request.id, call.user, call.now))
    return wire.plain_response()


async def forget_operation(services: Services, call: GrpcCall, request: Any) -> bytes:
    """`ForgetOperation`"""
    operations = services.operations
    operations.forget(operations.get(request.id, call.user, call.now))
    return wire.plain_response()


async def check_health(services: Services, call: GrpcCall, request: Any) -> bytes:
    """`SelfCheck`, `NodeCheck`: good if the store answers."""
    await services.engine.node("ydb")
    return wire.operation_response(result=_SELF_CHECK_GOOD, type_name="Ydb.Monitoring.SelfCheckResult")


COMMANDS: Final[Mapping[str, Unary]] = {
    "Ydb.Operation.V1.OperationService/GetOperation": get_operation,
    "Ydb.Operation.V1.OperationService/ListOperations": list_operations,
    "Ydb.Operation.V1.OperationService/CancelOperation": cancel_operation,
    "Ydb.Operation.V1.OperationService/ForgetOperation": forget_operation,
    "Ydb.Monitoring.V1.MonitoringService/SelfCheck": check_health,
    "Ydb.Monitoring.V1.MonitoringService/NodeCheck": check_health,
}
