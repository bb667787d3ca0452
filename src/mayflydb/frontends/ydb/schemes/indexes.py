"""Secondary indexes: between specs, the engine's indexes, and the planner's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from mayflydb.engine.building import IndexRequest
from mayflydb.engine.catalog import Index as EngineIndex
from mayflydb.frontends.ydb.schemes.columns import NON_KEY_TYPES
from mayflydb.frontends.ydb.schemes.faults import Invalid
from mayflydb.frontends.ydb.schemes.specs import IndexSpec
from mayflydb.frontends.ydb.tables import is_primary
from mayflydb.query.yql.schemas import Index
from mayflydb.query.yql.types import Type, bare

# MaxTableIndices of `TSchemeLimits`; see `columns`.
MAX_INDEXES: Final = 20


def index_definition(spec: IndexSpec) -> IndexRequest:
    """Return the engine's description of a new index."""
    body = {"name": spec.name, "columns": list(spec.columns), "cover": list(spec.cover), "kind": spec.kind}
    return IndexRequest(unique=spec.kind == "unique", spec=body)


def secondary_indexes(indexes: Sequence[EngineIndex]) -> dict[str, EngineIndex]:
    """Return the secondary indexes that are not dropped, by name. They may still be building."""
    return {name_of(each): each for each in indexes if each.state != "dropped" and not is_primary(each)}


def name_of(index: EngineIndex) -> str:
    """Return the name of a secondary index."""
    assert index.spec is not None
    name: str = index.spec["name"]
    return name


def planner_index(index: EngineIndex) -> Index:
    """Return a secondary index as queries see it."""
    spec = index.spec or {}
    ready = index.state == "ready"
    return Index(spec["name"], tuple(spec["columns"]), tuple(spec["cover"]), spec["kind"], ready)


def check_index(spec: IndexSpec, columns: Mapping[str, Type], key: Sequence[str], taken: Sequence[str]) -> None:
    """Check a new index of a table with these columns.

    `taken`: the names of its other indexes. Invalid: the first violation.
    """
    if not spec.name:
        raise Invalid("Index must have a name")
    if spec.name in taken:
        raise Invalid(f"index '{spec.name}' already exists")
    if not spec.columns:
        raise Invalid("At least one column must be specified")
    for name in spec.columns:
        _check_column(name, spec, columns)
    for name in spec.cover:
        if name not in columns:
            raise Invalid(f"Index data column: {name} is not present in table columns")
        if name in key or name in spec.columns:
            raise Invalid(f"The same column can't be used as key column and data column for one index: {name}")
    if tuple(spec.columns) == tuple(key):
        raise Invalid("Index keys are the same as table primary key, index is useless")
    # `taken` counts the indexes before this one, so the limit itself is allowed.
    if len(taken) >= MAX_INDEXES:
        raise Invalid(f"indexes count has reached maximum value in the table, limit: {MAX_INDEXES}")


def _check_column(name: str, spec: IndexSpec, columns: Mapping[str, Type]) -> None:
    if name not in columns:
        raise Invalid(f"Index column with name: {name} is not present in table columns")
    if spec.columns.count(name) > 1:
        raise Invalid(f"Index column with name: {name} is specified more than once")
    if bare(columns[name]) in NON_KEY_TYPES:
        raise Invalid(f"Column '{name}' has wrong key type {bare(columns[name])} for being key")
