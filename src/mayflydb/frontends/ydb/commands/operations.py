"""Long-running operations, and health checks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mayflydb.frontends.ydb import wire
from mayflydb.frontends.ydb.calls import Call
from mayflydb.frontends.ydb.commands.scripts import operation_of
from mayflydb.frontends.ydb.operations import SCRIPTS
from mayflydb.frontends.ydb.services import Services, Unary
from mayflydb.query.yql.faults import fault

USUAL_PAGE: Final = 10
LARGEST_PAGE: Final = 1000

BUILDS: Final = "buildindex"
"""The kind of index builds. Its list is always empty, since ALTER TABLE is answered when its indexes are complete."""

_GOOD: Final = wire.number(1, 1)


async def get(services: Services, call: Call, request: Any) -> bytes:
    """`GetOperation`"""
    return wire.block(1, operation_of(services.operations.get(request.id, call.user, call.now)))


async def list_operations(services: Services, call: Call, request: Any) -> bytes:
    """`ListOperations`: in pages, latest first."""
    if request.kind not in (SCRIPTS, BUILDS):
        raise fault(f"Listing operations of kind {request.kind!r} is not supported", status="UNSUPPORTED")
    found = services.operations.all(call.user, call.now) if request.kind == SCRIPTS else []
    size = min(request.page_size or USUAL_PAGE, LARGEST_PAGE)
    try:
        start = int(request.page_token or 0)
    except ValueError:
        raise fault("Invalid page token", status="BAD_REQUEST") from None
    if start < 0 or size < 0:
        raise fault("Invalid page token or size", status="BAD_REQUEST")
    page = b"".join(wire.block(3, operation_of(each)) for each in found[start : start + size])
    following = str(start + size) if start + size < len(found) else ""
    return wire.direct(rest=page + wire.text(4, following))


async def cancel(services: Services, call: Call, request: Any) -> bytes:
    """`CancelOperation`"""
    operations = services.operations
    operations.cancel(operations.get(request.id, call.user, call.now))
    return wire.direct()


async def forget(services: Services, call: Call, request: Any) -> bytes:
    """`ForgetOperation`"""
    operations = services.operations
    operations.forget(operations.get(request.id, call.user, call.now))
    return wire.direct()


async def check(services: Services, call: Call, request: Any) -> bytes:
    """`SelfCheck`, `NodeCheck`: good if the store answers."""
    await services.engine.node("ydb")
    return wire.operation(result=_GOOD, type_name="Ydb.Monitoring.SelfCheckResult")


COMMANDS: Final[Mapping[str, Unary]] = {
    "Ydb.Operation.V1.OperationService/GetOperation": get,
    "Ydb.Operation.V1.OperationService/ListOperations": list_operations,
    "Ydb.Operation.V1.OperationService/CancelOperation": cancel,
    "Ydb.Operation.V1.OperationService/ForgetOperation": forget,
    "Ydb.Monitoring.V1.MonitoringService/SelfCheck": check,
    "Ydb.Monitoring.V1.MonitoringService/NodeCheck": check,
}
