"""Definitions of tables: from a spec, and after a change. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from mayflydb.engine.building import add_indexes
from mayflydb.engine.catalog import Definition, Index, Node, Slot, next_number
from mayflydb.engine.catalog_changes import refuse_removal
from mayflydb.engine.dates import with_slot, without_slot
from mayflydb.expiry.passes import TICK, end_schedule, following
from mayflydb.expiry.rules import without_stamps
from mayflydb.frontends.ydb.schemes.columns import (
    MAX_COLUMNS,
    check_columns,
    check_key,
    parse_stored_type,
    stored_column,
)
from mayflydb.frontends.ydb.schemes.faults import Invalid
from mayflydb.frontends.ydb.schemes.indexes import check_index, index_definition, secondary_indexes
from mayflydb.frontends.ydb.schemes.specs import (
    AlterSpec,
    ColumnChange,
    ColumnSpec,
    DropTtl,
    IndexSpec,
    KeepTtl,
    TableSpec,
    TtlSpec,
)
from mayflydb.frontends.ydb.schemes.ttl import check_ttl, rule_of
from mayflydb.frontends.ydb.tables import PRIMARY_SPEC, StoredColumn, TableBody, TtlSettings
from mayflydb.model.instant import HOUR, MINUTE, SECOND, Instant, Span
from mayflydb.model.order import FIRST_ORDERED
from mayflydb.query.yql.types import Type, format_type, is_optional, optional


class TtlPolicy(msgspec.Struct, frozen=True):
    """Settings of the server for all tables.

    `min_run_interval`: the least run interval that a table may set. `hides`: due rows of all tables are hidden from their
    deadline on. `run_interval`: the default of a table. `tick`: the distance of the instants at which runs may begin.
    """

    min_run_interval: Span = 15 * MINUTE
    hides: bool = False
    run_interval: Span = HOUR
    tick: Span = TICK


def body_of(definition: Definition) -> TableBody:
    """Return the decoded body of a table."""
    return msgspec.convert(definition.body, TableBody)


def body_to_builtins(body: TableBody) -> dict[str, Any]:
    """Return a body as the catalogue stores it."""
    found: dict[str, Any] = msgspec.to_builtins(body)
    return found


# --- new tables ------------------------------------------------------------------------------------------------------


def new_table(spec: TableSpec, owner: str, policy: TtlPolicy, now: Instant) -> Definition:
    """Return the definition of a new table, whose indexes are complete since it is empty.

    Invalid: the first violation.
    """
    columns = {column.name: column.type for column in spec.columns}
    _check_distinct(spec.columns)
    check_columns(spec.columns)
    if len(columns) > MAX_COLUMNS:
        raise Invalid(f"Too many columns: current: 0, new: {len(columns)}, dropping: 0. Limit: {MAX_COLUMNS}")
    if spec.ttl is not None:
        check_ttl(spec.ttl, columns, (), now, policy.min_run_interval)
    check_key(spec.columns, spec.key)
    if spec.column_store and any(column.sequence is not None for column in spec.columns):
        raise Invalid("Sequences are not supported for column tables")
    _check_families(spec.columns, spec.families)
    for place, index in enumerate(spec.indexes):
        check_index(index, columns, spec.key, [each.name for each in spec.indexes[:place]])
    body = TableBody(
        columns=tuple(stored_column(column, number) for number, column in enumerate(spec.columns)),
        key=spec.key,
        numbered=len(spec.columns),
        created=now,
        owner=owner,
        attributes=dict(spec.attributes),
        settings=dict(spec.settings),
        families=spec.families,
        column_store=spec.column_store,
    )
    primary = Index(FIRST_ORDERED, (), "ready", spec=PRIMARY_SPEC)
    definition = Definition({}, now, indexes=(primary,), numbered=FIRST_ORDERED)
    # `add_indexes` numbers the indexes of a node; there is none yet. An empty table needs no build.
    node, _ = add_indexes(Node(0, 0, "", definition), [index_definition(each) for each in spec.indexes], "ready")
    definition = node.definition
    if spec.ttl is not None:
        definition, slot = with_slot(definition)
        # The empty table has no dates to build either.
        definition = msgspec.structs.replace(definition, slots=(Slot(slot, "ready"),))
        body = msgspec.structs.replace(body, ttl=stored_ttl(spec.ttl, slot))
    return with_rule(msgspec.structs.replace(definition, body=body_to_builtins(body)), policy, now)


def stored_ttl(ttl: TtlSpec, slot: int) -> TtlSettings:
    """Return TTL settings as the catalogue stores them."""
    return TtlSettings(ttl.column, ttl.expire_after, ttl.unit, ttl.run_interval, slot)


def with_rule(definition: Definition, policy: TtlPolicy, now: Instant) -> Definition:
    """Return a definition with the rule and the schedule of its TTL settings."""
    body = body_of(definition)
    before = definition.schedule
    if body.ttl is None:
        # The stopped schedule is kept, so that a TTL set again soon does not run earlier than its interval allows.
        return msgspec.structs.replace(definition, rules=(), schedule=before and end_schedule(before, now))
    rule = rule_of(body.ttl, body.attributes, policy.hides)
    interval = policy.run_interval if body.ttl.run_interval is None else body.ttl.run_interval * SECOND
    # Runs of a table begin at full ticks, at least an interval apart, even across RESET and SET of its TTL.
    schedule = following(before, interval, now, policy.tick)
    same = [without_stamps(each) for each in definition.rules] == [rule]
    if same and before is not None and before.until is None and before.every == schedule.every:
        # A run that precedes a changed rule does not count, so only an unchanged rule keeps its schedule.
        schedule = before
    return msgspec.structs.replace(definition, rules=(rule,), schedule=schedule)


def _check_distinct(columns: tuple[ColumnSpec, ...]) -> None:
    seen: set[str] = set()
    for column in columns:
        if column.name in seen:
            raise Invalid(f"Column '{column.name}' specified more than once")
        seen.add(column.name)


def _check_families(columns: tuple[ColumnSpec, ...], families: tuple[dict[str, Any], ...]) -> None:
    known = {"", "default", *(family["name"] for family in families)}
    for column in columns:
        if column.family not in known:
            raise Invalid(f"Unknown column family '{column.family}' of column '{column.name}'")


# --- changes ---------------------------------------------------------------------------------------------------------


def alter_definition(definition: Definition, spec: AlterSpec, policy: TtlPolicy, now: Instant) -> Definition:
    """Return a table's definition after a change.

    New indexes and date slots are still to be built. Invalid: the first violation. Held: a column goes whose values a hold keeps.
    """
    body = body_of(definition)
    if definition.holds and spec.drop_columns:
        raise refuse_removal(f"column {spec.drop_columns[0]}", definition.holds[0].name)
    definition = _alter_indexes(definition, body, spec)
    body, types = _alter_columns(body, spec)
    _check_indexes(definition, body, spec)
    body = msgspec.structs.replace(
        body,
        attributes=_merge(body.attributes, {name: value or None for name, value in spec.attributes.items()}),
        settings=_merge(body.settings, spec.settings),
    )
    definition, body = _alter_ttl(definition, body, spec, types, policy, now)
    return with_rule(msgspec.structs.replace(definition, body=body_to_builtins(body)), policy, now)


def _merge(before: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in {**before, **changes}.items() if value is not None}


def _alter_columns(body: TableBody, spec: AlterSpec) -> tuple[TableBody, dict[str, Type]]:
    """Return a body with changed columns, and the types of all columns, dropped ones included."""
    types = {column.name: parse_stored_type(column.type) for column in body.columns}
    _check_distinct(spec.add_columns)
    check_columns(spec.add_columns)
    for column in spec.add_columns:
        if column.name in types:
            raise Invalid(f"Column '{column.name}' specified more than once")
        if column.sequence is not None:
            raise Invalid("Column addition with serial data type is unsupported")
        if not is_optional(column.type) and column.default is None:
            raise Invalid("Cannot add not null column without default value", code=2017)
    families = _merge_families(body.families, spec.families)
    _check_families(spec.add_columns, families)
    _check_dropped(body, spec, types)
    changes = {change.name: change for change in spec.change_columns}
    for name in changes:
        if name not in types:
            raise Invalid(f"Column '{name}' cannot be altered (does not exist)")
    kept = tuple(
        _alter_column(column, changes.get(column.name), body.key)
        for column in body.columns
        if column.name not in spec.drop_columns
    )
    # Numbers of dropped columns stay taken: older rows still have values under them.
    new = tuple(stored_column(column, number) for number, column in enumerate(spec.add_columns, body.numbered))
    if len(kept) + len(new) > MAX_COLUMNS:
        raise Invalid(
            f"Too many columns: current: {len(body.columns)}, new: {len(new)}, dropping: {len(spec.drop_columns)}. "
            f"Limit: {MAX_COLUMNS}"
        )
    after = msgspec.structs.replace(body, columns=(*kept, *new), numbered=body.numbered + len(new), families=families)
    return after, {**types, **{column.name: column.type for column in spec.add_columns}}


def _check_dropped(body: TableBody, spec: AlterSpec, types: Mapping[str, Type]) -> None:
    for place, name in enumerate(spec.drop_columns):
        if name in {column.name for column in spec.add_columns}:
            raise Invalid(f"Add + drop same column: '{name}'")
        if name not in types:
            raise Invalid(f"Can't drop unknown column: '{name}'")
        if name in body.key:
            raise Invalid(f"Can't drop key column: '{name}'")
        if name in spec.drop_columns[:place]:
            raise Invalid(f"Duplicate drop column: {name}")
        if body.ttl is not None and body.ttl.column == name and isinstance(spec.ttl, KeepTtl):
            raise Invalid(f"Can't drop TTL column: '{name}', disable TTL first")


def _alter_column(column: StoredColumn, change: ColumnChange | None, key: tuple[str, ...]) -> StoredColumn:
    if change is None:
        return column
    if change.family not in (None, "default") and column.name in key:
        raise Invalid(f"Key column '{column.name}' must belong to the default family")
    if column.sequence is not None:
        raise Invalid(f"Cannot alter serial column '{column.name}'")
    type = parse_stored_type(column.type)
    return msgspec.structs.replace(
        column,
        type=format_type(optional(type)) if change.nullable else column.type,
        family=column.family if change.family is None else change.family,
        default=column.default if change.default is None else change.default or None,
    )


def _merge_families(
    before: tuple[dict[str, Any], ...], changes: tuple[dict[str, Any], ...]
) -> tuple[dict[str, Any], ...]:
    merged = {family["name"]: family for family in before}
    for change in changes:
        merged[change["name"]] = {**merged.get(change["name"], {}), **change}
    return tuple(merged.values())


def _check_indexes(definition: Definition, body: TableBody, spec: AlterSpec) -> None:
    for index in secondary_indexes(definition.indexes).values():
        stored = index.spec or {}
        for name in spec.drop_columns:
            if name in stored["columns"]:
                raise Invalid("Impossible drop column because table has an index with that column")
            if name in stored["cover"]:
                raise Invalid("Impossible drop column because table index covers that column")
    types = {column.name: parse_stored_type(column.type) for column in body.columns}
    existing = [
        name for name in secondary_indexes(definition.indexes) if name not in {each.name for each in spec.add_indexes}
    ]
    for place, new in enumerate(spec.add_indexes):
        check_index(new, types, body.key, [*existing, *(each.name for each in spec.add_indexes[:place])])


# --- indexes of a change ---------------------------------------------------------------------------------------------


def _alter_indexes(definition: Definition, body: TableBody, spec: AlterSpec) -> Definition:
    existing = secondary_indexes(definition.indexes)
    dropped = {existing[name].number for name in spec.drop_indexes if name in existing}
    for name in spec.drop_indexes:
        if name not in existing:
            raise Invalid(f"Check failed: index '{name}' does not exist", "SCHEME_ERROR", 2003)
    indexes = tuple(
        msgspec.structs.replace(index, state="dropped") if index.number in dropped else index
        for index in definition.indexes
    )
    for source, destination, replace in spec.rename_indexes:
        indexes = _rename_index(indexes, source, destination, replace)
    taken = secondary_indexes(indexes)
    for new in spec.add_indexes:
        _check_addable(new, taken)
    # The engine counts on from the highest number ever given, so entries of a dropped index cannot pass for those of a
    # new one.
    definition = msgspec.structs.replace(definition, indexes=indexes, numbered=next_number(definition) - 1)
    node, _ = add_indexes(Node(0, 0, "", definition), [index_definition(each) for each in spec.add_indexes])
    return node.definition


def _check_addable(new: IndexSpec, taken: Mapping[str, Index]) -> None:
    if new.name in taken:
        raise Invalid(f"index '{new.name}' already exists")
    if new.kind == "unique":
        # Existing rows may violate the index.
        raise Invalid("Adding a unique index to an existing table is not supported", "UNSUPPORTED")


def _rename_index(indexes: tuple[Index, ...], source: str, destination: str, replace: bool) -> tuple[Index, ...]:
    existing = secondary_indexes(indexes)
    if source not in existing:
        raise Invalid(f"Check failed: index '{source}' does not exist", "SCHEME_ERROR", 2003)
    other = existing.get(destination)
    if other is not None and not replace:
        raise Invalid(f"index '{destination}' already exists", "SCHEME_ERROR", 2003)
    found: list[Index] = []
    for index in indexes:
        if other is not None and index.number == other.number:
            index = msgspec.structs.replace(index, state="dropped")
        elif index.number == existing[source].number:
            index = msgspec.structs.replace(index, spec={**(index.spec or {}), "name": destination})
        found.append(index)
    return tuple(found)


# --- TTL of a change -------------------------------------------------------------------------------------------------


def _alter_ttl(
    definition: Definition, body: TableBody, spec: AlterSpec, types: Mapping[str, Type], policy: TtlPolicy, now: Instant
) -> tuple[Definition, TableBody]:
    """Apply a change of TTL. Another column or unit takes a new date slot; another span or interval keeps the slot."""
    before = body.ttl
    if isinstance(spec.ttl, KeepTtl):
        return definition, body
    if isinstance(spec.ttl, DropTtl):
        if before is not None:
            definition = without_slot(definition, before.slot)
        return definition, msgspec.structs.replace(body, ttl=None)
    check_ttl(spec.ttl, types, spec.drop_columns, now, policy.min_run_interval)
    # The dates in the slot do not depend on span and interval, so nothing is built, however large the table.
    if before is not None and (before.column, before.unit) == (spec.ttl.column, spec.ttl.unit):
        return definition, msgspec.structs.replace(body, ttl=stored_ttl(spec.ttl, before.slot))
    if before is not None:
        definition = without_slot(definition, before.slot)
    definition, slot = with_slot(definition)
    return definition, msgspec.structs.replace(body, ttl=stored_ttl(spec.ttl, slot))
