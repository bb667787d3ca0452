"""The body of a table's node in the catalogue.

The table's container is named by the path below the database: `orders`, `shop/carts`. The index FIRST_ORDERED orders
the table by primary key and has the spec `{"primary": true}`. Secondary indexes have `{"name", "columns", "cover",
"kind"}`. The dates of the TTL column stand in the slot `TtlSettings.slot`.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from mayflydb.engine.catalog import Index, Node
from mayflydb.frontends.ydb.serials import Sequence
from mayflydb.query.yql.schemas import Table

ChangefeedMode = Literal["KEYS_ONLY", "UPDATES", "NEW_IMAGE", "OLD_IMAGE", "NEW_AND_OLD_IMAGES"]
ChangefeedFormat = Literal["JSON", "DYNAMODB_STREAMS_JSON", "DEBEZIUM_JSON"]

Unit = Literal["SECONDS", "MILLISECONDS", "MICROSECONDS", "NANOSECONDS"]


# Bodies are stored in the catalogue: fields may be added with defaults, and not renamed.
class TtlSettings(msgspec.Struct, frozen=True, omit_defaults=True):
    """TTL of a table.

    `unit` None: the column has a date type. `run_interval`: seconds; None: the server's default. `slot`: the date slot
    of the column.
    """

    column: str
    expire_after: int
    unit: Unit | None = None
    run_interval: int | None = None
    # Another column or unit takes another slot, so its dates never mix with those of the column before.
    slot: int = 0


class StoredColumn(msgspec.Struct, frozen=True, omit_defaults=True):
    """One column.

    `number`: its index in stored rows, from 0, never used by another column of the table. `type`: as `format_type`
    writes it.

    `default`: a literal of YQL, used for rows that leave the column out and for rows older than the column. `sequence`:
    the initial state of a Serial column's sequence; `sequences` has the current one.
    """

    number: int
    name: str
    type: str
    family: str = ""
    default: str | None = None
    sequence: Sequence | None = None


class InitialScan(msgspec.Struct, frozen=True, omit_defaults=True):
    """An initial scan that is under way: the rows with an lsn up to `lsn` are told of, as they were at the instant `at`.

    `number`: the number of the transaction that began it, for virtual timestamps.
    """

    lsn: int
    at: int
    number: int


class Changefeed(msgspec.Struct, frozen=True, omit_defaults=True):
    """A changefeed. `topic`: the node of its topic, whose body has the retention and the consumers."""

    name: str
    mode: ChangefeedMode
    format: ChangefeedFormat
    topic: int
    virtual_timestamps: bool = False
    user_sids: bool = False
    aws_region: str = ""
    attributes: dict[str, str] = {}
    scan: InitialScan | None = None


class TableBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """The definition of a table.

    `numbered`: the number of column numbers given so far. `settings`: physical settings, which are stored and described
    and have no effect. `permissions`: permission names by subject.
    """

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
    changefeeds: tuple[Changefeed, ...] = ()
    permissions: dict[str, tuple[str, ...]] = {}


PRIMARY_SPEC: Final[dict[str, Any]] = {"primary": True}


def is_primary(index: Index) -> bool:
    """True for the index of the primary key."""
    return bool((index.spec or {}).get("primary"))


class TableView(msgspec.Struct, frozen=True):
    """A table decoded from its node. The view is built once for each definition of the table.

    `numbers`: column numbers, in the order of `table.columns`. `primary`: the index of the primary key. `indexes`:
    secondary indexes by name.
    """

    node: Node
    body: TableBody
    table: Table
    numbers: tuple[int, ...]
    primary: Index
    indexes: dict[str, Index]
