"""Specs of tables from YQL statements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

import msgspec

from mayflydb.frontends.ydb.changefeeds.options import spec_of_settings
from mayflydb.frontends.ydb.schemes import settings
from mayflydb.frontends.ydb.schemes.defaults import default_literal
from mayflydb.frontends.ydb.schemes.faults import Invalid
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
from mayflydb.frontends.ydb.schemes.ttl import check_tiers
from mayflydb.frontends.ydb.serials import sequence_of
from mayflydb.frontends.ydb.tables import Unit
from mayflydb.query.yql import definitions as ast
from mayflydb.query.yql import intervals
from mayflydb.query.yql.faults import Fault, Issue, fault, unsupported
from mayflydb.query.yql.names import find_serial_type, resolve_type
from mayflydb.query.yql.syntax import Expression, FunctionCall, Literal_
from mayflydb.query.yql.types import Primitive, bare, optional

SECOND: Final = 1_000_000


# --- CREATE TABLE ----------------------------------------------------------------------------------------------------


def table_spec(statement: ast.CreateTable, of_query: Sequence[ColumnSpec] = ()) -> TableSpec:
    """Return the spec in CREATE TABLE. `of_query`: the columns of CREATE TABLE AS. Faults: an invalid or unsupported phrase."""
    _check_kind(statement)
    if statement.primary_key is None:
        raise fault("Primary key is required for ydb tables.", statement.at)
    physical, ttl, column_store = _split_settings(statement.settings)
    if isinstance(ttl, DropTtl):
        ttl = KeepTtl()
    if statement.partition_by:
        physical["PARTITION_BY"] = list(statement.partition_by)
    return TableSpec(
        columns=tuple(of_query) or tuple(_column(each) for each in statement.columns),
        key=statement.primary_key,
        indexes=tuple(_index(each) for each in statement.indexes),
        ttl=None if isinstance(ttl, KeepTtl) else ttl,
        settings=physical,
        families=tuple(_family(each.name, each.settings) for each in statement.families),
        column_store=column_store,
        changefeeds=tuple(map(spec_of_settings, statement.changefeeds)),
    )


def _check_kind(statement: ast.CreateTable) -> None:
    if statement.kind != "TABLE":
        raise unsupported(f"CREATE {statement.kind}", statement.at)


def _column(given: ast.ColumnSpec) -> ColumnSpec:
    if given.type is None:
        raise fault(f"Column {given.name} has no type", given.at)
    serial_type = find_serial_type(given.type)
    if serial_type is not None:
        return _serial_column(given, serial_type)
    type = resolve_type(given.type)
    type = bare(type) if given.not_null else optional(type)
    default = None if given.default is None else default_literal(given.default, type)
    return ColumnSpec(given.name, type, _family_name(given.family), default)


def _serial_column(given: ast.ColumnSpec, type: Primitive) -> ColumnSpec:
    """Return the spec of a Serial column: numbered by a sequence, and never NULL."""
    if given.default is not None:
        raise fault(f"Default setting for {given.name} column is already set: it is numbered by a sequence", given.at)
    if given.not_null is False:
        raise fault(f"A column of type {given.type.name if given.type else ''} takes no NULL: {given.name}", given.at)
    return ColumnSpec(given.name, type, _family_name(given.family), sequence=sequence_of(type))


def _family_name(name: str | None) -> str:
    return "" if name in (None, "default") else str(name)


def _index(given: ast.IndexClause) -> IndexSpec:
    if given.local:
        raise unsupported("A local index", given.at)
    if given.using is not None and given.using.lower() != "secondary":
        raise unsupported(f"An index USING {given.using}", given.at)
    if given.unique and given.asynchronous:
        raise fault("ASYNC is not applicable to a unique index", given.at)
    for setting in given.settings:
        settings.parse_setting(setting)
    kind: IndexKind = "unique" if given.unique else "async" if given.asynchronous else "sync"
    return IndexSpec(given.name, given.columns, given.cover, kind)


def _family(name: str, given: Sequence[ast.Setting]) -> dict[str, Any]:
    family: dict[str, Any] = {"name": name}
    for setting in given:
        word = setting.name.upper()
        if word not in ("DATA", "COMPRESSION", "COMPRESSION_LEVEL", "CACHE_MODE"):
            raise fault(f"Unknown table setting: {setting.name}", setting.at)
        value = setting.value.decode() if isinstance(setting.value, bytes) else setting.value
        if not isinstance(value, (str, int)):
            raise fault(f"{word} value should be a string literal", setting.at)
        family[word.lower()] = value
    return family


# --- settings --------------------------------------------------------------------------------------------------------


def _split_settings(given: Sequence[ast.Setting]) -> tuple[dict[str, Any], TtlAction, bool]:
    """Return (physical settings, TTL, True for a column table)."""
    physical: dict[str, Any] = {}
    ttl: TtlAction = KeepTtl()
    column_store = False
    for setting in given:
        if isinstance(setting.value, ast.Ttl):
            ttl = ttl_spec(setting.value)
        elif setting.name.upper() == "STORE":
            column_store = _is_column_store(setting)
        else:
            name, value = settings.parse_setting(setting)
            physical[name] = value
    return physical, ttl, column_store


def _is_column_store(setting: ast.Setting) -> bool:
    word = setting.value.upper() if isinstance(setting.value, str) else ""
    if word not in ("ROW", "COLUMN"):
        raise fault("STORE value should be one of: ROW, COLUMN", setting.at)
    return word == "COLUMN"


def ttl_spec(given: ast.Ttl) -> TtlSpec:
    """Return the spec of a TTL setting. Faults: a missing or invalid Interval; Invalid: tiers."""
    # Tiers are parsed in order to be refused by name; a single tier without a destination is a plain TTL.
    spans = [_interval_seconds(interval) for interval, _ in given.tiers]
    if len(given.tiers) > 1 or given.tiers[0][1] is not None:
        check_tiers([(span, source) for span, (_, source) in zip(spans, given.tiers, strict=True)])
    return TtlSpec(given.column, spans[-1], cast(Unit | None, given.unit))


def _interval_seconds(given: Expression) -> int:
    """Return the whole seconds of an Interval literal."""
    match given:
        case FunctionCall(name=name, arguments=(argument,)) if name.lower() == "interval" and argument.name is None:
            literal = argument.value
        case _:
            raise _interval_fault(given)
    if not (isinstance(literal, Literal_) and literal.kind == "string" and isinstance(literal.value, bytes | str)):
        raise _interval_fault(given)
    text = literal.value.decode(errors="replace") if isinstance(literal.value, bytes) else literal.value
    length = intervals.parse(text)
    if length is None:
        raise fault(f'Invalid value "{text}" for type Interval', given.at)
    if length < 0:
        raise fault("Interval value cannot be negative", given.at)
    # TTL counts whole seconds, rounded down: PT1.5S is 1.
    return length // SECOND


def _interval_fault(given: Expression) -> Fault:
    texts = ("Literal of Interval type is expected for TTL", "Invalid TTL settings")
    return Fault("GENERIC_ERROR", *(Issue(text, position=given.at) for text in texts))


# --- ALTER TABLE -----------------------------------------------------------------------------------------------------


class Alteration(msgspec.Struct, frozen=True):
    """The changes of an ALTER TABLE: a spec, or a new name."""

    spec: AlterSpec
    rename_to: str | None = None


def parse_alteration(statement: ast.AlterTable) -> Alteration:
    """Return all actions of a statement as one change. Faults: an invalid or unsupported action."""
    actions = statement.actions
    for action in actions:
        if isinstance(action, ast.RenameTo):
            if len(actions) > 1:
                raise fault("RENAME TO can not be used together with another table action", action.at)
            return Alteration(AlterSpec(), action.to)
    spec = AlterSpec()
    for action in actions:
        spec = _apply_action(spec, action)
    return Alteration(spec)


def _apply_action(spec: AlterSpec, action: ast.TableAction) -> AlterSpec:
    replace = msgspec.structs.replace
    match action:
        case ast.AddColumn(column=column):
            if column.type is not None and find_serial_type(column.type) is not None:
                raise fault("Column addition with serial data type is unsupported", column.at)
            return replace(spec, add_columns=(*spec.add_columns, _column(column)))
        case ast.DropColumn(name=name):
            return replace(spec, drop_columns=(*spec.drop_columns, name))
        case ast.AlterColumn():
            return replace(spec, change_columns=(*spec.change_columns, _column_change(action)))
        case ast.AddIndex(index=index):
            return replace(spec, add_indexes=(*spec.add_indexes, _index(index)))
        case ast.DropIndex(name=name):
            return replace(spec, drop_indexes=(*spec.drop_indexes, name))
        case ast.RenameIndex(name=name, to=to):
            return replace(spec, rename_indexes=(*spec.rename_indexes, (name, to, False)))
        case ast.AlterIndex(settings=given):
            for setting in given:
                settings.parse_setting(setting)
            return spec
        case _:
            return _apply_settings_action(spec, action)


def _apply_settings_action(spec: AlterSpec, action: ast.TableAction) -> AlterSpec:
    replace = msgspec.structs.replace
    match action:
        case ast.SetSettings(settings=given):
            return _set_settings(spec, given)
        case ast.ResetSettings(names=names):
            return _reset_settings(spec, action, names)
        case ast.AddFamily(family=family):
            return replace(spec, families=(*spec.families, _family(family.name, family.settings)))
        case ast.AlterFamily(name=name, settings=given):
            return replace(spec, families=(*spec.families, _family(name, given)))
        case ast.AddChangefeed(changefeed=feed):
            return replace(spec, add_changefeeds=(*spec.add_changefeeds, spec_of_settings(feed)))
        case ast.DropChangefeed(name=name):
            return replace(spec, drop_changefeeds=(*spec.drop_changefeeds, name))
        case _:
            raise unsupported(type(action).__name__, action.at)


def _set_settings(spec: AlterSpec, given: Sequence[ast.Setting]) -> AlterSpec:
    for setting in given:
        if setting.name.upper() in settings.UNALTERABLE:
            raise fault(f"{setting.name.upper()} alter is not supported", setting.at)
    # Of several actions, the last one that names TTL counts.
    physical, ttl, _ = _split_settings(given)
    ttl = spec.ttl if isinstance(ttl, KeepTtl) else ttl
    return msgspec.structs.replace(spec, settings={**spec.settings, **physical}, ttl=ttl)


def _reset_settings(spec: AlterSpec, action: ast.ResetSettings, names: Sequence[str]) -> AlterSpec:
    physical: dict[str, None] = {}
    ttl: TtlAction = spec.ttl
    for name in names:
        word = name.upper()
        if word == "TTL":
            ttl = DropTtl()
        elif word in settings.PARSERS and word not in settings.UNALTERABLE:
            physical[word] = None
        else:
            raise fault(f"{word} reset is not supported", action.at)
    return msgspec.structs.replace(spec, settings={**spec.settings, **physical}, ttl=ttl)


def _column_change(action: ast.AlterColumn) -> ColumnChange:
    match action.change:
        case "SET FAMILY":
            return ColumnChange(action.name, family=_family_name(action.family))
        case "DROP NOT NULL":
            return ColumnChange(action.name, nullable=True)
        case "DROP DEFAULT":
            return ColumnChange(action.name, default="")
        case "SET DEFAULT":
            raise Invalid(f"Cannot set default from literal for column '{action.name}'")
        case _:
            raise unsupported(f"ALTER COLUMN {action.change}", action.at)
