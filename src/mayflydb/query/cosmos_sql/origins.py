"""Where the values of a query come from: a path of the document, elements of its arrays, or a computation."""

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
    Literal,
    Name,
    Object,
    Parameter,
    Path,
    Select,
    Source,
    Subquery,
    output_name,
    output_names,
)


class Origin(Enum):
    """Of a value: a path of the document, a path below elements that a JOIN takes out of it, or neither."""

    PATH = "path"
    ELEMENTS = "elements"
    COMPUTED = "computed"


class Traced(msgspec.Struct, frozen=True):
    """The origin of a value. `made`: the object constructor that makes it, whose names mean what `known` says."""

    kind: Origin
    made: Object | None = None
    known: Known = MappingProxyType({})


Known: TypeAlias = Mapping[str, Traced]
"""The origins of aliases."""

CONTAINER: Final[Known] = MappingProxyType({})
"""Outside of the outermost SELECT: ROOT, and the first name of FROM, is the document."""

_DOCUMENT: Final = Traced(Origin.PATH)
_COMPUTED: Final = Traced(Origin.COMPUTED)


def origins_of(sources: tuple[Source, ...], outer: Known, *, inside: bool = False) -> Known:
    """The origins of all aliases that these sources and `outer` give. `inside`: the first source is no container."""
    known = dict(outer)
    for place, source in enumerate(sources):
        head = place == 0 and not inside
        alias = source.alias if source.alias is not None else output_name(source.expression)
        if alias is not None:
            known[alias] = _source_origin(source, known, head=head)
    return known


def _source_origin(source: Source, known: Known, *, head: bool) -> Traced:
    node = source.expression
    if isinstance(node, Subquery):
        found = _selected(node.select, known, head=head)
    elif head:
        return _DOCUMENT
    else:
        found = origin_of(node, known)
    if not source.unnest:
        return found
    return _COMPUTED if found.kind is Origin.COMPUTED else Traced(Origin.ELEMENTS)


def _selected(select: Select, outer: Known, *, head: bool) -> Traced:
    """The origin of the rows of a subquery."""
    known = origins_of(select.sources, outer, inside=not head)
    parts = [select.value] if select.value is not None else [item.expression for item in select.items]
    if select.group_by or any(map(find_aggregate, parts)):
        return _COMPUTED
    if select.star:
        source = select.sources[0]
        alias = source.alias if source.alias is not None else output_name(source.expression)
        return known.get(alias, _DOCUMENT) if alias is not None else _COMPUTED
    if select.value is not None:
        return origin_of(select.value, known)
    fields = zip(output_names(select), parts, strict=True)
    made = Object(fields=tuple(Field(name=name, value=value) for name, value in fields))
    return Traced(Origin.COMPUTED, made, known)


def origin_of(node: Expression, known: Known) -> Traced:
    """The origin of the value of an expression."""
    if isinstance(node, Name):
        return known.get(node.name, _DOCUMENT if node.name.upper() == ROOT else _COMPUTED)
    if isinstance(node, Object):
        return Traced(Origin.COMPUTED, node, known)
    if not isinstance(node, Path):
        return _COMPUTED
    found = origin_of(node.base, known)
    for step in node.steps:
        found = _below(found, step)
    return found


def _below(value: Traced, step: Expression) -> Traced:
    if value.kind is not Origin.COMPUTED:
        return value if isinstance(step, Literal | Parameter) else _COMPUTED
    if value.made is None or not isinstance(step, Literal):
        return _COMPUTED
    held = [field.value for field in value.made.fields if field.name == step.value]
    return origin_of(held[-1], value.known) if held else _COMPUTED
