"""Descriptions of new tables and of changes, common to YQL and gRPC requests. They are not checked yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from mayflydb.frontends.ydb.serials import Sequence
from mayflydb.frontends.ydb.tables import ChangefeedFormat, ChangefeedMode, Unit
from mayflydb.query.yql.types import Type

IndexKind = Literal["sync", "async", "unique"]


class ColumnSpec(msgspec.Struct, frozen=True):
    """A column.

    `type`: an Optional unless the column is NOT NULL. `default`: a literal of YQL. `sequence`: that of a Serial column.
    """

    name: str
    type: Type
    family: str = ""
    default: str | None = None
    sequence: Sequence | None = None


class IndexSpec(msgspec.Struct, frozen=True):
    """A secondary index."""

    name: str
    columns: tuple[str, ...]
    cover: tuple[str, ...] = ()
    kind: IndexKind = "sync"


class TtlSpec(msgspec.Struct, frozen=True):
    """TTL of a table. `expire_after`: whole seconds. `run_interval`: seconds; None: the server's default."""

    column: str
    expire_after: int
    unit: Unit | None = None
    run_interval: int | None = None


class ChangefeedSpec(msgspec.Struct, frozen=True):
    """A new changefeed. `retention`: seconds; None: the default. `partitions`: of its topic; None: one."""

    name: str
    mode: ChangefeedMode
    format: ChangefeedFormat
    retention: int | None = None
    virtual_timestamps: bool = False
    initial_scan: bool = False
    user_sids: bool = False
    aws_region: str = ""
    attributes: Mapping[str, str] = {}
    partitions: int | None = None


class TableSpec(msgspec.Struct, frozen=True):
    """A new table.

    `settings`: physical settings by their names in YQL. `families`: column families, each with its name.
    """

    columns: tuple[ColumnSpec, ...]
    key: tuple[str, ...]
    indexes: tuple[IndexSpec, ...] = ()
    ttl: TtlSpec | None = None
    attributes: Mapping[str, str] = {}
    settings: Mapping[str, Any] = {}
    families: tuple[dict[str, Any], ...] = ()
    column_store: bool = False
    changefeeds: tuple[ChangefeedSpec, ...] = ()


class ColumnChange(msgspec.Struct, frozen=True):
    """A change of a column. `nullable`: drop NOT NULL. `default` "": drop the default; None: keep it."""

    name: str
    nullable: bool = False
    family: str | None = None
    default: str | None = None


# Three cases and not two: None could mean "no change" or "no TTL".
class KeepTtl(msgspec.Struct, frozen=True):
    """The change leaves TTL as it is."""


class DropTtl(msgspec.Struct, frozen=True):
    """The change removes TTL, if the table has any."""


TtlAction: TypeAlias = TtlSpec | KeepTtl | DropTtl


class AlterSpec(msgspec.Struct, frozen=True):
    """Changes of a table, applied together. A setting of None and an attribute of "" are removed."""

    add_columns: tuple[ColumnSpec, ...] = ()
    drop_columns: tuple[str, ...] = ()
    change_columns: tuple[ColumnChange, ...] = ()
    add_indexes: tuple[IndexSpec, ...] = ()
    drop_indexes: tuple[str, ...] = ()
    rename_indexes: tuple[tuple[str, str, bool], ...] = ()
    ttl: TtlAction = KeepTtl()
    attributes: Mapping[str, str] = {}
    settings: Mapping[str, Any] = {}
    families: tuple[dict[str, Any], ...] = ()
    add_changefeeds: tuple[ChangefeedSpec, ...] = ()
    drop_changefeeds: tuple[str, ...] = ()
