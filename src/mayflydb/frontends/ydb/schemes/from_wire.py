"""Specs of tables from gRPC requests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from mayflydb.frontends.ydb.changefeeds.options import spec_of_message
from mayflydb.frontends.ydb.schemes.defaults import literal_of, parse_literal
from mayflydb.frontends.ydb.schemes.faults import Invalid
from mayflydb.frontends.ydb.schemes.physical import FEATURE_FLAGS, partitioning_settings, storage_settings
from mayflydb.frontends.ydb.schemes.specs import (
    AlterSpec,
    ColumnChange,
    ColumnSpec,
    DropTtl,
    IndexKind,
    IndexSpec,
    KeepTtl,
    TableSpec,
    TtlAction,
    TtlSpec,
)
from mayflydb.frontends.ydb.serials import Sequence, sequence_of
from mayflydb.frontends.ydb.tables import Unit
from mayflydb.frontends.ydb.values import decode_type, decode_typed_value
from mayflydb.query.yql.faults import fault
from mayflydb.query.yql.types import bare, is_optional, optional

UNITS_BY_NUMBER: Final[dict[int, Unit]] = {
    1: "SECONDS",
    2: "MILLISECONDS",
    3: "MICROSECONDS",
    4: "NANOSECONDS",
}
"""Units by number of ValueSinceUnixEpochModeSettings.Unit."""

_INDEX_KINDS: Final[dict[str | None, IndexKind]] = {
    None: "sync",
    "global_index": "sync",
    "global_async_index": "async",
    "global_unique_index": "unique",
}

COLUMN_STORE: Final = 2


def table_spec(request: Any) -> TableSpec:
    """Return the spec in a CreateTableRequest. Faults, Invalid: an invalid or unsupported field."""
    if request.temporary:
        raise _unsupported("A temporary table")
    if request.tiering:
        raise _unsupported("Tiering")
    physical = (
        _initial_partitions(request)
        | partitioning_settings(request.partitioning_settings)
        | _other_settings(request, "")
    )
    return TableSpec(
        columns=tuple(_column(each) for each in request.columns),
        key=tuple(request.primary_key),
        indexes=tuple(_index(each) for each in request.indexes),
        ttl=ttl_spec(request.ttl_settings) if request.HasField("ttl_settings") else None,
        attributes=dict(request.attributes),
        settings=physical,
        families=_families(request.columns, request.column_families),
        column_store=request.store_type == COLUMN_STORE,
    )


def _initial_partitions(request: Any) -> dict[str, Any]:
    """Return the initial partitions of a new table: those of the request, or those of the policy in its profile, the
    older way.
    """
    policy = request.profile.partitioning_policy
    found: dict[str, Any] = {}
    if policy.auto_partitioning:
        # PartitioningPolicy.AutoPartitioningPolicy: 1 is DISABLED, 2 AUTO_SPLIT, 3 AUTO_SPLIT_MERGE.
        found["AUTO_PARTITIONING_BY_SIZE"] = FEATURE_FLAGS[2 if policy.auto_partitioning == 1 else 1]
    for given, keys in ((request, "partition_at_keys"), (policy, "explicit_partitions")):
        form = given.WhichOneof("partitions")
        if form == keys:
            points = [decode_typed_value(each) for each in getattr(given, keys).split_points]
            found["PARTITION_AT_KEYS"] = [_split_point(value) for _, value in points]
        elif form is not None:
            found["UNIFORM_PARTITIONS"] = given.uniform_partitions
        if form is not None:
            break
    return found


def alter_spec(request: Any) -> AlterSpec:
    """Return the changes in an AlterTableRequest. Faults, Invalid as in `table_spec`."""
    if request.WhichOneof("tiering_action") is not None:
        raise _unsupported("Tiering")
    families = (*request.add_column_families, *request.alter_column_families)
    renamed = ((each.source_name, each.destination_name, each.replace_destination) for each in request.rename_indexes)
    return AlterSpec(
        add_columns=tuple(_column(each) for each in request.add_columns),
        drop_columns=tuple(request.drop_columns),
        change_columns=tuple(_column_change(each) for each in request.alter_columns),
        add_indexes=tuple(_index(each) for each in request.add_indexes),
        drop_indexes=tuple(request.drop_indexes),
        rename_indexes=tuple(renamed),
        ttl=_ttl_action(request),
        attributes=dict(request.alter_attributes),
        settings=partitioning_settings(request.alter_partitioning_settings) | _other_settings(request, "set_"),
        families=_families(request.add_columns, families),
        add_changefeeds=tuple(map(spec_of_message, request.add_changefeeds)),
        drop_changefeeds=tuple(request.drop_changefeeds),
    )


def _ttl_action(request: Any) -> TtlAction:
    match request.WhichOneof("ttl_action"):
        case "set_ttl_settings":
            return ttl_spec(request.set_ttl_settings)
        case "drop_ttl_settings":
            return DropTtl()
        case _:
            return KeepTtl()


def ttl_spec(given: Any) -> TtlSpec:
    """Return the spec in TtlSettings. Invalid: no mode, or an unknown unit."""
    # 0 is the default of the field, and means the server's interval.
    interval = given.run_interval_seconds or None
    match given.WhichOneof("mode"):
        case "date_type_column":
            mode = given.date_type_column
            return TtlSpec(mode.column_name, mode.expire_after_seconds, None, interval)
        case "value_since_unix_epoch":
            mode = given.value_since_unix_epoch
            unit = UNITS_BY_NUMBER.get(mode.column_unit)
            if unit is None:
                raise Invalid(f"Unsupported unit: {mode.column_unit}", "UNSUPPORTED")
            return TtlSpec(mode.column_name, mode.expire_after_seconds, unit, interval)
        case _:
            raise Invalid("TTL mode is undefined", "BAD_REQUEST")


def _column(given: Any) -> ColumnSpec:
    type = decode_type(given.type)
    if given.HasField("not_null"):
        # The field wins over the type; without it, the type says whether the column takes NULL.
        type = bare(type) if given.not_null else optional(type)
    family = "" if given.family == "default" else given.family
    match given.WhichOneof("default_value"):
        case "from_sequence":
            return ColumnSpec(given.name, bare(type), family, sequence=_sequence(given))
        case "from_literal":
            _, value = decode_typed_value(given.from_literal)
            try:
                text = literal_of(value, type)
            except (TypeError, ValueError, AttributeError):
                raise Invalid(f"Default of column '{given.name}' does not fit its type {type}", "BAD_REQUEST") from None
            # Parsing the literal again checks that the column can hold its value.
            parse_literal(text, type)
            return ColumnSpec(given.name, type, family, text)
        case _:
            return ColumnSpec(given.name, type, family)


def _sequence(given: Any) -> Sequence:
    """Return the sequence in a SequenceDescription. Fields that are not set have the values of the column's type."""
    usual = sequence_of(decode_type(given.type))
    if usual is None:
        raise Invalid(f"Column '{given.name}' of type {decode_type(given.type)} cannot have a sequence as its default")
    said = given.from_sequence
    named = {
        "low": "min_value",
        "high": "max_value",
        "start": "start_value",
        "increment": "increment",
        "cache": "cache",
    }
    found = {own: getattr(said, field) for own, field in named.items() if said.HasField(field)}
    found.setdefault("next", found.get("start", usual.start))
    if said.HasField("set_val"):
        found["next"], found["used"] = said.set_val.next_value, said.set_val.next_used
    return msgspec.structs.replace(usual, **found, cycle=said.cycle)


def _column_change(given: Any) -> ColumnChange:
    if given.WhichOneof("default_value") is not None:
        raise Invalid(f"Cannot set default from literal for column '{given.name}'")
    if given.HasField("type") and not is_optional(decode_type(given.type)):
        raise Invalid(f"Cannot alter type for column '{given.name}'")
    nullable = given.HasField("not_null") and not given.not_null
    return ColumnChange(given.name, nullable, given.family or None)


def _index(given: Any) -> IndexSpec:
    kind = _INDEX_KINDS[given.WhichOneof("type")]
    return IndexSpec(given.name, tuple(given.index_columns), tuple(given.data_columns), kind)


def _families(columns: Iterable[Any], given: Iterable[Any]) -> tuple[dict[str, Any], ...]:
    """Return the column families that are described, and those that columns only name."""
    described = {each.name: _family(each) for each in given}
    named = {each.family: {"name": each.family} for each in columns if each.family not in ("", "default")}
    return tuple({**named, **described}.values())


def _family(given: Any) -> dict[str, Any]:
    family: dict[str, Any] = {"name": given.name}
    if given.HasField("data"):
        family["data"] = given.data.media
    if given.compression:
        family["compression"] = {1: "off", 2: "lz4"}.get(given.compression, "off")
    if given.keep_in_memory:
        family["cache_mode"] = "in_memory" if given.keep_in_memory == 1 else "regular"
    return family


def _other_settings(request: Any, prefix: str) -> dict[str, Any]:
    """Return storage, bloom filter, read replicas and compaction policy.

    `prefix`: the prefix of their field names in AlterTableRequest.
    """
    found = storage_settings(request.alter_storage_settings if prefix else request.storage_settings)
    bloom = getattr(request, f"{prefix}key_bloom_filter")
    if bloom:
        found["KEY_BLOOM_FILTER"] = FEATURE_FLAGS[bloom]
    replicas = getattr(request, f"{prefix}read_replicas_settings")
    match replicas.WhichOneof("settings"):
        case "per_az_read_replicas_count":
            found["READ_REPLICAS_SETTINGS"] = f"PER_AZ:{replicas.per_az_read_replicas_count}"
        case "any_az_read_replicas_count":
            found["READ_REPLICAS_SETTINGS"] = f"ANY_AZ:{replicas.any_az_read_replicas_count}"
    policy = getattr(request, f"{prefix}compaction_policy")
    if policy:
        found["COMPACTION_POLICY"] = policy
    return found


def _split_point(value: Any) -> list[Any]:
    """Return a split point, the value of a tuple, as JSON values."""
    parts: Iterable[Any] = value if isinstance(value, tuple) else (value,)
    plain = [each.decode(errors="replace") if isinstance(each, bytes) else each for each in parts]
    return [each if isinstance(each, (int, float, str)) or each is None else str(each) for each in plain]


def _unsupported(what: str) -> Exception:
    return fault(f"{what} is not supported", status="UNSUPPORTED")
