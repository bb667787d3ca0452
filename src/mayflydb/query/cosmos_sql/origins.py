"""Origins of values in a query: a path of the document, elements of its arrays, or a computation."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final, TypeAlias

import msgspec

from mayflydb.query.cosmos_sql.scope import ROOT, find_aggregate
from mayflydb.query.cosmos_sql.syntax import (
    Expression,
    Field,
    FromSource,
    Literal,
    Name,
    Object,
    Path,
    QueryParameter,
    Select,
    Subquery,
    output_name,
    output_names,
)


class Origin(Enum):
    """The origin of a value: a path of the document, a path below the elements that a JOIN takes from an array, or a
    computation.
    """

    PATH = "path"
    ELEMENTS = "elements"
    COMPUTED = "computed"


class TracedValue(msgspec.Struct, frozen=True):
    """The origin of a value. `constructor`: the object constructor that gives it; `origins`: those of the names in it."""

    kind: Origin
    constructor: Object | None = None
    origins: AliasOrigins = MappingProxyType({})


AliasOrigins: TypeAlias = Mapping[str, TracedValue]
"""The origins of aliases."""

CONTAINER: Final[AliasOrigins] = MappingProxyType({})
"""The scope outside of the outermost SELECT: ROOT and the first name of FROM are the document."""

_DOCUMENT: Final = TracedValue(Origin.PATH)
_COMPUTED: Final = TracedValue(Origin.COMPUTED)


def origins_of(sources: tuple[FromSource, ...], outer: AliasOrigins, *, is_nested: bool = False) -> AliasOrigins:
    """Return the origins of all aliases that these sources and `outer` define. `is_nested`: the first source is not the
    container.
    """
    origins = dict(outer)
    for position, source in enumerate(sources):
        is_head = position == 0 and not is_nested
        alias = source.alias if source.alias is not None else output_name(source.expression)
        if alias is not None:
            origins[alias] = _source_origin(source, origins, is_head=is_head)
    return origins


def _source_origin(source: FromSource, origins: AliasOrigins, *, is_head: bool) -> TracedValue:
    node = source.expression
    if isinstance(node, Subquery):
        found = _subquery_origin(node.select, origins, is_head=is_head)
    elif is_head:
        return _DOCUMENT
    else:
        found = origin_of(node, origins)
    if not source.unnest:
        return found
    return _COMPUTED if found.kind is Origin.COMPUTED else TracedValue(Origin.ELEMENTS)


def _subquery_origin(select: Select, outer: AliasOrigins, *, is_head: bool) -> TracedValue:
    """The origin of the rows of a subquery."""
    origins = origins_of(select.sources, outer, is_nested=not is_head)
    parts = [select.value] if select.value is not None else [item.expression for item in select.items]
    if select.group_by or any(map(find_aggregate, parts)):
        return _COMPUTED
    if select.star:
        source = select.sources[0]
        alias = source.alias if source.alias is not None else output_name(source.expression)
        return origins.get(alias, _DOCUMENT) if alias is not None else _COMPUTED
    if select.value is not None:
        return origin_of(select.value, origins)
    fields = zip(output_names(select), parts, strict=True)
    constructor = Object(fields=tuple(Field(name=name, value=value) for name, value in fields))
    return TracedValue(Origin.COMPUTED, constructor, origins)


def origin_of(node: Expression, origins: AliasOrigins) -> TracedValue:
    """The origin of the value of an expression."""
    if isinstance(node, Name):
        return origins.get(node.name, _DOCUMENT if node.name.upper() == ROOT else _COMPUTED)
    if isinstance(node, Object):
        return TracedValue(Origin.COMPUTED, node, origins)
    if not isinstance(node, Path):
        return _COMPUTED
    found = origin_of(node.base, origins)
    for step in node.steps:
        found = _below(found, step)
    return found


def _below(value: TracedValue, step: Expression) -> TracedValue:
    if value.kind is not Origin.COMPUTED:
        # A constant step stays below the same path. A computed one may lead anywhere.
        return value if isinstance(step, Literal | QueryParameter) else _COMPUTED
    if value.constructor is None or not isinstance(step, Literal):
        return _COMPUTED
    # Of several fields with one name the last counts, as in the object itself.
    held = [field.value for field in value.constructor.fields if field.name == step.value]
    return origin_of(held[-1], value.origins) if held else _COMPUTED
