"""Execution of CREATE, ALTER and DROP TOPIC."""

from __future__ import annotations

from mayflydb.frontends.ydb.calls import GrpcCall
from mayflydb.frontends.ydb.schemes.catalog import Schemes
from mayflydb.frontends.ydb.schemes.entries import TopicEntry
from mayflydb.frontends.ydb.schemes.faults import wrap_faults
from mayflydb.frontends.ydb.schemes.paths import resolve_path
from mayflydb.frontends.ydb.topics.catalog import alter_topic, create_topic, drop_topic
from mayflydb.frontends.ydb.topics.from_yql import alter_request, create_request
from mayflydb.query.yql import definitions as ast


async def execute_topic_statement(
    schemes: Schemes, call: GrpcCall, statement: ast.TopicStatement, prefix: str | None
) -> None:
    """Execute a statement. Faults: its refusal."""
    path = resolve_path(call.database, prefix, statement.name)
    match statement:
        case ast.CreateTopic():
            request = create_request(statement, path)
            if statement.if_not_exists and isinstance(await schemes.find(path), TopicEntry):
                return
            with wrap_faults("CREATE TOPIC"):
                await create_topic(schemes, path, request, call.now, call.user)
        case ast.AlterTopic():
            change = alter_request(statement, path)
            with wrap_faults("ALTER TOPIC"):
                await alter_topic(schemes, path, change, call.now)
        case ast.DropTopic():
            if statement.if_exists and await schemes.find(path) is None:
                return
            with wrap_faults("DROP TOPIC"):
                await drop_topic(schemes, path)
