"""Requests that create, change, drop, copy, rename and describe tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mayflydb.frontends.ydb import wire
from mayflydb.frontends.ydb.calls import GrpcCall
from mayflydb.frontends.ydb.descriptors import message
from mayflydb.frontends.ydb.schemes.copying import TableCopy, copy_tables
from mayflydb.frontends.ydb.schemes.describing import describe_table
from mayflydb.frontends.ydb.schemes.entries import SystemEntry
from mayflydb.frontends.ydb.schemes.faults import (
    ALTER_STATUS,
    CREATE_STATUS,
    path_conflict_notice,
    refuse_invalid,
    unknown_path,
    wrong_kind,
)
from mayflydb.frontends.ydb.schemes.from_wire import alter_spec, table_spec
from mayflydb.frontends.ydb.schemes.paths import resolve_path
from mayflydb.frontends.ydb.schemes.statistics import describe_bounds, describe_statistics
from mayflydb.frontends.ydb.schemes.system import VIEW_TYPES
from mayflydb.frontends.ydb.services import Services, Unary
from mayflydb.frontends.ydb.tables import TableView
from mayflydb.query.yql.faults import fault


async def create_table(services: Services, call: GrpcCall, request: Any) -> bytes:
    """`CreateTable`. A table that already exists is accepted with a notice."""
    path = resolve_path(call.database, None, request.path)
    with refuse_invalid(CREATE_STATUS):
        spec = table_spec(request)
    if await services.schemes.create_unless_exists(path, spec, call.now, call.user):
        return wire.operation_response()
    return wire.operation_response(issues=(path_conflict_notice(path),))


async def alter_table(services: Services, call: GrpcCall, request: Any) -> bytes:
    """`AlterTable`: all changes at once. The answer waits until new indexes are complete."""
    path = resolve_path(call.database, None, request.path)
    with refuse_invalid(ALTER_STATUS):
        spec = alter_spec(request)
    view = await services.schemes.alter(path, spec, call.now)
    if spec.add_indexes:
        # Otherwise the client's next query may name an index that is not complete, which is refused.
        await services.schemes.builds.wait_until_complete(view)
        return wire.operation_response(metadata=_build_metadata(path, request))
    return wire.operation_response()


def _build_metadata(path: str, request: Any) -> bytes:
    """Return an Any with the metadata of the first index that was built."""
    description = message("Ydb.Table.IndexBuildMetadata")(state=_BUILD_DONE, progress=100.0)
    description.description.path = path
    description.description.index.CopyFrom(request.add_indexes[0])
    return wire.any_message("Ydb.Table.IndexBuildMetadata", description.SerializeToString())


async def drop_table(services: Services, call: GrpcCall, request: Any) -> bytes:
    """`DropTable`"""
    await services.schemes.drop(resolve_path(call.database, None, request.path))
    return wire.operation_response()


async def copy_table(services: Services, call: GrpcCall, request: Any) -> bytes:
    """`CopyTable`"""
    copy = TableCopy(
        resolve_path(call.database, None, request.source_path),
        resolve_path(call.database, None, request.destination_path),
    )
    await copy_tables(services.schemes, [copy], call.now)
    return wire.operation_response()


async def copy_tables_request(services: Services, call: GrpcCall, request: Any) -> bytes:
    """`CopyTables`: copies from one snapshot, all or none."""
    if not request.tables:
        raise fault("At least one table should be provided", status="BAD_REQUEST")
    copies = [
        TableCopy(
            resolve_path(call.database, None, each.source_path),
            resolve_path(call.database, None, each.destination_path),
            each.omit_indexes,
        )
        for each in request.tables
    ]
    await copy_tables(services.schemes, copies, call.now)
    return wire.operation_response()


async def rename_tables(services: Services, call: GrpcCall, request: Any) -> bytes:
    """`RenameTables`: all or none, in order."""
    if not request.tables:
        raise fault("At least one table should be provided", status="BAD_REQUEST")
    moves = [
        (
            resolve_path(call.database, None, each.source_path),
            resolve_path(call.database, None, each.destination_path),
            each.replace_destination,
        )
        for each in request.tables
    ]
    await services.schemes.rename(moves, call.now)
    return wire.operation_response()


async def describe_table_request(services: Services, call: GrpcCall, request: Any) -> bytes:
    """`DescribeTable`. For other entries, the kind of the entry alone."""
    path = resolve_path(call.database, None, request.path)
    entry = await services.schemes.find(path)
    if entry is None:
        raise unknown_path(path)
    states = await services.schemes.sequences.states(entry, call.now) if isinstance(entry, TableView) else None
    result = describe_table(entry, states, request.include_set_val)
    if isinstance(entry, TableView):
        if request.include_shard_key_bounds:
            describe_bounds(entry, result)
        if request.include_table_stats:
            await describe_statistics(services.engine, entry, result.table_stats, request, call.now)
    return wire.operation_response(result=result.SerializeToString(), type_name="Ydb.Table.DescribeTableResult")


async def describe_options(services: Services, call: GrpcCall, request: Any) -> bytes:
    """`DescribeTableOptions`: empty, since no presets exist."""
    result = message("Ydb.Table.DescribeTableOptionsResult")()
    return wire.operation_response(result=result.SerializeToString(), type_name="Ydb.Table.DescribeTableOptionsResult")


async def describe_system_view(services: Services, call: GrpcCall, request: Any) -> bytes:
    """`DescribeSystemView`"""
    path = resolve_path(call.database, None, request.path)
    entry = await services.schemes.find(path)
    if not isinstance(entry, SystemEntry):
        raise unknown_path(path) if entry is None else wrong_kind(path, "system view")
    description = describe_table(entry)
    result = message("Ydb.Table.DescribeSystemViewResult")()
    result.self.CopyFrom(description.self)
    result.columns.extend(description.columns)
    result.primary_key.extend(description.primary_key)
    result.sys_view_name = entry.name
    result.sys_view_id = VIEW_TYPES[entry.name]
    return wire.operation_response(result=result.SerializeToString(), type_name="Ydb.Table.DescribeSystemViewResult")


_SERVICE: Final = "Ydb.Table.V1.TableService"
# IndexBuildState.STATE_DONE
_BUILD_DONE: Final = 4

COMMANDS: Final[Mapping[str, Unary]] = {
    f"{_SERVICE}/CreateTable": create_table,
    f"{_SERVICE}/AlterTable": alter_table,
    f"{_SERVICE}/DropTable": drop_table,
    f"{_SERVICE}/CopyTable": copy_table,
    f"{_SERVICE}/CopyTables": copy_tables_request,
    f"{_SERVICE}/RenameTables": rename_tables,
    f"{_SERVICE}/DescribeTable": describe_table_request,
    f"{_SERVICE}/DescribeTableOptions": describe_options,
    f"{_SERVICE}/DescribeSystemView": describe_system_view,
}
