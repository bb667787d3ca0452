"""Bounds of a WHERE clause: for paths of the document, the spans of index keys in which its matches lie.

Spans are a superset: a document outside of the spans cannot pass WHERE, a document inside may still fail it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from mayflydb.query.cosmos_sql.index_keys import (
    Span,
    intersect_spans,
    merge_spans,
    point_span,
    prefix_span,
    span_beyond,
)
from mayflydb.query.cosmos_sql.keys import DocumentAlias, KeyPath, document_of, path_names, resolve_constant
from mayflydb.query.cosmos_sql.scope import Parameters
from mayflydb.query.cosmos_sql.syntax import Between, Binary, Expression, FunctionCall, In, Logical, Path, Select
from mayflydb.query.cosmos_sql.values import UNDEFINED

Bounds: TypeAlias = Mapping[KeyPath, tuple[Span, ...]]
"""Path -> the only spans in which its keys can lie. A path that is missing is not bounded."""

MAX_SPANS: Final = 1_000
"""A path with more spans than this is not bounded: so many lookups cost more than a scan."""

_MIRRORED: Final = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def bounds_of(select: Select, parameters: Parameters) -> Bounds:
    """Return the spans that WHERE admits, by path."""
    document = document_of(select)
    if select.where is None or document is None:
        return {}
    found = _SpanFinder(document, parameters).find_spans(select.where)
    return {path: spans for path, spans in found.items() if len(spans) <= MAX_SPANS}


class _SpanFinder:
    def __init__(self, document: DocumentAlias, parameters: Parameters) -> None:
        self.document = document
        self.parameters = parameters

    def find_spans(self, node: Expression) -> dict[KeyPath, tuple[Span, ...]]:
        """Return the spans for which `node` can be true."""
        if isinstance(node, Logical):
            parts = [self.find_spans(operand) for operand in node.operands]
            return _intersect(parts) if node.operator == "AND" else _unite(parts)
        if isinstance(node, Binary):
            return self._comparison_spans(node)
        if isinstance(node, In) and not node.negated:
            values = [self._equality_spans(choice) for choice in node.choices]
            return (
                {}
                if None in values
                else self._spans_at(node.operand, merge_spans(span for spans in values for span in spans or ()))
            )
        if isinstance(node, Between) and not node.negated:
            low, high = self._range_spans(node.low, ">="), self._range_spans(node.high, "<=")
            return {} if low is None or high is None else self._spans_at(node.operand, intersect_spans(low, high))
        if isinstance(node, FunctionCall) and not node.udf:
            return self._call_spans(node)
        # A path alone is a condition that holds where its value is true.
        return self._spans_at(node, (point_span(True),)) if isinstance(node, Path) else {}

    def _spans_at(self, node: Expression, spans: tuple[Span, ...]) -> dict[KeyPath, tuple[Span, ...]]:
        path = path_names(node, self.document)
        return {} if path is None else {path: spans}

    def _comparison_spans(self, node: Binary) -> dict[KeyPath, tuple[Span, ...]]:
        # `5 < c.n` bounds c.n as `c.n > 5` does.
        for one, operator, other in (
            (node.left, node.operator, node.right),
            (node.right, _MIRRORED.get(node.operator), node.left),
        ):
            if operator in _MIRRORED and path_names(one, self.document) is not None:
                spans = self._range_spans(other, operator)
                if spans is not None:
                    return self._spans_at(one, spans)
        return {}

    def _range_spans(self, node: Expression, operator: str | None) -> tuple[Span, ...] | None:
        """Return the spans of the values that compare so with `node`; None if `node` is no constant or cannot bound them."""
        if operator == "=":
            return self._equality_spans(node)
        known, value = resolve_constant(node, self.parameters)
        if not known or type(value) in (list, dict):
            return None
        # Nothing compares with undefined. `>` has the span of `>=`, since long strings share a key with their
        # neighbours.
        span = None if value is UNDEFINED else span_beyond(value, above=operator in (">", ">="))
        return () if span is None else (span,)

    def _equality_spans(self, node: Expression) -> tuple[Span, ...] | None:
        """Return the span of the values that equal `node`; None if `node` is no constant, or an array or object."""
        known, value = resolve_constant(node, self.parameters)
        # All arrays share a key, and so do all objects: such a span would narrow little.
        if not known or type(value) in (list, dict):
            return None
        return () if value is UNDEFINED else (point_span(value),)

    def _call_spans(self, node: FunctionCall) -> dict[KeyPath, tuple[Span, ...]]:
        name, arguments = node.name.upper(), node.arguments
        if name == "IS_NULL" and len(arguments) == 1:
            return self._spans_at(arguments[0], (point_span(None),))
        if name in ("STARTSWITH", "STRINGEQUALS") and len(arguments) == 2:
            known, text = resolve_constant(arguments[1], self.parameters)
            if known and type(text) is str:
                return self._spans_at(arguments[0], (prefix_span(text) if name == "STARTSWITH" else point_span(text),))
        return {}


def _intersect(parts: Sequence[Bounds]) -> dict[KeyPath, tuple[Span, ...]]:
    merged: dict[KeyPath, tuple[Span, ...]] = {}
    for part in parts:
        for path, spans in part.items():
            merged[path] = intersect_spans(merged[path], spans) if path in merged else spans
    return merged


def _unite(parts: Sequence[Bounds]) -> dict[KeyPath, tuple[Span, ...]]:
    # A path that one operand of OR leaves open may have any value there.
    shared = set(parts[0]).intersection(*parts[1:])
    return {path: merge_spans(span for part in parts for span in part[path]) for path in shared}
