"""What a WHERE clause says about the values at paths of the document, as spans of index keys.

Spans are a superset: a document outside of them cannot pass WHERE, one inside may still fail it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from mayflydb.query.cosmos_sql.index_keys import Span, beginning, beyond, common, joined, point
from mayflydb.query.cosmos_sql.keys import Document, KeyPath, constant, document_of, path_names
from mayflydb.query.cosmos_sql.scope import Parameters
from mayflydb.query.cosmos_sql.syntax import Between, Binary, Call, Expression, In, Logical, Path, Select
from mayflydb.query.cosmos_sql.values import UNDEFINED

Bounds: TypeAlias = Mapping[KeyPath, tuple[Span, ...]]
"""Path -> the only spans in which its keys can lie; a path that is not there can have any value."""

MOST_SPANS: Final = 1_000
"""More than these are not worth looking up one by one."""

_MIRRORED: Final = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def bounds_of(select: Select, parameters: Parameters) -> Bounds:
    """The spans that WHERE admits, by path."""
    document = document_of(select)
    if select.where is None or document is None:
        return {}
    found = _Reader(document, parameters).read(select.where)
    return {path: spans for path, spans in found.items() if len(spans) <= MOST_SPANS}


class _Reader:
    def __init__(self, document: Document, parameters: Parameters) -> None:
        self.document = document
        self.parameters = parameters

    def read(self, node: Expression) -> dict[KeyPath, tuple[Span, ...]]:
        """The spans for which `node` can be true."""
        if isinstance(node, Logical):
            parts = [self.read(operand) for operand in node.operands]
            return _both(parts) if node.operator == "AND" else _either(parts)
        if isinstance(node, Binary):
            return self._compared(node)
        if isinstance(node, In) and not node.negated:
            values = [self._constant(choice) for choice in node.choices]
            return (
                {}
                if None in values
                else self._found(node.operand, joined(span for spans in values for span in spans or ()))
            )
        if isinstance(node, Between) and not node.negated:
            low, high = self._side(node.low, ">="), self._side(node.high, "<=")
            return {} if low is None or high is None else self._found(node.operand, common(low, high))
        if isinstance(node, Call) and not node.udf:
            return self._called(node)
        return self._found(node, (point(True),)) if isinstance(node, Path) else {}

    def _found(self, node: Expression, spans: tuple[Span, ...]) -> dict[KeyPath, tuple[Span, ...]]:
        path = path_names(node, self.document)
        return {} if path is None else {path: spans}

    def _compared(self, node: Binary) -> dict[KeyPath, tuple[Span, ...]]:
        for one, operator, other in (
            (node.left, node.operator, node.right),
            (node.right, _MIRRORED.get(node.operator), node.left),
        ):
            if operator in _MIRRORED and path_names(one, self.document) is not None:
                spans = self._side(other, operator)
                if spans is not None:
                    return self._found(one, spans)
        return {}

    def _side(self, node: Expression, operator: str | None) -> tuple[Span, ...] | None:
        """The spans of what compares so with a constant; None if it is none, or could be anything."""
        if operator == "=":
            return self._constant(node)
        known, value = constant(node, self.parameters)
        if not known or type(value) in (list, dict):
            return None
        span = None if value is UNDEFINED else beyond(value, above=operator in (">", ">="))
        return () if span is None else (span,)

    def _constant(self, node: Expression) -> tuple[Span, ...] | None:
        """The span of what equals a constant; None if it is none, or one that keys do not tell apart."""
        known, value = constant(node, self.parameters)
        if not known or type(value) in (list, dict):
            return None
        return () if value is UNDEFINED else (point(value),)

    def _called(self, node: Call) -> dict[KeyPath, tuple[Span, ...]]:
        name, arguments = node.name.upper(), node.arguments
        if name == "IS_NULL" and len(arguments) == 1:
            return self._found(arguments[0], (point(None),))
        if name in ("STARTSWITH", "STRINGEQUALS") and len(arguments) == 2:
            known, text = constant(arguments[1], self.parameters)
            if known and type(text) is str:
                return self._found(arguments[0], (beginning(text) if name == "STARTSWITH" else point(text),))
        return {}


def _both(parts: Sequence[Bounds]) -> dict[KeyPath, tuple[Span, ...]]:
    merged: dict[KeyPath, tuple[Span, ...]] = {}
    for part in parts:
        for path, spans in part.items():
            merged[path] = common(merged[path], spans) if path in merged else spans
    return merged


def _either(parts: Sequence[Bounds]) -> dict[KeyPath, tuple[Span, ...]]:
    shared = set(parts[0]).intersection(*parts[1:])
    return {path: joined(span for part in parts for span in part[path]) for path in shared}
