"""CREATE TABLE AS: a table with the columns and rows of a query. It has its path when it is filled, or never.

The rows go into a hidden table, in batches, while a snapshot gives them. Then the table gets its path, in one change of the
catalogue. An error drops the hidden table, and so does the next start after a crash.
Source: https://ydb.tech/docs/en/yql/reference/syntax/create_table/as_select
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Final

import msgspec

from mayflydb.frontends.ydb import bulk
from mayflydb.frontends.ydb.rows import RowLayout
from mayflydb.frontends.ydb.schemes.catalog import Schemes
from mayflydb.frontends.ydb.schemes.definitions import new_table
from mayflydb.frontends.ydb.schemes.faults import CREATE_STATUS, path_conflict, refuse_invalid, wrap_faults
from mayflydb.frontends.ydb.schemes.from_yql import table_spec
from mayflydb.frontends.ydb.schemes.specs import ColumnSpec, TableSpec
from mayflydb.frontends.ydb.tables import TableView
from mayflydb.model.instant import Instant
from mayflydb.query.yql.definitions import CreateTable
from mayflydb.query.yql.faults import fault
from mayflydb.query.yql.plans.plan import ResultColumns
from mayflydb.query.yql.schemas import Effect, Row
from mayflydb.query.yql.statements import Action, Declare, Pragma, Script
from mayflydb.query.yql.syntax import Binding, Values

BATCH_ROWS: Final = 256

_ALLOWED_BESIDE: Final = (Pragma, Declare, Binding, Action)


def created_from_query(script: Script) -> CreateTable | None:
    """Return the CREATE TABLE AS of a script; None if it has none.

    Faults: statements beside it, and phrases that it cannot have.
    """
    created = [each for each in script.statements if isinstance(each, CreateTable) and each.as_query is not None]
    if not created:
        return None
    if len(created) > 1:
        raise fault("Several CTAS statement can't be used without per-statement mode.", created[1].at)
    for each in script.statements:
        if each is not created[0] and not isinstance(each, _ALLOWED_BESIDE):
            raise fault("CTAS statement can't be used with other statements without per-statement mode.", each.at)
    _check_phrases(created[0])
    return created[0]


def _check_phrases(statement: CreateTable) -> None:
    if any(column.type is not None for column in statement.columns):
        raise fault("Column types are not supported for CREATE TABLE AS", statement.columns[0].at)
    if statement.families:
        raise fault("Column families are not supported for CREATE TABLE AS", statement.families[0].at)
    if isinstance(statement.as_query, Values):
        raise fault("AS VALUES statement is not supported for CreateTableAs.", statement.as_query.at)
    if statement.columns:
        raise fault("CREATE TABLE AS with columns is not supported", statement.columns[0].at)
    if statement.temporary:
        raise fault("CREATE TEMPORARY TABLE AS is not supported at current time", statement.at)
    # YDB's documentation excludes both.
    if statement.indexes:
        raise fault("Secondary indexes are not supported for CREATE TABLE AS", statement.indexes[0].at)
    if statement.changefeeds:
        raise fault("Changefeeds are not supported for CREATE TABLE AS", statement.changefeeds[0].at)


def query_of(script: Script, created: CreateTable) -> Script:
    """Return the script of the rows: the query in the place of CREATE TABLE AS."""
    assert created.as_query is not None
    return Script(tuple(created.as_query if each is created else each for each in script.statements))


def rows_key(text: str) -> str:
    """Return the text under which the plan of `query_of` is cached."""
    return f"{text}\0rows"


def spec_of_query(statement: CreateTable, columns: ResultColumns) -> TableSpec:
    """Return the spec of the table. Columns stand in the order of their names, and are NOT NULL unless their type is Optional."""
    return table_spec(statement, [ColumnSpec(name, type) for name, type in sorted(columns, key=lambda each: each[0])])


class FilledTable(msgspec.Struct, frozen=True):
    """A table that is to be made of rows. `columns`: their names, in the order of the rows."""

    path: str
    spec: TableSpec
    columns: tuple[str, ...]
    replace: bool = False


async def create_table_of_rows(
    schemes: Schemes, table: FilledTable, batches: AsyncIterator[Sequence[Row]], now: Instant, owner: str
) -> None:
    """Create a table with these rows; of several rows with one key, the last is kept.

    Faults: the name is taken, the description or a row is invalid.
    """
    with wrap_faults("CREATE TABLE"):
        place = await schemes.split_new(table.path)
        if not table.replace and await schemes.find(table.path) is not None:
            raise path_conflict(table.path)
        with refuse_invalid(CREATE_STATUS):
            definition = new_table(table.spec, owner, schemes.ttl_policy, now)
    node = await schemes.hidden.create(definition, now)
    try:
        view = schemes.view(node, table.path)
        async for rows in batches:
            for start in range(0, len(rows), BATCH_ROWS):
                await _write(schemes, view, table.columns, rows[start : start + BATCH_ROWS], now)
        with wrap_faults("CREATE TABLE"):
            await schemes.publish([(node.id, *place)], now, table.replace)
    # Also after a cancelled call: nothing leads to the hidden table, so nothing else would drop it before the next start.
    except BaseException:
        await schemes.hidden.drop(node.id)
        raise
    schemes.engine.reaper.invalidate(node.id)


async def _write(
    schemes: Schemes, view: TableView, columns: tuple[str, ...], rows: Sequence[Row], now: Instant
) -> None:
    effect = Effect("REPLACE", view.table.path, columns, list(rows))
    await bulk.write_effects(schemes.engine, [(RowLayout(view), effect)], now)
