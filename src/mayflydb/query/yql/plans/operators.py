"""Binding of operators: arithmetic, comparison, three-valued logic, CASE, casts."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import reduce

from mayflydb.query.yql import arithmetic, comparison, conversions, moments
from mayflydb.query.yql.expression import Expression
from mayflydb.query.yql.faults import Position, fault, type_fault
from mayflydb.query.yql.plans.binder import HANDLERS, Binder
from mayflydb.query.yql.plans.type_names import bind_type
from mayflydb.query.yql.plans.values import (
    are_integers,
    bind_condition,
    constant,
    convert,
    derive,
    require_common_type,
    strict_binary,
    strict_unary,
)
from mayflydb.query.yql.schemas import Row, Run
from mayflydb.query.yql.syntax import Between, Binary, Case, Cast, Literal_, Unary
from mayflydb.query.yql.syntax import Expression as Tree
from mayflydb.query.yql.types import (
    BOOL,
    DATE,
    DATETIME,
    DOUBLE,
    INT32,
    INT64,
    INTEGERS,
    INTERVAL,
    NULL,
    STRING,
    TIMESTAMP,
    UNSIGNED,
    UTF8,
    UUID,
    OptionalType,
    TupleType,
    Type,
    Value,
    bare,
    format_long,
    is_optional,
    optional,
)

Comparison = Callable[[Value, Value], bool]

_DIRECT: dict[str, Comparison] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_PLAIN = frozenset((*INTEGERS, STRING, UTF8, BOOL, DATE, DATETIME, TIMESTAMP, INTERVAL, UUID))
"""Types whose Python values compare as in YQL."""


def bind_unary(binder: Binder, tree: Unary) -> Expression:
    operand, word = binder.expression(tree.operand), tree.operator
    inner = operand.evaluate
    if word == "IS NULL":
        return derive(BOOL, lambda row, run: inner(row, run) is None, operand)
    if word == "IS NOT NULL":
        return derive(BOOL, lambda row, run: inner(row, run) is not None, operand)
    if operand.type == NULL:
        return operand
    if word == "NOT":
        bind_condition(operand, "Not", tree.at)
        return strict_unary(BOOL, operator.not_, operand)
    found = arithmetic.find_unary(word, bare(operand.type))
    if found is None:
        raise type_fault(word, arithmetic.refusal_message(word, operand.type), tree.at)
    type, function = found
    result = strict_unary(type, function, operand)
    if operand.literal and word in "+-" and operand.value is not None:
        # A literal with a sign is still a literal, and may take another type that holds its value.
        value = -operand.value if word == "-" else operand.value
        if word == "-" and isinstance(tree.operand, Literal_) and tree.operand.kind == "integer":
            return _bind_negative_literal(tree.operand, value, type, tree.at)
        return Expression(result.type, result.evaluate, constant=True, literal=True, value=value)
    return result


def _bind_negative_literal(of: Literal_, value: int, type: Type, at: Position) -> Expression:
    """Bind a minus before a literal; without a suffix the first type that holds the negative number."""
    if not of.suffix:
        if value < -(2**63):
            raise fault(f"Failed to parse negative integer: {value}, number limit overflow", at)
        type = INT32 if value >= -(2**31) else INT64
    elif type in UNSIGNED:
        # The bits of the negative number: `-1u` is 2^32 - 1.
        value %= 1 << int(str(type).removeprefix("Uint"))
    return Expression(type, lambda row, run: value, constant=True, literal=True, value=value)


def bind_binary(binder: Binder, tree: Binary) -> Expression:
    """Bind an operator. A long chain `a + b + c` is a loop, since its tree leans to the left."""
    if tree.operator in ("AND", "OR"):
        return _bind_logic_chain(binder, tree)
    # Where trees are bound already (GROUP BY a + b), each step of the chain must be looked up, so there is no loop.
    chain = [tree]
    while isinstance(chain[-1].left, Binary) and not (chain[-1].left.operator in ("AND", "OR") or binder.bound_trees):
        chain.append(chain[-1].left)
    result = binder.expression(chain[-1].left)
    for each in reversed(chain):
        right = binder.expression(each.right)
        if each.operator == "/" and not binder.context.classic_division:
            result, right = _to_double(result), _to_double(right)
        result = bind_operator(each.operator, result, right, each.at)
    return result


def _to_double(operand: Expression) -> Expression:
    """Convert an integer to Double, for a division without ClassicDivision."""
    return strict_unary(DOUBLE, float, operand) if bare(operand.type) in INTEGERS else operand


def bind_operator(word: str, left: Expression, right: Expression, at: Position) -> Expression:
    """Bind `left word right`. Faults: types without this operator."""
    if word == "??":
        return bind_coalesce([left, right], at)
    if word in _DIRECT:
        return bind_comparison(word, left, right, at)
    if word in ("IS DISTINCT FROM", "IS NOT DISTINCT FROM"):
        return _bind_distinct(word == "IS DISTINCT FROM", left, right, at)
    if NULL in (left.type, right.type):
        return constant(NULL, None)
    if word == "XOR":
        bind_condition(left, "Xor", at), bind_condition(right, "Xor", at)
        return strict_binary(BOOL, operator.ne, left, right)
    if word == "||":
        left, right = adapt_literal(left, right)
    found = arithmetic.find_binary(word, bare(left.type), bare(right.type))
    if found is None and {bare(left.type), bare(right.type)} & {*INTEGERS, STRING}:
        # A literal takes the other side's type, unless that is a date or time: `ts - 5` is no difference of two of
        # these.
        first, second = adapt_literal(left, right)
        if bare(first.type) not in moments.MOMENTS and bare(first.type) not in moments.INTERVALS:
            left, right = first, second
            found = arithmetic.find_binary(word, bare(left.type), bare(right.type))
    if found is None:
        raise type_fault(word, arithmetic.refusal_message(word, left.type, right.type), at)
    type, function = found
    return strict_binary(type, function, left, right)


def adapt_literal(left: Expression, right: Expression) -> tuple[Expression, Expression]:
    """Convert a literal on one side to the type of the other side, if that type can hold its value.

    Two integers stay as they are: they compare by value.
    """
    first, second = bare(left.type), bare(right.type)
    if first == second or are_integers(first, second):
        return left, right
    if right.literal and not left.literal and right.value is not None:
        return left, convert(right, first) or right
    if left.literal and not right.literal and left.value is not None:
        return convert(left, second) or left, right
    return left, right


# --- comparison ------------------------------------------------------------------------------------------------------


def find_comparison(word: str, left: Type, right: Type) -> comparison.Equal | None:
    """Return the function that compares two values that are not NULL; None if the types do not compare.

    The function returns None for NULL, where a NULL inside of a value decides.
    """
    if are_integers(left, right) or (left == right and left in _PLAIN):
        return _DIRECT[word]
    return comparison.find_relation(word, left, right)


def bind_comparison(word: str, left: Expression, right: Expression, at: Position) -> Expression:
    if NULL in (left.type, right.type):
        return constant(OptionalType(BOOL), None)
    left, right = adapt_literal(left, right)
    first, second = bare(left.type), bare(right.type)
    if isinstance(first, TupleType) and isinstance(second, TupleType) and len(first.items) == len(second.items):
        return _bind_tuple_comparison(word, left, right, at)
    found = find_comparison(word, first, second)
    if found is None:
        raise type_fault(word, comparison.refusal_message(word, left.type, right.type), at)
    exact = comparison.has_no_null(first) and comparison.has_no_null(second)
    return strict_binary(BOOL if exact else OptionalType(BOOL), found, left, right)


def _bind_tuple_comparison(word: str, left: Expression, right: Expression, at: Position) -> Expression:
    """Compare tuples item by item, with AND and OR of the items' comparisons."""
    first, second = bare(left.type), bare(right.type)
    assert isinstance(first, TupleType)
    assert isinstance(second, TupleType)
    if not first.items:
        return constant(BOOL, word in ("==", "<=", ">="))
    items = enumerate(zip(first.items, second.items, strict=True))
    pairs = [(_tuple_item(left, i, a), _tuple_item(right, i, b)) for i, (a, b) in items]
    if word in ("==", "!="):
        joined = [bind_comparison(word, a, b, at) for a, b in pairs]
        return reduce(lambda a, b: bind_logic(word == "==", a, b), joined)
    result = bind_comparison(word, *pairs[-1], at)
    # (a, b) <= (c, d) is a < c OR a == c AND b <= d. All pairs but the last compare strictly, by the operator's first
    # sign.
    for a, b in reversed(pairs[:-1]):
        tied = bind_logic(True, bind_comparison("==", a, b, at), result)
        result = bind_logic(False, bind_comparison(word[0], a, b, at), tied)
    return result


def _tuple_item(of: Expression, index: int, type: Type) -> Expression:
    return strict_unary(type, lambda value: value[index], of)


def _bind_distinct(distinct: bool, left: Expression, right: Expression, at: Position) -> Expression:
    """Bind IS [NOT] DISTINCT FROM: like `!=` and `==`, but NULL is a value and equals itself."""
    equal = bind_comparison("==", left, right, at).evaluate
    first, second = left.evaluate, right.evaluate

    def evaluate(row: Row, run: Run) -> Value:
        same = equal(row, run)
        # `==` is NULL if a side is NULL: then the two are the same only if both are.
        if same is None:
            same = first(row, run) is None and second(row, run) is None
        return same is not distinct

    return derive(BOOL, evaluate, left, right)


def bind_between(binder: Binder, tree: Between) -> Expression:
    operand, low, high = (binder.expression(each) for each in (tree.operand, tree.low, tree.high))
    inside = _between_bounds(operand, low, high, tree.at)
    if tree.symmetric:
        inside = bind_logic(False, inside, _between_bounds(operand, high, low, tree.at))
    return strict_unary(BOOL, operator.not_, inside) if tree.negated else inside


def _between_bounds(operand: Expression, low: Expression, high: Expression, at: Position) -> Expression:
    return bind_logic(True, bind_comparison(">=", operand, low, at), bind_comparison("<=", operand, high, at))


# --- logic -----------------------------------------------------------------------------------------------------------


def _bind_logic_chain(binder: Binder, tree: Binary) -> Expression:
    """Bind AND or OR. A long chain of one operator is one loop, not a nest of calls."""
    word, trees = tree.operator, []
    node: Tree = tree
    while isinstance(node, Binary) and node.operator == word:
        trees.append(node.right)
        node = node.left
    operands = [binder.expression(each) for each in (node, *reversed(trees))]
    for each in operands:
        bind_condition(each, word.capitalize(), tree.at)
    return bind_logic(word == "AND", *operands)


def bind_logic(conjunction: bool, *operands: Expression) -> Expression:
    """AND (or OR) of operands: False (True) wins, then NULL."""
    values, decisive = tuple(each.evaluate for each in operands), not conjunction
    nullable = any(is_optional(each.type) for each in operands)

    def evaluate(row: Row, run: Run) -> Value:
        result: bool | None = conjunction
        for each in values:
            value = each(row, run)
            # FALSE AND NULL is FALSE, and TRUE OR NULL is TRUE: one operand may decide behind a NULL.
            if value is decisive:
                return decisive
            if value is None:
                result = None
        return result

    return derive(optional(BOOL) if nullable else BOOL, evaluate, *operands)


# --- choice ----------------------------------------------------------------------------------------------------------


def bind_coalesce(operands: list[Expression], at: Position) -> Expression:
    """The first operand that is not NULL. The type is not Optional if one operand's is not."""
    # A bare NULL is never the result, and would make the common type Optional.
    given = [each for each in operands if each.type != NULL] or operands[:1]
    loose = [each.type for each in given]
    if len(given) == 1:
        return given[0]
    if all(type == loose[0] for type in loose):
        type, items = loose[0], given
    else:
        type, items = require_common_type(given, "Coalesce", at)
    if any(not is_optional(each) for each in loose):
        type = bare(type)
    values = tuple(each.evaluate for each in items)

    def evaluate(row: Row, run: Run) -> Value:
        for each in values:
            value = each(row, run)
            if value is not None:
                return value
        return None

    return derive(type, evaluate, *items)


def bind_case(binder: Binder, tree: Case) -> Expression:
    subject = None if tree.operand is None else binder.expression(tree.operand)
    tests = []
    for when, _ in tree.branches:
        test = binder.expression(when)
        if subject is not None:
            test = bind_comparison("==", subject, test, tree.at)
        bind_condition(test, "If", tree.at)
        tests.append(test)
    otherwise = constant(NULL, None) if tree.otherwise is None else binder.expression(tree.otherwise)
    type, results = require_common_type(
        [*(binder.expression(then) for _, then in tree.branches), otherwise], "If", tree.at
    )
    pairs = tuple((test.evaluate, result.evaluate) for test, result in zip(tests, results, strict=False))
    last = results[-1].evaluate

    def evaluate(row: Row, run: Run) -> Value:
        for test, result in pairs:
            # A condition that is NULL does not hold.
            if test(row, run):
                return result(row, run)
        return last(row, run)

    return derive(type, evaluate, *tests, *results)


def bind_cast(binder: Binder, tree: Cast) -> Expression:
    to, operand = bind_type(binder, tree.to), binder.expression(tree.operand)
    if operand.type == NULL:
        return constant(optional(to), None)
    found = (conversions.resolve_bitcast if tree.bitwise else conversions.resolve_cast)(operand.type, to)
    if found is None:
        raise type_fault("SafeCast", f"Cannot cast type {format_long(operand.type)} into {format_long(to)}", tree.at)
    type, function = found
    inner = operand.evaluate
    return derive(type, lambda row, run: function(inner(row, run)), operand)


HANDLERS.update({Unary: bind_unary, Binary: bind_binary, Between: bind_between, Case: bind_case, Cast: bind_cast})
