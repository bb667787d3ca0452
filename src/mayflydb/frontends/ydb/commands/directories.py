"""The scheme service: directories and their entries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mayflydb.engine.catalog import Node
from mayflydb.frontends.ydb import wire
from mayflydb.frontends.ydb.calls import GrpcCall
from mayflydb.frontends.ydb.descriptors import message
from mayflydb.frontends.ydb.schemes import permissions
from mayflydb.frontends.ydb.schemes.describing import entry_message
from mayflydb.frontends.ydb.schemes.faults import path_conflict_notice, unknown_path
from mayflydb.frontends.ydb.schemes.paths import resolve_path
from mayflydb.frontends.ydb.services import Services, Unary
from mayflydb.query.yql.faults import fault


async def list_directory(services: Services, call: GrpcCall, request: Any) -> bytes:
    """`ListDirectory`. A table or view has no children."""
    path = resolve_path(call.database, None, request.path)
    schemes = services.schemes
    entry = await schemes.find(path)
    result = message("Ydb.Scheme.ListDirectoryResult")()
    if entry is not None:
        result.self.CopyFrom(entry_message(entry))
        result.children.extend([entry_message(each) for each in await schemes.children(path)])
    # The root lies above all databases and has no entry of its own.
    elif path == "/":
        result.self.name = "/"
        result.self.type = 1
        for database in await schemes.databases():
            found = await schemes.find(database)
            if found is not None:
                child = result.children.add()
                child.CopyFrom(entry_message(found))
                child.name = database.strip("/")
    else:
        raise unknown_path(path)
    return wire.operation_response(result=result.SerializeToString(), type_name="Ydb.Scheme.ListDirectoryResult")


async def describe_path(services: Services, call: GrpcCall, request: Any) -> bytes:
    """`DescribePath`"""
    path = resolve_path(call.database, None, request.path)
    entry = await services.schemes.find(path)
    if entry is None:
        raise unknown_path(path)
    result = message("Ydb.Scheme.DescribePathResult")()
    result.self.CopyFrom(entry_message(entry))
    return wire.operation_response(result=result.SerializeToString(), type_name="Ydb.Scheme.DescribePathResult")


async def make_directory(services: Services, call: GrpcCall, request: Any) -> bytes:
    """`MakeDirectory`. An existing directory is accepted."""
    path = resolve_path(call.database, None, request.path)
    if await services.schemes.make_directory(path, call.now, call.user):
        return wire.operation_response()
    return wire.operation_response(issues=(path_conflict_notice(path),))


async def remove_directory(services: Services, call: GrpcCall, request: Any) -> bytes:
    """`RemoveDirectory`"""
    await services.schemes.remove_directory(resolve_path(call.database, None, request.path))
    return wire.operation_response()


async def modify_permissions(services: Services, call: GrpcCall, request: Any) -> bytes:
    """`ModifyPermissions`. Permissions are stored and described, and never checked."""
    path = resolve_path(call.database, None, request.path)
    if request.WhichOneof("inheritance") is not None and request.interrupt_inheritance:
        raise fault("Interrupting inheritance of permissions is not supported", status="UNSUPPORTED")

    def update(node: Node) -> dict[str, Any]:
        body = permissions.clear_permissions(node.body) if request.clear_permissions else dict(node.body)
        for action in request.actions:
            body = _apply_action(body, action)
        return body

    await services.schemes.update_body(path, update, call.now)
    return wire.operation_response()


def _apply_action(body: Mapping[str, Any], action: Any) -> dict[str, Any]:
    match action.WhichOneof("action"):
        case "grant":
            return permissions.grant(body, [action.grant.subject], tuple(action.grant.permission_names))
        case "revoke":
            return permissions.revoke(body, [action.revoke.subject], tuple(action.revoke.permission_names))
        case "set":
            return permissions.set_permissions(body, action.set.subject, tuple(action.set.permission_names))
        case "change_owner":
            return permissions.set_owner(body, action.change_owner)
        case _:
            raise fault("A permissions action says nothing", status="BAD_REQUEST")


_SERVICE: Final = "Ydb.Scheme.V1.SchemeService"

COMMANDS: Final[Mapping[str, Unary]] = {
    f"{_SERVICE}/ListDirectory": list_directory,
    f"{_SERVICE}/DescribePath": describe_path,
    f"{_SERVICE}/MakeDirectory": make_directory,
    f"{_SERVICE}/RemoveDirectory": remove_directory,
    f"{_SERVICE}/ModifyPermissions": modify_permissions,
}
