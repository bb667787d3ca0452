"""Statistics of tables: rows, bytes and partitions. Partitions exist in name only."""

from __future__ import annotations

from typing import Any, Final

from mayflydb.engine.engine import Engine
from mayflydb.frontends.ydb.schemes.columns import parse_stored_type
from mayflydb.frontends.ydb.schemes.physical import partition_count
from mayflydb.frontends.ydb.tables import TableView
from mayflydb.frontends.ydb.values import encode_typed_value
from mayflydb.model.instant import MICROSECOND, SECOND, Instant
from mayflydb.query.yql.types import (
    INTEGERS,
    STRING,
    UINT32,
    UINT64,
    UTF8,
    TupleType,
    Type,
    Value,
    bare,
    optional,
)

NODE_ID: Final = 1
KILOBYTE: Final = 1024

_KEY_BITS: Final = {UINT32: 32, UINT64: 64}


async def describe_statistics(engine: Engine, view: TableView, into: Any, request: Any, now: Instant) -> None:
    """Fill in TableStats. Rows and bytes are divided evenly among the partitions."""
    rows, kilobytes = await engine.expiry_counts.usage(view.node, now)
    size = kilobytes * KILOBYTE
    count = partition_count(view.body.settings)
    into.rows_estimate = rows
    into.store_size = size
    into.partitions = count
    _describe_instant(view.body.created, into.creation_time)
    _describe_instant(view.node.definition.written, into.modification_time)
    if request.include_partition_stats:
        for number in range(count):
            each = into.partition_stats.add()
            each.rows_estimate = partition_share(rows, count, number)
            each.store_size = partition_share(size, count, number)
            if request.include_shard_nodes_info:
                each.leader_node_id = NODE_ID


def partition_share(total: int, count: int, number: int) -> int:
    """Return the share of partition `number` in a total that is divided evenly."""
    # The remainder goes to the first partitions, one each, so the shares add up to the total.
    return total // count + (number < total % count)


def _describe_instant(instant: Instant, into: Any) -> None:
    into.seconds = instant // SECOND
    into.nanos = instant % SECOND // MICROSECOND * 1000


def describe_bounds(view: TableView, result: Any) -> None:
    """Fill in the lower bounds of all partitions but the first."""
    types = {column.name: optional(parse_stored_type(column.type)) for column in view.body.columns}
    key = [types[name] for name in view.body.key]
    for values in _split_points(view, key):
        bound = tuple(key[: len(values)])
        result.shard_key_bounds.add().ParseFromString(encode_typed_value(TupleType(bound), tuple(values)))


def _split_points(view: TableView, key: list[Type]) -> list[list[Value]]:
    settings = view.body.settings
    if "UNIFORM_PARTITIONS" in settings:
        count, bits = partition_count(settings), _KEY_BITS.get(bare(key[0]))  # type: ignore[call-overload]
        # YDB divides the values of the first key column evenly, and only unsigned integers can be divided so.
        return [] if bits is None else [[(number << bits) // count] for number in range(1, count)]
    borders = [
        [_split_value(value, type) for value, type in zip(each, key, strict=False)]
        for each in settings.get("PARTITION_AT_KEYS", ())
    ]
    return borders if all(None not in each for each in borders) else []


def _split_value(value: Any, type: Type) -> Value:
    """Return a stored border as a value of its column; None if JSON cannot hold the type exactly."""
    plain = bare(type)
    if plain in INTEGERS:
        return value
    if plain == UTF8:
        return value
    return value.encode() if plain == STRING and isinstance(value, str) else None
