"""Columns: types in the catalogue's notation, and the checks of new columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from mayflydb.frontends.ydb.schemes.faults import Invalid
from mayflydb.frontends.ydb.schemes.specs import ColumnSpec
from mayflydb.frontends.ydb.serials import check_sequence, sequence_of
from mayflydb.frontends.ydb.tables import StoredColumn
from mayflydb.query.yql.moments import ZONED
from mayflydb.query.yql.names import resolve_type
from mayflydb.query.yql.parser import parse_type
from mayflydb.query.yql.types import (
    DOUBLE,
    FLOAT,
    JSON,
    JSON_DOCUMENT,
    YSON,
    DecimalType,
    Primitive,
    Type,
    bare,
    format_type,
    is_optional,
)

# `TSchemeLimits` in `ydb/core/tx/schemeshard/schemeshard_types.h` of https://github.com/ydb-platform/ydb.
MAX_COLUMNS: Final = 200
MAX_KEY_COLUMNS: Final = 20
MAX_NAME_LENGTH: Final = 255

NON_KEY_TYPES: Final = frozenset((YSON, JSON, JSON_DOCUMENT, DOUBLE, FLOAT))
"""Types that cannot be key columns."""

NON_STORED_TYPES: Final = frozenset(ZONED)
"""Types that cannot be stored in columns."""

_NAME: Final = re.compile(r"[A-Za-z0-9_-]+\Z")


@lru_cache(maxsize=1024)
def parse_stored_type(text: str) -> Type:
    """Return the type that `format_type` has written."""
    return resolve_type(parse_type(text))


def check_columns(columns: Sequence[ColumnSpec]) -> None:
    """Check new columns, each on its own. Invalid: the first violation."""
    for column in columns:
        if len(column.name) > MAX_NAME_LENGTH:
            raise Invalid(f"Column name too long '{column.name}'. Limit: {MAX_NAME_LENGTH}")
        if _NAME.match(column.name) is None:
            raise Invalid(f"Invalid name for column '{column.name}'")
        _check_sequence(column)
        plain = bare(column.type)
        if not isinstance(plain, (Primitive, DecimalType)) or plain in NON_STORED_TYPES:
            raise Invalid(f"Type '{plain}' specified for column '{column.name}' is not supported by storage")


def _check_sequence(column: ColumnSpec) -> None:
    if column.sequence is None:
        return
    usual = sequence_of(column.type)
    if usual is None or is_optional(column.type):
        raise Invalid(f"Column '{column.name}' of type {column.type} cannot have a sequence as its default")
    try:
        check_sequence(column.sequence)
    except ValueError as error:
        raise Invalid(str(error)) from None
    if column.sequence.high > usual.high:
        raise Invalid(f"MAXVALUE ({column.sequence.high}) is out of range for type {bare(column.type)}")


def check_key(columns: Sequence[ColumnSpec], key: Sequence[str]) -> None:
    """Check the primary key of a new table. Invalid: the first violation."""
    if not key:
        raise Invalid("At least one key column must be specified")
    by_name = {column.name: column for column in columns}
    seen: set[str] = set()
    for name in key:
        column = by_name.get(name)
        if column is None:
            raise Invalid(f"Unknown column '{name}' specified in key column list")
        if name in seen:
            raise Invalid(f"Column '{name}' specified more than once in key column list")
        seen.add(name)
        if column.family not in ("", "default"):
            raise Invalid(f"Key column '{name}' must belong to the default family")
        if bare(column.type) in NON_KEY_TYPES:
            raise Invalid(f"Column {name} has wrong key type {bare(column.type)}")
    if len(key) > MAX_KEY_COLUMNS:
        raise Invalid(f"Too many key columns: current: 0, new: {len(key)}. Limit: {MAX_KEY_COLUMNS}")


def stored_column(column: ColumnSpec, number: int) -> StoredColumn:
    """Return a column as the catalogue stores it."""
    return StoredColumn(number, column.name, format_type(column.type), column.family, column.default, column.sequence)
