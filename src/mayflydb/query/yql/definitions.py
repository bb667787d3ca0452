"""Syntax trees of the statements that change the scheme."""

from __future__ import annotations

from typing import Literal, TypeAlias

from mayflydb.query.yql.syntax import Expression, Query, Syntax, TypeName


class Ttl(Syntax, frozen=True):
    """The value of the setting TTL: `Interval("P1D") DELETE ON column AS SECONDS`.

    `tiers`: (interval, external data source or None). `interval` is any expression: the refusal of what is not an
    Interval literal comes later. `unit`: SECONDS, MILLISECONDS, MICROSECONDS, NANOSECONDS or None.
    """

    tiers: tuple[tuple[Expression, str | None], ...]
    column: str
    unit: str | None = None


SettingValue: TypeAlias = (
    bool
    | int
    | float
    | str
    | bytes
    | Ttl
    | Expression
    | TypeName
    | tuple[Expression | tuple[Expression, ...], ...]
    | None
)


class Setting(Syntax, frozen=True):
    """`NAME = value` of WITH and SET. `value`: the value of a literal, a bare word as str, a Ttl, or a tuple for `(a,
    b)`."""

    name: str
    value: SettingValue


class ColumnSpec(Syntax, frozen=True):
    """A column of CREATE TABLE or ALTER TABLE.

    `type` None: the statement names the column alone. `not_null` None: the statement says nothing, so the column allows
    NULL.
    """

    name: str
    type: TypeName | None
    not_null: bool | None = None
    default: Expression | None = None
    family: str | None = None


class IndexClause(Syntax, frozen=True):
    """`INDEX name GLOBAL [UNIQUE] [SYNC|ASYNC] [USING kind] ON (columns) COVER (cover) WITH (settings)`"""

    name: str
    columns: tuple[str, ...]
    cover: tuple[str, ...] = ()
    unique: bool = False
    asynchronous: bool = False
    local: bool = False
    using: str | None = None
    settings: tuple[Setting, ...] = ()


class FamilySpec(Syntax, frozen=True):
    name: str
    settings: tuple[Setting, ...] = ()


class ChangefeedSpec(Syntax, frozen=True):
    name: str
    settings: tuple[Setting, ...] = ()


class CreateTable(Syntax, frozen=True):
    """CREATE TABLE. `kind`: "TABLE", "TABLESTORE" or "EXTERNAL TABLE". `partition_by`: columns of PARTITION BY HASH.

    `as_query`: the query of CREATE TABLE AS.
    """

    table: str
    columns: tuple[ColumnSpec, ...] = ()
    primary_key: tuple[str, ...] | None = None
    indexes: tuple[IndexClause, ...] = ()
    families: tuple[FamilySpec, ...] = ()
    changefeeds: tuple[ChangefeedSpec, ...] = ()
    settings: tuple[Setting, ...] = ()
    partition_by: tuple[str, ...] = ()
    if_not_exists: bool = False
    or_replace: bool = False
    temporary: bool = False
    kind: str = "TABLE"
    as_query: Query | None = None


class AddColumn(Syntax, frozen=True):
    column: ColumnSpec


class DropColumn(Syntax, frozen=True):
    name: str


class AlterColumn(Syntax, frozen=True):
    """`ALTER COLUMN name change`, with `change` one of SET FAMILY, SET NOT NULL, DROP NOT NULL, SET DEFAULT and DROP
    DEFAULT."""

    name: str
    change: str
    family: str | None = None
    default: Expression | None = None


class SetSettings(Syntax, frozen=True):
    settings: tuple[Setting, ...]


class ResetSettings(Syntax, frozen=True):
    names: tuple[str, ...]


class AddIndex(Syntax, frozen=True):
    index: IndexClause


class AlterIndex(Syntax, frozen=True):
    name: str
    settings: tuple[Setting, ...] = ()
    reset: tuple[str, ...] = ()


class DropIndex(Syntax, frozen=True):
    name: str


class RenameIndex(Syntax, frozen=True):
    name: str
    to: str


class RenameTo(Syntax, frozen=True):
    to: str


class AddFamily(Syntax, frozen=True):
    family: FamilySpec


class AlterFamily(Syntax, frozen=True):
    name: str
    settings: tuple[Setting, ...]


class AddChangefeed(Syntax, frozen=True):
    changefeed: ChangefeedSpec


class DropChangefeed(Syntax, frozen=True):
    name: str


TableAction: TypeAlias = (
    AddColumn
    | DropColumn
    | AlterColumn
    | SetSettings
    | ResetSettings
    | AddIndex
    | AlterIndex
    | DropIndex
    | RenameIndex
    | RenameTo
    | AddFamily
    | AlterFamily
    | AddChangefeed
    | DropChangefeed
)


class AlterTable(Syntax, frozen=True):
    table: str
    actions: tuple[TableAction, ...]


class DropTable(Syntax, frozen=True):
    table: str
    if_exists: bool = False
    kind: str = "TABLE"


class AlterSequence(Syntax, frozen=True):
    """ALTER SEQUENCE. `restart`: begin again, at `restart_at` or, without it, at the start value. None: not given."""

    name: str
    start: int | None = None
    increment: int | None = None
    restart: bool = False
    restart_at: int | None = None
    if_exists: bool = False


class CreateView(Syntax, frozen=True):
    """CREATE VIEW. `text`: the query as written; the scheme stores it."""

    name: str
    query: Query
    text: str
    settings: tuple[Setting, ...] = ()
    if_not_exists: bool = False


class DropView(Syntax, frozen=True):
    name: str
    if_exists: bool = False


class ConsumerClause(Syntax, frozen=True):
    """`CONSUMER name WITH (settings)`"""

    name: str
    settings: tuple[Setting, ...] = ()


class CreateTopic(Syntax, frozen=True):
    name: str
    consumers: tuple[ConsumerClause, ...] = ()
    settings: tuple[Setting, ...] = ()
    if_not_exists: bool = False


class AddConsumer(Syntax, frozen=True):
    consumer: ConsumerClause


class AlterConsumer(Syntax, frozen=True):
    """`ALTER CONSUMER name SET (settings)` or `RESET (names)`."""

    name: str
    settings: tuple[Setting, ...] = ()
    reset: tuple[str, ...] = ()


class DropConsumer(Syntax, frozen=True):
    name: str


TopicAction: TypeAlias = AddConsumer | AlterConsumer | DropConsumer | SetSettings | ResetSettings


class AlterTopic(Syntax, frozen=True):
    name: str
    actions: tuple[TopicAction, ...]


class DropTopic(Syntax, frozen=True):
    name: str
    if_exists: bool = False


TopicStatement: TypeAlias = CreateTopic | AlterTopic | DropTopic


class ShowCreate(Syntax, frozen=True):
    kind: Literal["TABLE", "VIEW"]
    name: str


class UserSpec(Syntax, frozen=True):
    """CREATE, ALTER and DROP of USER and GROUP.

    `options`: (phrase, value or None): ("PASSWORD", "p"), ("NOLOGIN", None), ("ADD USER", "name"), ("RENAME TO",
    "name").
    """

    verb: Literal["CREATE", "ALTER", "DROP"]
    kind: Literal["USER", "GROUP"]
    names: tuple[str, ...]
    options: tuple[tuple[str, str | None], ...] = ()
    if_exists: bool = False


class Grant(Syntax, frozen=True):
    """GRANT and REVOKE. `permissions`: phrases in upper case, YDB's own names such as `ydb.generic.read`, or ("ALL",)."""

    permissions: tuple[str, ...]
    paths: tuple[str, ...]
    subjects: tuple[str, ...]
    revoke: bool = False
    grant_option: bool = False


Definition: TypeAlias = (
    CreateTable
    | AlterTable
    | DropTable
    | AlterSequence
    | CreateView
    | DropView
    | CreateTopic
    | AlterTopic
    | DropTopic
    | UserSpec
    | Grant
)
"""The statements that change the scheme, not rows."""
