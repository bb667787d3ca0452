"""Statements that change the scheme, as text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from mayflydb.query.yql.definitions import (
    AddChangefeed,
    AddColumn,
    AddFamily,
    AddIndex,
    AlterColumn,
    AlterFamily,
    AlterIndex,
    AlterSequence,
    AlterTable,
    ChangefeedSpec,
    ColumnSpec,
    CreateTable,
    CreateView,
    DropChangefeed,
    DropColumn,
    DropIndex,
    DropTable,
    DropView,
    FamilySpec,
    Grant,
    IndexClause,
    RenameIndex,
    RenameTo,
    ResetSettings,
    SetSettings,
    Setting,
    SettingValue,
    Ttl,
    UserSpec,
)
from mayflydb.query.yql.parser.expressions import COMPARISON
from mayflydb.query.yql.syntax import TypeName
from query.yql.printing.expressions import commas, expression, query
from query.yql.printing.names import names, quote, text
from query.yql.printing.type_names import type_name

_SYSTEM_PERMISSION: Final = frozenset("abcdefghijklmnopqrstuvwxyz.")


def setting_value(value: SettingValue) -> str:
    """Format the value of a setting."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int() | float():
            return repr(value)
        case bytes():
            return text(value)
        case str():
            return quote(value)
        case Ttl():
            return ttl(value)
        case tuple():
            rows = (f"({commas(each)})" if isinstance(each, tuple) else expression(each) for each in value)
            return f"({', '.join(rows)})"
        case TypeName():
            return type_name(value)
        case _:
            return expression(value)


def ttl(node: Ttl) -> str:
    """Format `Interval("P1D") DELETE ON column AS SECONDS`; DELETE is omitted if it is the only action."""
    alone = len(node.tiers) == 1
    tiers = []
    for interval, source in node.tiers:
        action = f" TO EXTERNAL DATA SOURCE {quote(source)}" if source is not None else "" if alone else " DELETE"
        tiers.append(f"{expression(interval)}{action}")
    unit = f" AS {node.unit}" if node.unit is not None else ""
    return f"{', '.join(tiers)} ON {quote(node.column)}{unit}"


def settings(nodes: tuple[Setting, ...]) -> str:
    """`(A = 1, B = 2)`"""
    return f"({', '.join(f'{quote(each.name)} = {setting_value(each.value)}' for each in nodes)})"


def _with(nodes: tuple[Setting, ...]) -> str:
    return f" WITH {settings(nodes)}" if nodes else ""


def column(node: ColumnSpec) -> str:
    """`name Type NOT NULL DEFAULT value FAMILY name`"""
    parts = [quote(node.name)]
    if node.type is not None:
        parts.append(type_name(node.type))
    if node.family is not None:
        parts.append(f"FAMILY {quote(node.family)}")
    if node.not_null is not None:
        parts.append("NOT NULL" if node.not_null else "NULL")
    if node.default is not None:
        parts.append(f"DEFAULT {expression(node.default, COMPARISON)}")
    return " ".join(parts)


def index(node: IndexClause) -> str:
    """`INDEX name GLOBAL SYNC ON (a) COVER (b)`"""
    kind = "LOCAL" if node.local else "GLOBAL UNIQUE" if node.unique else "GLOBAL"
    if not node.local:
        kind += " ASYNC" if node.asynchronous else " SYNC"
    using = f" USING {quote(node.using)}" if node.using is not None else ""
    cover = f" COVER ({names(node.cover)})" if node.cover else ""
    return f"INDEX {quote(node.name)} {kind}{using} ON ({names(node.columns)}){cover}{_with(node.settings)}"


def family(node: FamilySpec) -> str:
    return f"FAMILY {quote(node.name)} {settings(node.settings)}"


def changefeed(node: ChangefeedSpec) -> str:
    return f"CHANGEFEED {quote(node.name)} WITH {settings(node.settings)}"


def _if(given: bool, words: str) -> str:
    return f" {words}" if given else ""


def create_table(node: CreateTable) -> str:
    """Format CREATE TABLE."""
    entries = [*map(column, node.columns)]
    if node.primary_key is not None:
        entries.append(f"PRIMARY KEY ({names(node.primary_key)})")
    entries += [*map(index, node.indexes), *map(family, node.families), *map(changefeed, node.changefeeds)]
    replace, temporary = _if(node.or_replace, "OR REPLACE"), _if(node.temporary, "TEMPORARY")
    head = f"CREATE{replace}{temporary} {node.kind}{_if(node.if_not_exists, 'IF NOT EXISTS')} {quote(node.table)}"
    partition = f" PARTITION BY HASH ({names(node.partition_by)})" if node.partition_by else ""
    query_ = f" AS {query(node.as_query)}" if node.as_query is not None else ""
    return f"{head} ({', '.join(entries)}){partition}{_with(node.settings)}{query_}"


def create_view(node: CreateView) -> str:
    """Format CREATE VIEW, with the query as written."""
    head = f"CREATE VIEW{_if(node.if_not_exists, 'IF NOT EXISTS')} {quote(node.name)}"
    return f"{head}{_with(node.settings)} AS {node.text}"


def _alter_column(node: AlterColumn) -> str:
    value = f" {expression(node.default)}" if node.default is not None else ""
    family_ = f" {quote(node.family)}" if node.family is not None else ""
    return f"ALTER COLUMN {quote(node.name)} {node.change}{value}{family_}"


def _alter_index(node: AlterIndex) -> str:
    change = f"RESET ({names(node.reset)})" if node.reset else f"SET {settings(node.settings)}"
    return f"ALTER INDEX {quote(node.name)} {change}"


def _alter_family(node: AlterFamily) -> str:
    change = ", ".join(f"SET {quote(each.name)} {setting_value(each.value)}" for each in node.settings)
    return f"ALTER FAMILY {quote(node.name)} {change}"


def _alter_sequence(node: AlterSequence) -> str:
    parts = [f"ALTER SEQUENCE{_if(node.if_exists, 'IF EXISTS')} {quote(node.name)}"]
    if node.start is not None:
        parts.append(f"START WITH {node.start}")
    if node.increment is not None:
        parts.append(f"INCREMENT BY {node.increment}")
    if node.restart:
        parts.append("RESTART" if node.restart_at is None else f"RESTART WITH {node.restart_at}")
    return " ".join(parts)


def _user(node: UserSpec) -> str:
    head = f"{node.verb} {node.kind}{_if(node.if_exists, 'IF EXISTS')} {names(node.names)}"
    if node.kind == "GROUP" and node.options and node.options[0][0] != "RENAME TO":
        phrase = "WITH USER" if node.verb == "CREATE" else node.options[0][0]
        return f"{head} {phrase} {names(tuple(value or '' for _, value in node.options))}"
    return " ".join([head, *(_option(*each) for each in node.options)])


def _option(phrase: str, value: str | None) -> str:
    if phrase == "RENAME TO":
        return f"{phrase} {quote(value or '')}"
    if value is not None:
        return f"{phrase} {text(value)}"
    return "PASSWORD NULL" if phrase == "PASSWORD" else phrase


def _grant(node: Grant) -> str:
    permissions = ", ".join(text(each) if set(each) <= _SYSTEM_PERMISSION else each for each in node.permissions)
    what = f"{permissions} ON {names(node.paths)}"
    if node.revoke:
        return f"REVOKE {'GRANT OPTION FOR ' * node.grant_option}{what} FROM {names(node.subjects)}"
    return f"GRANT {what} TO {names(node.subjects)}{_if(node.grant_option, 'WITH GRANT OPTION')}"


def _alter_table(node: AlterTable) -> str:
    return f"ALTER TABLE {quote(node.table)} {', '.join(WRITERS[each.__class__](each) for each in node.actions)}"


WRITERS: Final[dict[type[Any], Callable[[Any], str]]] = {
    CreateTable: create_table,
    AlterTable: _alter_table,
    DropTable: lambda node: f"DROP {node.kind}{_if(node.if_exists, 'IF EXISTS')} {quote(node.table)}",
    AlterSequence: _alter_sequence,
    CreateView: create_view,
    DropView: lambda node: f"DROP VIEW{_if(node.if_exists, 'IF EXISTS')} {quote(node.name)}",
    UserSpec: _user,
    Grant: _grant,
    AddColumn: lambda node: f"ADD COLUMN {column(node.column)}",
    DropColumn: lambda node: f"DROP COLUMN {quote(node.name)}",
    AlterColumn: _alter_column,
    SetSettings: lambda node: f"SET {settings(node.settings)}",
    ResetSettings: lambda node: f"RESET ({names(node.names)})",
    AddIndex: lambda node: f"ADD {index(node.index)}",
    AlterIndex: _alter_index,
    DropIndex: lambda node: f"DROP INDEX {quote(node.name)}",
    RenameIndex: lambda node: f"RENAME INDEX {quote(node.name)} TO {quote(node.to)}",
    RenameTo: lambda node: f"RENAME TO {quote(node.to)}",
    AddFamily: lambda node: f"ADD {family(node.family)}",
    AlterFamily: _alter_family,
    AddChangefeed: lambda node: f"ADD {changefeed(node.changefeed)}",
    DropChangefeed: lambda node: f"DROP CHANGEFEED {quote(node.name)}",
}
"""The formatter of each class: definitions, and the actions of ALTER TABLE."""
