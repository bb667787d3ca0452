"""Tables as the catalogue keeps them. The row of a table has this as its body; a directory or a view is a row, too.

A table's container is named by its path below the database, `orders` or `shop/carts`. Its first index
(FIRST_ORDERED) orders it by
primary key and has `{"primary": true}` as spec; secondary ones have `{"name", "columns", "cover", "kind"}`. The dates of its TTL
column lie in the slot that `slot` names.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from mayflydb.engine.catalog import Index, Node
from mayflydb.frontends.ydb.serials import Sequence
from mayflydb.query.yql.schemas import Table

Unit = Literal["SECONDS", "MILLISECONDS", "MICROSECONDS", "NANOSECONDS"]


class TtlSettings(msgspec.Struct, frozen=True, omit_defaults=True):
    """`unit` None: the column is of a date type. `run_interval`: seconds, as far as somebody has set it. `slot`:
    where records have
    their dates."""

    column: str
    expire_after: int
    unit: Unit | None = None
    run_interval: int | None = None
    slot: int = 0


class StoredColumn(msgspec.Struct, frozen=True, omit_defaults=True):
    """`number`: its place in stored rows, from 0; no other column of the table ever had it. `type` as `format_type` writes it.

    `default`: a literal of YQL, for rows that do not name the column; also for rows that are older than the column. `sequence`:
    that of a Serial column as it was at first; see `sequences` for how it stands.
    """

    number: int
    name: str
    type: str
    family: str = ""
    default: str | None = None
    sequence: Sequence | None = None


class TableBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """`numbered`: how many numbers columns have had. `settings`: physical ones, which are kept, described, and mean
    nothing here. `permissions`: names of what a subject may do."""

    columns: tuple[StoredColumn, ...]
    key: tuple[str, ...]
    numbered: int
    kind: Literal["table"] = "table"
    created: int = 0
    owner: str = "root@builtin"
    ttl: TtlSettings | None = None
    attributes: dict[str, str] = {}
    settings: dict[str, Any] = {}
    families: tuple[dict[str, Any], ...] = ()
    column_store: bool = False
    permissions: dict[str, tuple[str, ...]] = {}


PRIMARY_SPEC: Final[dict[str, Any]] = {"primary": True}


def is_primary(index: Index) -> bool:
    """Whether an index is the one that orders its table."""
    return bool((index.spec or {}).get("primary"))


class TableView(msgspec.Struct, frozen=True):
    """A table, decoded from its node once as long as that stays the same.

    `numbers`: those of `table.columns`, in the same order. `primary`: the index that orders it. `indexes`: engine index by name.
    """

    node: Node
    body: TableBody
    table: Table
    numbers: tuple[int, ...]
    primary: Index
    indexes: dict[str, Index]
