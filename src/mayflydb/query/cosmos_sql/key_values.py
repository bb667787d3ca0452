"""Partition keys that a WHERE clause admits.

Sources: the ranges in the plans that the public test baselines of https://github.com/Azure/azure-cosmos-dotnet-v3 expect.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from math import copysign, prod
from typing import Final

from mayflydb.query.cosmos_sql.keys import DocumentAlias, KeyPath, document_of, path_names, resolve_constant
from mayflydb.query.cosmos_sql.like import plain_text
from mayflydb.query.cosmos_sql.scope import Parameters
from mayflydb.query.cosmos_sql.syntax import (
    Array,
    Binary,
    Expression,
    FunctionCall,
    In,
    Like,
    Literal,
    Logical,
    Object,
    Select,
    Unary,
)
from mayflydb.query.cosmos_sql.values import NUMBERS, UNDEFINED, Value, group_key

MAX_ALTERNATIVES: Final = 10_000
"""With more keys than this the query scans all partitions instead."""

_KEY_TYPES: Final = frozenset({str, int, float, bool, type(None)})


def find_key_values(select: Select, parameters: Parameters, paths: Sequence[KeyPath]) -> list[tuple[Value, ...]] | None:
    """Return the partition keys that WHERE admits, as tuples over the leading `paths` that WHERE fixes.

    The keys are a superset. None: WHERE does not even fix the first path, or admits more than `MAX_ALTERNATIVES` keys.
    """
    document = document_of(select)
    if select.where is None or document is None:
        return None
    finder = _KeyFinder(document, parameters)
    found: list[list[Value]] = []
    for path in paths:
        values = finder.find_values(select.where, path)
        # Values of a later path are of no use: a prefix of a key has no gap.
        if values is None:
            break
        found.append(values)
    if not found or prod(map(len, found)) > MAX_ALTERNATIVES:
        return None
    return list(product(*found))


class _KeyFinder:
    """Finds the values that a condition admits at a path of the document, as values of a key: UNDEFINED stands for a missing
    property, an array and an object.
    """

    def __init__(self, document: DocumentAlias, parameters: Parameters) -> None:
        self.document = document
        self.parameters = parameters

    def find_values(self, node: Expression, path: KeyPath) -> list[Value] | None:
        """Return a superset of the values that `path` has where `node` is true; None: any value."""
        match node:
            case Logical():
                return self._find_in_parts(node, path)
            case Binary(operator="="):
                return self._find_equal(node.left, node.right, path)
            case In(negated=False) if self._is_path(node.operand, path):
                return self._constants(node.choices)
            case Like(negated=False) if self._is_path(node.operand, path):
                return self._text_without_wildcards(node)
            case FunctionCall(udf=False):
                return self._find_by_call(node, path)
            case Unary(operator="NOT") if self._is_path(node.operand, path):
                return [False]
            case Literal() if node.value is not True:
                return []
            # A path alone is a condition that holds where its value is true.
            case _ if self._is_path(node, path):
                return [True]
        return None

    def _find_in_parts(self, node: Logical, path: KeyPath) -> list[Value] | None:
        parts = [self.find_values(operand, path) for operand in node.operands]
        known = [part for part in parts if part is not None]
        if node.operator == "AND":
            return _intersect(known) if known else None
        # An operand of OR that fixes no value admits every value.
        return _distinct([value for part in known for value in part]) if len(known) == len(parts) else None

    def _find_equal(self, left: Expression, right: Expression, path: KeyPath) -> list[Value] | None:
        for one, other in ((left, right), (right, left)):
            if self._is_path(one, path):
                return self._constants((other,))
            if self._is_call(one, "ABS", path):
                known, value = resolve_constant(other, self.parameters)
                return _distinct([value, -(value or 0.0)]) if known and type(value) in NUMBERS else None
        return None

    def _find_by_call(self, node: FunctionCall, path: KeyPath) -> list[Value] | None:
        if self._is_call(node, "IS_NULL", path):
            return [None]
        if self._is_call(node, "IS_BOOL", path):
            return [True, False]
        if (
            node.name.upper() != "ARRAY_CONTAINS"
            or len(node.arguments) < 2
            or not self._is_path(node.arguments[1], path)
        ):
            return None
        held = node.arguments[0]
        if isinstance(held, Array):
            return self._constants(held.items)
        known, values = resolve_constant(held, self.parameters)
        return self._constants([Literal(value=value) for value in values]) if known and type(values) is list else None

    def _text_without_wildcards(self, node: Like) -> list[Value] | None:
        known, pattern = resolve_constant(node.pattern, self.parameters)
        escape = None
        if node.escape is not None:
            is_constant, escape = resolve_constant(node.escape, self.parameters)
            known = known and is_constant and type(escape) is str
        text = plain_text(pattern, escape) if known and type(pattern) is str else None
        return None if text is None else [text]

    def _is_path(self, node: Expression, path: KeyPath) -> bool:
        return path_names(node, self.document) == path

    def _is_call(self, node: Expression, name: str, path: KeyPath) -> bool:
        """True for the call `name(path)`."""
        if not isinstance(node, FunctionCall) or node.udf or node.name.upper() != name:
            return False
        return len(node.arguments) == 1 and self._is_path(node.arguments[0], path)

    def _constants(self, nodes: Iterable[Expression]) -> list[Value] | None:
        """Return the keys of constants without undefined, which equals nothing; None if a node is no constant."""
        values: list[Value] = []
        for node in nodes:
            known, value = resolve_constant(node, self.parameters)
            if isinstance(node, Array | Object) or type(value) in (list, dict):
                values.append(UNDEFINED)
            elif not known or (value is not UNDEFINED and type(value) not in _KEY_TYPES):
                return None
            elif value is not UNDEFINED:
                values.append(value)
        return _distinct(values)


def _intersect(parts: Sequence[list[Value]]) -> list[Value]:
    first, *others = sorted(parts, key=len)
    shared = set(map(_identity, first)).intersection(*(map(_identity, other) for other in others))
    return [value for value in first if _identity(value) in shared]


def _distinct(values: list[Value]) -> list[Value]:
    return list({_identity(value): value for value in values}.values())


def _identity(value: Value) -> tuple[bytes, bool]:
    """0 and -0.0 are equal, and two keys."""
    return group_key(value), value == 0 and type(value) is float and copysign(1, value) < 0
