"""Constraints on single columns that follow from a condition, and that the order of a key can use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from mayflydb.query.yql import texts
from mayflydb.query.yql.expression import Evaluate, Expression
from mayflydb.query.yql.functions.patterns import prefix_of
from mayflydb.query.yql.plans.binder import Binder
from mayflydb.query.yql.plans.membership import bind_collection
from mayflydb.query.yql.plans.names import ParameterValue
from mayflydb.query.yql.plans.operators import adapt_literal
from mayflydb.query.yql.plans.scopes import Slot
from mayflydb.query.yql.plans.values import are_integers, find_converter
from mayflydb.query.yql.schemas import Run
from mayflydb.query.yql.syntax import Between, Binary, In, Like, ListLiteral, Member, Name, TupleLiteral, Unary
from mayflydb.query.yql.syntax import Expression as Tree
from mayflydb.query.yql.types import (
    NULL,
    SIGNED,
    STRING,
    UTF8,
    DecimalType,
    DictType,
    ListType,
    Primitive,
    Type,
    Value,
    bare,
    is_optional,
)

OUTSIDE = object()
"""The converted form of a value that no value of the column equals."""

ToColumn = Callable[[Value], Value]
"""Converts a value to the equal value of a column's type, or to OUTSIDE."""


class Constraint(msgspec.Struct, frozen=True):
    """A constraint on a column. `kind` "eq": one value; "in": one of a list; "bound": on one side of a value, by `operator`.

    `text`: the value for EXPLAIN. `exact`: the constraint is the whole condition, so no filter is needed. `least` and
    `greatest`: the limits of an integer column. A bound beyond them either excludes nothing or everything.
    """

    column: str
    kind: Literal["eq", "in", "bound"]
    value: Evaluate
    to_column: ToColumn
    operator: str = "=="
    null: bool = False
    least: int | None = None
    greatest: int | None = None
    text: str = "NULL"
    exact: bool = True

    def values(self, run: Run) -> list[Value]:
        """The values that the column may have, converted to its type."""
        if self.null:
            return [None]
        found = self.value((), run)
        if found is None:
            return []
        converted = [self.to_column(each) for each in (found if self.kind == "in" else (found,)) if each is not None]
        return [each for each in converted if each is not OUTSIDE]

    def find_bound(self, run: Run) -> tuple[Value, bool, bool] | bool | None:
        """The bound as (value, True if the value itself is excluded, True if it is an upper bound).

        None: the bound excludes nothing but NULL, as every bound does. False: it excludes everything.
        """
        if self.null:
            return None
        value = self.value((), run)
        if value is None:
            return False
        upper = self.operator[0] == "<"
        # The value may be of a wider integer type than the column: `c < 2^40` excludes no Uint32, and `c > 2^40` all.
        if self.least is not None and self.greatest is not None and not self.least <= value <= self.greatest:
            return None if (value > self.greatest) is upper else False
        converted = self.to_column(value)
        # A String that is no UTF-8 has no place among Utf8 values: the condition is then checked row by row.
        return None if converted is OUTSIDE else (converted, len(self.operator) == 1, upper)


_MIRRORED = {"==": "==", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def constraints(binder: Binder, tree: Tree) -> list[Constraint]:
    """The constraints of a condition; [] if a key cannot use the condition."""
    found: list[Constraint | None]
    match tree:
        case Binary(_, operator, left, right) if operator in _MIRRORED:
            found = [
                _comparison_constraint(binder, left, operator, right)
                or _comparison_constraint(binder, right, _MIRRORED[operator], left)
            ]
        case Between(_, operand, low, high, False, False):
            found = [
                _comparison_constraint(binder, operand, ">=", low),
                _comparison_constraint(binder, operand, "<=", high),
            ]
        case In(_, _, _, False):
            found = [_in_constraint(binder, tree)]
        case Like(_, "LIKE", operand, pattern, None, False):
            return _prefix_constraints(binder, operand, pattern)
        case Unary(_, "IS NULL", operand) if (column := column_of(binder, operand)) is not None:
            found = [Constraint(column[0], "eq", lambda row, run: None, _identity, null=True)]
        case Unary(_, "NOT", operand) if (column := column_of(binder, operand)) is not None and str(
            column[1]
        ) == "Bool":
            found = [Constraint(column[0], "eq", lambda row, run: False, _identity)]
        case Name() | Member() if (column := column_of(binder, tree)) is not None and str(column[1]) == "Bool":
            found = [Constraint(column[0], "eq", lambda row, run: True, _identity)]
        case _:
            return []
    return [] if None in found else [each for each in found if each is not None]


def not_null_bounds(binder: Binder, tree: Tree) -> list[Constraint]:
    """The bound of `column IS NOT NULL`: behind NULL, the least value. It leaves most rows, so it chooses no index."""
    match tree:
        case Unary(_, "IS NOT NULL", operand) if (column := column_of(binder, operand)) is not None:
            return [Constraint(column[0], "bound", lambda row, run: None, _identity, ">", null=True)]
    return []


def _identity(value: Value) -> Value:
    return value


def column_of(binder: Binder, tree: Tree) -> tuple[str, Type] | None:
    """The column that `tree` names, and its type without NULL."""
    name, source = None, None
    if isinstance(tree, Name):
        name = tree.name
    elif isinstance(tree, Member) and isinstance(tree.of, Name) and tree.of.name in binder.scope.sources:
        name, source = str(tree.name), tree.of.name
    index = None if name is None else binder.scope.find(name, source)
    if name is None or index is None:
        return None
    return name, bare(binder.scope.fields[index].type)


def _comparison_constraint(binder: Binder, tree: Tree, operator: str, other: Tree) -> Constraint | None:
    column = column_of(binder, tree)
    if column is None or column_of(binder, other) is not None:
        return None
    value, invariant = binder.bind_invariant(other)
    if not invariant or value.type == NULL:
        return None
    name, type = column
    _, value = adapt_literal(Slot(type, value.evaluate, index=0), value)
    to_column = find_column_conversion(bare(value.type), type)
    if to_column is None:
        return None
    least, greatest = integer_limits(type) if are_integers(type, bare(value.type)) else (None, None)
    kind: Literal["eq", "bound"] = "eq" if operator == "==" else "bound"
    # Only that conversion may leave out a bound, so a filter must follow.
    exact = to_column is not _decode_utf8
    return Constraint(
        name,
        kind,
        value.evaluate,
        to_column,
        operator,
        least=least,
        greatest=greatest,
        text=_explain_text(value),
        exact=exact,
    )


def _prefix_constraints(binder: Binder, operand: Tree, pattern: Tree) -> list[Constraint]:
    """The bounds of `LIKE "abc%"`: from `abc` up to the first text behind all that begin with it."""
    column = column_of(binder, operand)
    if column is None or column[1] not in (STRING, UTF8):
        return []
    form = binder.expression(pattern)
    if not form.constant or bare(form.type) not in (STRING, UTF8) or form.value is None:
        return []
    begin, _ = prefix_of(form.value)
    low: str | bytes = begin
    if column[1] == UTF8:
        low = begin.decode("utf-8", "ignore")
    if not low or (isinstance(low, str) and low.encode() != begin):
        return []
    found = [_bound_constraint(column[0], ">=", low)]
    after = _successor(low)
    return found if after is None else [*found, _bound_constraint(column[0], "<", after)]


def _bound_constraint(name: str, operator: str, value: str | bytes) -> Constraint:
    text = value if isinstance(value, str) else value.decode(errors="replace")
    return Constraint(name, "bound", lambda row, run: value, _identity, operator, text=text, exact=False)


def _successor(low: str | bytes) -> str | bytes | None:
    """The first text behind all texts that begin with `low`; None if there is none."""
    if isinstance(low, bytes):
        return low[:-1] + bytes([low[-1] + 1]) if low[-1] < 0xFF else None
    # Behind U+D7FF come surrogates, which no UTF-8 has. The upper bound is left out there.
    code = ord(low[-1]) + 1
    return low[:-1] + chr(code) if code < 0xD800 else None


def _in_constraint(binder: Binder, condition: In) -> Constraint | None:
    """The constraint of `column IN ...`.

    None if the collection is not the same for all rows or its items cannot be converted to the column's type.
    """
    column = column_of(binder, condition.operand)
    if column is None:
        return None
    name, type = column
    if isinstance(condition.collection, (ListLiteral, TupleLiteral)):
        return _list_constraint(binder, name, type, condition.collection.items)
    values, invariant = bind_collection(binder, condition.collection)
    container = bare(values.type)
    if not invariant or not isinstance(container, (ListType, DictType)):
        return None
    item = container.item if isinstance(container, ListType) else container.key
    to_column = find_column_conversion(bare(item), type)
    return None if to_column is None else Constraint(name, "in", values.evaluate, to_column, text=_explain_text(values))


def _list_constraint(binder: Binder, name: str, type: Type, trees: tuple[Tree, ...]) -> Constraint | None:
    """The constraint of `IN (a, b)`, whose items may have different types."""
    pairs: list[tuple[Evaluate, ToColumn]] = []
    shown: list[str] = []
    for each in trees:
        value, invariant = binder.bind_invariant(each)
        # `x IN (1, NULL)` is true for 1 and never for NULL.
        if value.type == NULL:
            continue
        _, value = adapt_literal(Slot(type, value.evaluate, index=0), value)
        to_column = find_column_conversion(bare(value.type), type)
        if not invariant or to_column is None:
            return None
        pairs.append((value.evaluate, to_column))
        shown.append(_explain_text(value))

    def gather(row: tuple[Value, ...], run: Run) -> list[Value]:
        found = [(value((), run), to_column) for value, to_column in pairs]
        return [to_column(value) for value, to_column in found if value is not None]

    return Constraint(name, "in", gather, _identity, text=", ".join(shown))


def _explain_text(value: Expression) -> str:
    type = bare(value.type)
    if value.constant and isinstance(type, (Primitive, DecimalType)) and value.value is not None:
        return texts.to_text(type, value.value)
    return f"${value.parameter}" if isinstance(value, ParameterValue) else "expr"


def find_column_conversion(source: Type, column: Type) -> ToColumn | None:
    """Return the conversion of a value to the equal value of the column's type; None if there is no such conversion."""
    if source == column:
        return _identity
    if are_integers(source, column):
        least, greatest = integer_limits(column)
        return lambda value: value if least <= value <= greatest else OUTSIDE
    if source == STRING and column == UTF8:
        return _decode_utf8
    if is_optional(source):
        return None
    return find_converter(source, column)


def _decode_utf8(value: Value) -> Value:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return OUTSIDE


def integer_limits(type: Type) -> tuple[int, int]:
    """The limits of an integer type."""
    assert isinstance(type, Primitive)
    bits = int(type.name.removeprefix("U").removeprefix("Int").removeprefix("int"))
    if type in SIGNED:
        return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    return 0, 2**bits - 1
