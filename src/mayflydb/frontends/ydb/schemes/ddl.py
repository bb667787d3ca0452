"""Execution of YQL's definitions."""

from __future__ import annotations

from mayflydb.frontends.ydb import user_statements
from mayflydb.frontends.ydb.accounts import Accounts
from mayflydb.frontends.ydb.calls import GrpcCall
from mayflydb.frontends.ydb.schemes import permissions
from mayflydb.frontends.ydb.schemes.catalog import Schemes
from mayflydb.frontends.ydb.schemes.entries import Entry, TopicEntry, ViewEntry
from mayflydb.frontends.ydb.schemes.faults import (
    ALTER_STATUS,
    CREATE_STATUS,
    missing_path,
    path_conflict,
    path_conflict_notice,
    refuse_invalid,
    wrap_faults,
    wrong_kind,
)
from mayflydb.frontends.ydb.schemes.from_yql import parse_alteration, table_spec
from mayflydb.frontends.ydb.schemes.paths import resolve_path
from mayflydb.frontends.ydb.schemes.showing import show_table, show_view
from mayflydb.frontends.ydb.schemes.temporary import TemporaryTables
from mayflydb.frontends.ydb.serials import SequenceChange, sequence_name
from mayflydb.frontends.ydb.tables import TableView
from mayflydb.frontends.ydb.topics.statements import execute_topic_statement
from mayflydb.model.errors import OwnerNotFound
from mayflydb.query.yql import definitions as ast
from mayflydb.query.yql.faults import Issue, fault, missing_table_fault, unsupported
from mayflydb.query.yql.schemas import Row
from mayflydb.query.yql.syntax import At

CLUSTER = "db"
"""YDB's texts name a cluster; this is the name of the only one."""


async def execute_definition(
    schemes: Schemes,
    accounts: Accounts,
    call: GrpcCall,
    statement: ast.Definition,
    prefix: str | None = None,
    lenient: bool = False,
) -> tuple[Issue, ...]:
    """Execute a definition and return its notices.

    `prefix`: the value of PRAGMA TablePathPrefix. `lenient`: CREATE TABLE of an existing table succeeds with a notice.

    Faults: the refusal of the definition.
    """
    match statement:
        case ast.CreateTable():
            return await _create_table(schemes, call, statement, prefix, lenient)
        case ast.AlterTable():
            await _alter_table(schemes, call, statement, prefix)
        case ast.DropTable():
            await _drop_table(schemes, call, statement, prefix)
        case ast.AlterSequence():
            await _alter_sequence(schemes, call, statement, prefix)
        case ast.CreateView():
            await _create_view(schemes, call, statement, prefix)
        case ast.DropView():
            await _drop_view(schemes, call, statement, prefix)
        case ast.CreateTopic() | ast.AlterTopic() | ast.DropTopic():
            await execute_topic_statement(schemes, call, statement, prefix)
        case ast.Grant():
            await _grant(schemes, call, statement, prefix)
        case ast.UserSpec():
            await user_statements.execute(accounts, call, statement)
    return ()


async def show_create(schemes: Schemes, call: GrpcCall, statement: ast.ShowCreate, prefix: str | None = None) -> Row:
    """Return (the statement that creates a table or view, its path below the database, its kind).

    Faults: the entry does not exist, or is of another kind.
    """
    path = resolve_path(call.database, prefix, statement.name)
    entry = await schemes.find(path)
    # SHOW CREATE shows names below the database, so that the statement runs in another one as well.
    name = path.removeprefix(call.database + "/")
    if isinstance(entry, TableView) and statement.kind == "TABLE":
        sequences = await schemes.sequences.states(entry, call.now)
        found = {feed.name: await schemes.find(f"{path}/{feed.name}") for feed in entry.body.changefeeds}
        topics = {feed: topic.body for feed, topic in found.items() if isinstance(topic, TopicEntry)}
        # A changefeed that was dropped in this moment shows in neither.
        shown = topics if len(topics) == len(found) else None
        return show_table(entry, name, sequences, shown, await schemes.is_temporary(path)), name, "Table"
    if isinstance(entry, ViewEntry) and statement.kind == "VIEW":
        return show_view(entry, name), name, "View"
    if entry is None:
        raise missing_table_fault(CLUSTER, path, statement.at)
    raise wrong_kind(path, statement.kind.lower())


async def _create_table(
    schemes: Schemes, call: GrpcCall, statement: ast.CreateTable, prefix: str | None, lenient: bool
) -> tuple[Issue, ...]:
    if statement.as_query is not None:
        raise fault("Creating table with data is not supported.", statement.at)
    if statement.temporary:
        raise unsupported("CREATE TEMPORARY TABLE in a scheme query", statement.at)
    path = resolve_path(call.database, prefix, statement.table)
    with refuse_invalid(CREATE_STATUS):
        spec = table_spec(statement)
    with wrap_faults("CREATE TABLE"):
        if statement.or_replace or not (statement.if_not_exists or lenient):
            await schemes.create(path, spec, call.now, call.user, statement.or_replace)
            return ()
        is_new = await schemes.create_unless_exists(path, spec, call.now, call.user)
    return () if is_new or statement.if_not_exists else (path_conflict_notice(path),)


async def create_temporary(
    temporary: TemporaryTables, call: GrpcCall, statement: ast.CreateTable, prefix: str | None
) -> None:
    """Execute CREATE TEMPORARY TABLE. Faults: the refusal of the definition."""
    path = resolve_path(call.database, prefix, statement.table)
    if statement.or_replace:
        raise unsupported("CREATE OR REPLACE TEMPORARY TABLE", statement.at)
    with refuse_invalid(CREATE_STATUS):
        spec = table_spec(statement)
    if statement.if_not_exists and await temporary.find(path) is not None:
        return
    with wrap_faults("CREATE TABLE"):
        await temporary.create(path, spec, call.now, call.user)


async def _alter_table(schemes: Schemes, call: GrpcCall, statement: ast.AlterTable, prefix: str | None) -> None:
    path = resolve_path(call.database, prefix, statement.table)
    entry = await _get_entry(schemes, path, statement.at)
    with refuse_invalid(ALTER_STATUS):
        change = parse_alteration(statement)
    with wrap_faults("ALTER TABLE"):
        if not isinstance(entry, TableView):
            raise wrong_kind(path, "table")
        if change.rename_to is not None:
            destination = resolve_path(call.database, prefix, change.rename_to)
            await schemes.rename([(path, destination, False)], call.now)
            return
        view = await schemes.alter(path, change.spec, call.now)
    if change.spec.add_indexes:
        # The statement ends when its indexes can be read.
        await schemes.builds.wait_until_complete(view)


async def _drop_table(schemes: Schemes, call: GrpcCall, statement: ast.DropTable, prefix: str | None) -> None:
    if statement.kind != "TABLE":
        raise unsupported(f"DROP {statement.kind}", statement.at)
    path = resolve_path(call.database, prefix, statement.table)
    entry = await schemes.find(path)
    if entry is None and statement.if_exists:
        return
    await _get_entry(schemes, path, statement.at)
    with wrap_faults("DROP TABLE"):
        await schemes.drop(path)


async def _alter_sequence(schemes: Schemes, call: GrpcCall, statement: ast.AlterSequence, prefix: str | None) -> None:
    path = resolve_path(call.database, prefix, statement.name)
    # The path of a sequence is that of its table and `_serial_column_` with the column's name.
    table, _, name = path.rpartition("/")
    entry = await schemes.find(table)
    columns = entry.body.columns if isinstance(entry, TableView) else ()
    column = next((each for each in columns if each.sequence and sequence_name(each.name) == name), None)
    if column is None and statement.if_exists:
        return
    with wrap_faults("ALTER SEQUENCE"):
        if column is None or not isinstance(entry, TableView):
            raise missing_path(path)
        change = SequenceChange(statement.start, statement.increment, statement.restart, statement.restart_at)
        try:
            await schemes.sequences.alter(entry, column, change, call.now)
        except ValueError as error:
            raise fault(str(error), statement.at, "BAD_REQUEST") from None
        except OwnerNotFound:
            raise missing_path(path) from None


async def _create_view(schemes: Schemes, call: GrpcCall, statement: ast.CreateView, prefix: str | None) -> None:
    path = resolve_path(call.database, prefix, statement.name)
    settings = {setting.name.lower(): setting.value for setting in statement.settings}
    if settings.get("security_invoker") not in (True, b"true", "true", "TRUE"):
        raise fault("CREATE VIEW statement must be created WITH (security_invoker = TRUE)", statement.at)
    for name in settings.keys() - {"security_invoker"}:
        raise fault(f"{name.upper()} parameter is not supported by VIEW", statement.at)
    if await schemes.find(path) is not None:
        if statement.if_not_exists:
            return
        with wrap_faults("CREATE VIEW"):
            raise path_conflict(path)
    with wrap_faults("CREATE VIEW"):
        await schemes.create_view(path, statement.text, call.now, call.user)


async def _drop_view(schemes: Schemes, call: GrpcCall, statement: ast.DropView, prefix: str | None) -> None:
    path = resolve_path(call.database, prefix, statement.name)
    entry = await schemes.find(path)
    if entry is None and statement.if_exists:
        return
    with wrap_faults("DROP VIEW"):
        await schemes.drop_view(path)


async def _grant(schemes: Schemes, call: GrpcCall, statement: ast.Grant, prefix: str | None) -> None:
    names = permissions.permission_names(statement)
    change = permissions.revoke if statement.revoke else permissions.grant
    for each in statement.paths:
        path = resolve_path(call.database, prefix, each)
        with wrap_faults("REVOKE" if statement.revoke else "GRANT"):
            await schemes.update_body(path, lambda node: change(node.body, statement.subjects, names), call.now)


async def _get_entry(schemes: Schemes, path: str, at: At) -> Entry:
    entry = await schemes.find(path)
    if entry is None:
        raise missing_table_fault(CLUSTER, path, at)
    return entry
