"""What a table is to be, or how it is to change, in words that YQL and requests share. Nothing here is checked yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from mayflydb.frontends.ydb.serials import Sequence
from mayflydb.frontends.ydb.tables import Unit
from mayflydb.query.yql.types import Type

Kind = Literal["sync", "async", "unique"]


class ColumnSpec(msgspec.Struct, frozen=True):
    """`type` is an Optional unless the column is NOT NULL. `default`: a literal of YQL. `sequence`: that of a Serial column."""

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
    kind: Kind = "sync"


class TtlSpec(msgspec.Struct, frozen=True):
    """`expire_after` in whole seconds. `run_interval`: seconds; None: nobody has set one."""

    column: str
    expire_after: int
    unit: Unit | None = None
    run_interval: int | None = None


class TableSpec(msgspec.Struct, frozen=True):
    """A new table. `settings`: physical ones by their names in YQL; `families` each with its name."""

    columns: tuple[ColumnSpec, ...]
    key: tuple[str, ...]
    indexes: tuple[IndexSpec, ...] = ()
    ttl: TtlSpec | None = None
    attributes: Mapping[str, str] = {}
    settings: Mapping[str, Any] = {}
    families: tuple[dict[str, Any], ...] = ()
    column_store: bool = False


class ColumnChange(msgspec.Struct, frozen=True):
    """`nullable`: NOT NULL is dropped. `default` "": it is dropped; None: it stays."""

    name: str
    nullable: bool = False
    family: str | None = None
    default: str | None = None


class KeepTtl(msgspec.Struct, frozen=True):
    """Nothing is said of TTL."""


class DropTtl(msgspec.Struct, frozen=True):
    """There is to be none, whether there is one or not."""


TtlAction: TypeAlias = TtlSpec | KeepTtl | DropTtl


class AlterSpec(msgspec.Struct, frozen=True):
    """Changes of a table, all of which come at once. A setting of None goes; an attribute of "" does, too."""

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
