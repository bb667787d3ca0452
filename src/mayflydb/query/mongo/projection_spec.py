"""Projection documents, parsed to trees with one leaf for each field."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.filter import Filter, compile_element_filter
from mayflydb.query.mongo.operands import truncate_number
from mayflydb.query.mongo.paths import Parts, field_path
from mayflydb.query.mongo.text import compile_meta
from mayflydb.query.mongo.values import (
    INT32_MAX,
    INT32_MIN,
    MISSING,
    Document,
    Value,
    format_value,
    is_number,
    is_truthy,
    type_name,
)


class FieldFlag(msgspec.Struct, frozen=True):
    """A field that is included (`kept`) or excluded."""

    kept: bool


class ArraySlice(msgspec.Struct, frozen=True):
    """`$slice`: `count` elements from `skip`, which counts from the end if negative."""

    skip: int | None
    count: int

    def cut(self, array: list[Value]) -> list[Value]:
        """Return the selected elements of an array."""
        if self.skip is None:
            return array[: self.count] if self.count >= 0 else array[self.count :]
        start = self.skip if self.skip >= 0 else max(len(array) + self.skip, 0)
        return array[start : start + self.count]


class ElementMatch(msgspec.Struct, frozen=True):
    """`$elemMatch`: the first element of a field that satisfies a condition."""

    name: str
    test: Callable[[Value], bool]

    def value(self, document: Document) -> Value:
        """Return the matching element in an array; MISSING if there is none."""
        array = document.get(self.name)
        if type(array) is not list:
            return MISSING
        return next(([each] for each in array if self.test(each)), MISSING)


class ComputedField(msgspec.Struct, frozen=True):
    """A field computed from the whole document."""

    value: Callable[[Document], Value]


class PositionalField(msgspec.Struct, frozen=True):
    """`path.$`. The array is cut to the matched element when the rest of the projection is done."""


Leaf: TypeAlias = "FieldFlag | ArraySlice | ElementMatch | ComputedField | PositionalField | dict[str, Leaf]"
Tree: TypeAlias = "dict[str, Leaf]"


class ParsedProjection(msgspec.Struct, frozen=True):
    """A parsed projection: its tree, its kind, and the path of a positional `$`."""

    tree: Tree
    inclusion: bool
    positional: Parts | None


def parse_projection(
    spec: Document, env: Env, query: Filter | None, score: Callable[[Document], float] | None, find: bool
) -> ParsedProjection:
    """Parse a projection document. MqlError 31249 to 31395 with the server's texts."""
    parser = _Parser(env, query, score, find)
    for name, operand in spec.items():
        parser.parse_field(name, operand, parser.tree, ())
    return parser.finish()


class _Parser:
    """The state of parsing one projection. Elements seen so far restrict later ones and decide the kind of the projection."""

    def __init__(self, env: Env, query: Filter | None, score: Callable[[Document], float] | None, find: bool) -> None:
        self.env, self.query, self.score, self.find = env, query, score, find
        self.tree: Tree = {}
        self.inclusion: bool | None = None
        self.positional: Parts | None = None
        self.id: bool | None = None
        self.sliced = self.matched = self.meta = False
        self.names_id = False

    def finish(self) -> ParsedProjection:
        """Return the parsed projection, with `_id` in its place."""
        inclusion = self._is_inclusion() if self.inclusion is None else self.inclusion
        if inclusion and not self.names_id:
            self.tree = {"_id": FieldFlag(True), **self.tree}
        # In an exclusion, `_id: 1` says nothing.
        if not inclusion and self.id:
            del self.tree["_id"]
        return ParsedProjection(self.tree, inclusion, self.positional)

    def _is_inclusion(self) -> bool:
        """Return whether a projection without included and excluded fields is an inclusion: it names `_id` and operators only."""
        if self.sliced:
            return self.id is True
        if self.matched:
            return True
        if self.meta and not self.find:
            return True
        return self.id is True

    def parse_field(self, name: str, operand: Value, tree: Tree, parent: Parts) -> None:
        """Parse one field of the projection, or of a document within it."""
        self.names_id |= not parent and (name == "_id" or name.startswith("_id."))
        positional = name == "$" or name.endswith(".$") or ".$." in name
        if positional and not self.find:
            raise MqlError(31324, "Cannot use positional projection in aggregation projection")
        if type(operand) is dict:
            if positional:
                raise MqlError(31271, "positional projection cannot be used with an expression or sub object")
            self._add_object(name, operand, tree, parent)
        elif type(operand) is bool or is_number(operand):
            self._add_flag(name, is_truthy(operand), positional, tree, parent)
        else:
            if positional:
                raise MqlError(31308, "positional projection cannot be used with a literal")
            self._add_expression(name, operand, tree)

    def _add_flag(self, name: str, included: bool, positional: bool, tree: Tree, parent: Parts) -> None:
        if positional:
            if not included:
                raise MqlError(31395, "positional projection cannot be used with exclusion")
            self._add_positional(name, tree, parent)
        else:
            _add_leaf(tree, field_path(name), FieldFlag(included))
        # `_id` may be excluded from an inclusion and the reverse, so it does not decide the kind.
        if name == "_id" and not parent:
            self.id = included
            return
        if self.inclusion is not None and self.inclusion != included:
            path = ".".join((*parent, name))
            if included:
                raise MqlError(31253, f"Cannot do inclusion on field {path} in exclusion projection")
            raise MqlError(31254, f"Cannot do exclusion on field {path} in inclusion projection")
        self.inclusion = included

    def _add_positional(self, name: str, tree: Tree, parent: Parts) -> None:
        if self.positional is not None:
            raise MqlError(31276, "Cannot specify more than one positional projection per query.")
        if self.matched:
            raise MqlError(31256, "Cannot specify positional operator and $elemMatch.")
        if self.query is None:
            raise MqlError(51050, "Projections with a positional operator require a matcher")
        head = parent[0] if parent else name.partition(".")[0]
        if head not in self.query.named:
            raise MqlError(31277, f"Positional projection '{name}' does not match the query document.")
        before, _, after = name.partition(".$")
        if name.endswith(".$."):
            raise MqlError(31270, "Path cannot end with '.$.'")
        if "$" in after.split("."):
            raise MqlError(31287, f"Cannot use positional operator twice: {name}")
        parts = field_path(before)
        _add_leaf(tree, parts, PositionalField())
        self.positional = (*parent, *parts)

    def _add_object(self, name: str, operand: Document, tree: Tree, parent: Parts) -> None:
        if not operand:
            raise MqlError(51270, "An empty sub-projection is not a valid value. Found empty object at path")
        first = next(iter(operand))
        parts = field_path(name)
        if len(operand) == 1 and first.startswith("$"):
            self._add_operator(first, name, parts, operand, tree, parent)
            return
        inner: Tree = {}
        _add_leaf(tree, parts, inner)
        for each, value in operand.items():
            self.parse_field(each, value, inner, (*parent, *parts))

    def _add_operator(self, first: str, name: str, parts: Parts, operand: Document, tree: Tree, parent: Parts) -> None:
        argument = operand[first]
        if first == "$elemMatch":
            self._add_elem_match(parts, argument, tree, parent)
        elif first == "$meta":
            _add_leaf(tree, parts, ComputedField(compile_meta(argument, self.score)))
            self.meta = True
        elif first == "$slice" and self.find and not _is_expression_slice(argument):
            _add_leaf(tree, parts, _parse_slice(argument))
            self.sliced = True
        elif self.inclusion is False:
            raise MqlError(31252, "Cannot use expression other than $meta in exclusion projection")
        else:
            self._add_expression(name, operand, tree)

    def _add_elem_match(self, parts: Parts, argument: Value, tree: Tree, parent: Parts) -> None:
        if not self.find:
            raise MqlError(168, "Cannot use $elemMatch in this context")
        if type(argument) is not dict:
            raise MqlError(31274, f"elemMatch: Invalid argument, object required, but got {type_name(argument)}")
        if self.positional is not None:
            raise MqlError(31255, "Cannot specify positional operator and $elemMatch.")
        if len(parts) > 1 or parent:
            raise MqlError(31275, "Cannot use $elemMatch projection on a nested field.")
        _add_leaf(tree, parts, ElementMatch(parts[0], compile_element_filter(argument, self.env)))
        self.matched = True

    def _add_expression(self, name: str, operand: Value, tree: Tree) -> None:
        if self.inclusion is False:
            raise MqlError(
                31310, f"Cannot use an expression {name}: {format_value(operand)} in an exclusion projection"
            )
        _add_leaf(tree, field_path(name), ComputedField(compile_computed_field(operand, self.env)))
        self.inclusion = True


def compile_computed_field(operand: Value, env: Env) -> Callable[[Document], Value]:
    """Compile an expression to a function of documents. MqlError 31325 for an unknown operator."""
    # Imported here because expressions import filters.
    from mayflydb.query.mongo.expressions import compile_expression, frame_of

    try:
        expression = compile_expression(operand, env, tuple(env.variables))
    except MqlError as refusal:
        first = next(iter(operand)) if type(operand) is dict else None
        if refusal.code == 168 and first is not None and f"'{first}'" in str(refusal):
            raise MqlError(31325, f"Unknown expression {first}") from None
        raise
    return lambda document: expression(frame_of(document, env))


def _add_leaf(tree: Tree, parts: Parts, leaf: Leaf) -> None:
    """Add a leaf at a path. MqlError 31249 or 31250 if the path collides with another one."""
    path = ".".join(parts)
    for at, part in enumerate(parts[:-1]):
        inner = tree.setdefault(part, {})
        if not isinstance(inner, dict):
            raise MqlError(31249, f"Path collision at {path} remaining portion {'.'.join(parts[at + 1 :])}")
        tree = inner
    if parts[-1] in tree:
        raise MqlError(31250, f"Path collision at {path}")
    tree[parts[-1]] = leaf


# --- $slice ----------------------------------------------------------------------------------------------------------


def _is_expression_slice(argument: Value) -> bool:
    """Return whether `$slice` has the arguments of the expression, whose first argument is an array."""
    return type(argument) is list and (len(argument) == 3 or (len(argument) == 2 and not is_number(argument[0])))


def _parse_slice(argument: Value) -> Leaf:
    """Return the slice of an array; null for a limit that is null."""
    if is_number(argument):
        return ArraySlice(None, _clamp_to_int32(argument))
    if type(argument) is not list:
        raise MqlError(28667, "$slice only supports numbers and [skip, limit] arrays")
    if len(argument) != 2:
        raise MqlError(28667, "$slice array argument should be of form [skip, limit]")
    skip, limit = argument
    if limit is None:
        return ComputedField(lambda document: None)
    if not is_number(limit):
        raise MqlError(28724, f"$slice expects the limit argument to be a number, got {type_name(limit)}")
    if _clamp_to_int32(limit) <= 0:
        raise MqlError(28724, f"$slice limit must be positive, got {_clamp_to_int32(limit)}")
    return ArraySlice(_clamp_to_int32(skip), _clamp_to_int32(limit))


def _clamp_to_int32(value: Any) -> int:
    number = truncate_number(value)
    if number is None:
        number = INT32_MAX if value == float("inf") else (INT32_MIN if value == float("-inf") else 0)
    return max(INT32_MIN, min(INT32_MAX, number))
