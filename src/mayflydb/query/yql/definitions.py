"""The statements that change the scheme, as trees."""

from __future__ import annotations

from typing import Literal, TypeAlias

from mayflydb.query.yql.syntax import Expression, Query, Syntax, TypeName


class Ttl(Syntax, frozen=True):
    """`Interval("P1D") DELETE ON column AS SECONDS`.

    `tiers`: (interval, external data source or None). `interval` is whatever expression was written, since it must be an Interval
    literal and the refusal says so. `unit`: SECONDS, MILLISECONDS, MICROSECONDS, NANOSECONDS or None.
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
    """`NAME = value` of WITH and SET; `value` is a literal's value, a bare word as str, a Ttl, or a tuple for `(a,
    b)` lists."""

    name: str
    value: SettingValue


class ColumnSpec(Syntax, frozen=True):
    """`type` None: an ALTER that names a column alone. `not_null` None: nothing was said, so the column takes
    NULL."""

    name: str
    type: TypeName | None
    not_null: bool | None = None
    default: Expression | None = None
    family: str | None = None


class IndexSpec(Syntax, frozen=True):
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
    """`kind`: "TABLE", "TABLESTORE", "EXTERNAL TABLE". `partition_by`: columns of PARTITION BY HASH. `as_query`:
    CREATE TABLE AS."""

    table: str
    columns: tuple[ColumnSpec, ...] = ()
    primary_key: tuple[str, ...] | None = None
    indexes: tuple[IndexSpec, ...] = ()
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
    """`ALTER COLUMN name SET FAMILY f`, `DROP NOT NULL`, `SET NOT NULL`, `SET DEFAULT e`, `DROP DEFAULT`: `change`
    is those words."""

    name: str
    change: str
    family: str | None = None
    default: Expression | None = None


class SetSettings(Syntax, frozen=True):
    settings: tuple[Setting, ...]


class ResetSettings(Syntax, frozen=True):
    names: tuple[str, ...]


class AddIndex(Syntax, frozen=True):
    index: IndexSpec


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
    """`restart`: begin anew, at `restart_at` or else at the start. None: nothing was said."""

    name: str
    start: int | None = None
    increment: int | None = None
    restart: bool = False
    restart_at: int | None = None
    if_exists: bool = False


class CreateView(Syntax, frozen=True):
    """`text` is the query as it was written, which is what is kept."""

    name: str
    query: Query
    text: str
    settings: tuple[Setting, ...] = ()
    if_not_exists: bool = False


class DropView(Syntax, frozen=True):
    name: str
    if_exists: bool = False


class ShowCreate(Syntax, frozen=True):
    kind: Literal["TABLE", "VIEW"]
    name: str


class UserSpec(Syntax, frozen=True):
    """CREATE, ALTER and DROP of USER and GROUP. `options`: (phrase, value or None), as ("PASSWORD", "p"),
    ("NOLOGIN", None),
    ("ADD USER", "name"), ("RENAME TO", "name")."""

    verb: Literal["CREATE", "ALTER", "DROP"]
    kind: Literal["USER", "GROUP"]
    names: tuple[str, ...]
    options: tuple[tuple[str, str | None], ...] = ()
    if_exists: bool = False


class Grant(Syntax, frozen=True):
    """GRANT and REVOKE. `permissions` in upper case, or names of YDB's own; ("ALL",)."""

    permissions: tuple[str, ...]
    paths: tuple[str, ...]
    subjects: tuple[str, ...]
    revoke: bool = False
    grant_option: bool = False


Definition: TypeAlias = CreateTable | AlterTable | DropTable | AlterSequence | CreateView | DropView | UserSpec | Grant
"""What changes the scheme, and not data."""
