"""Operators as closures: a function takes the closures of the operands and returns a closure that evaluates a frame."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from mayflydb.query.cosmos_sql.like import compile_like
from mayflydb.query.cosmos_sql.numbers import ARITHMETIC, negate, to_int32
from mayflydb.query.cosmos_sql.values import NUMBERS, UNDEFINED, Value, group_key, is_comparable, is_same
from mayflydb.query.wildcards import Matcher

Frame: TypeAlias = list[Any]
"""The row under evaluation: the context, the document, then one slot for each alias and each intermediate value."""

Evaluate: TypeAlias = Callable[[Frame], Value]


class Constant:
    """The closure of a value that is known at compile time."""

    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        self.value = value

    def __call__(self, frame: Frame) -> Value:
        return self.value


# Comparison.

_Test: TypeAlias = Callable[[Any, Any], bool]
_ORDERINGS: Final[dict[str, _Test]] = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_MIRRORED: Final = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
COMPARISONS: Final = frozenset(_MIRRORED)


def comparison(symbol: str, left: Evaluate, right: Evaluate) -> Evaluate:
    """`left symbol right`: true, false or undefined."""
    if isinstance(left, Constant) and not isinstance(right, Constant):
        # With the constant on the right, the cases below need to be written once.
        left, right, symbol = right, left, _MIRRORED[symbol]
    if symbol in _ORDERINGS:
        if isinstance(right, Constant) and type(right.value) in NUMBERS:
            return _number_ordering(symbol, left, right.value)
        return _ordering(_ORDERINGS[symbol], left, right)
    wanted = symbol == "="
    if isinstance(right, Constant):
        return _equality_with(left, right.value, wanted)

    def equal(frame: Frame) -> Value:
        one, other = left(frame), right(frame)
        if one is UNDEFINED or other is UNDEFINED:
            return UNDEFINED
        return is_same(one, other) is wanted

    return equal


def _equality_with(left: Evaluate, held: Value, wanted: bool) -> Evaluate:
    if type(held) is str and wanted:
        # In Python too, a string equals only strings.
        def equals_text(frame: Frame) -> Value:
            value = left(frame)
            return value == held if value is not UNDEFINED else UNDEFINED

        return equals_text
    if held is UNDEFINED:
        return Constant(UNDEFINED)

    def equals(frame: Frame) -> Value:
        value = left(frame)
        return is_same(value, held) is wanted if value is not UNDEFINED else UNDEFINED

    return equals


def _number_ordering(symbol: str, left: Evaluate, held: float) -> Evaluate:
    """Compare with a constant number.

    The four closures are written out: a call of `operator.lt` takes as long as the rest of a closure.
    """
    if symbol == "<":

        def evaluate(frame: Frame) -> Value:
            value = left(frame)
            return value < held if type(value) in NUMBERS else UNDEFINED

    elif symbol == "<=":

        def evaluate(frame: Frame) -> Value:
            value = left(frame)
            return value <= held if type(value) in NUMBERS else UNDEFINED

    elif symbol == ">":

        def evaluate(frame: Frame) -> Value:
            value = left(frame)
            return value > held if type(value) in NUMBERS else UNDEFINED

    else:

        def evaluate(frame: Frame) -> Value:
            value = left(frame)
            return value >= held if type(value) in NUMBERS else UNDEFINED

    return evaluate


def _compare(test: _Test, left: Value, right: Value) -> Value:
    if not is_comparable(left, right):
        return UNDEFINED
    # Python does not order None. Two nulls compare as two equal numbers do.
    return test(0, 0) if left is None else test(left, right)


def _ordering(test: _Test, left: Evaluate, right: Evaluate) -> Evaluate:
    return lambda frame: _compare(test, left(frame), right(frame))


def between(operand: Evaluate, low: Evaluate, high: Evaluate) -> Evaluate:
    """`operand BETWEEN low AND high`."""

    def evaluate(frame: Frame) -> Value:
        value = operand(frame)
        above, below = _compare(operator.ge, value, low(frame)), _compare(operator.le, value, high(frame))
        # One false side decides, even if the other is undefined.
        if above is False or below is False:
            return False
        return True if above is True and below is True else UNDEFINED

    return evaluate


def membership(operand: Evaluate, choices: Sequence[Evaluate]) -> Evaluate:
    """`operand IN (choices)`: undefined for an undefined operand, else true if the operand is the same as a choice."""
    constants = [choice.value for choice in choices if isinstance(choice, Constant)]
    others = [choice for choice in choices if not isinstance(choice, Constant)]
    # Strings are looked up as they are. For other values `group_key` keeps 1 and true apart, which Python holds equal.
    texts = frozenset(value for value in constants if type(value) is str)
    keys = frozenset(group_key(value) for value in constants if type(value) is not str and value is not UNDEFINED)

    def evaluate(frame: Frame) -> Value:
        value = operand(frame)
        if value is UNDEFINED:
            return UNDEFINED
        if (value in texts) if type(value) is str else (keys and group_key(value) in keys):
            return True
        return any(other is not UNDEFINED and is_same(value, other) for other in (choice(frame) for choice in others))

    return evaluate


def matches_like(operand: Evaluate, pattern: Evaluate, escape: Evaluate | None) -> Evaluate:
    """`operand LIKE pattern ESCAPE escape`; undefined unless all are strings."""
    if isinstance(pattern, Constant) and (escape is None or isinstance(escape, Constant)):
        held = None if escape is None else escape.value
        if type(pattern.value) is not str or (escape is not None and type(held) is not str):
            return Constant(UNDEFINED)
        return _match_constant(operand, compile_like(pattern.value, held))

    def evaluate(frame: Frame) -> Value:
        value, wanted = operand(frame), pattern(frame)
        mark = None if escape is None else escape(frame)
        if type(value) is not str or type(wanted) is not str or not (escape is None or type(mark) is str):
            return UNDEFINED
        return compile_like(wanted, mark)(value)

    return evaluate


def _match_constant(operand: Evaluate, matcher: Matcher) -> Evaluate:
    def evaluate(frame: Frame) -> Value:
        value = operand(frame)
        return matcher(value) if type(value) is str else UNDEFINED

    return evaluate


# Three-valued logic.


def negation(operand: Evaluate) -> Evaluate:
    """`NOT operand`."""

    def evaluate(frame: Frame) -> Value:
        value = operand(frame)
        return not value if type(value) is bool else UNDEFINED

    return evaluate


def logical(symbol: str, parts: Sequence[Evaluate]) -> Evaluate:
    """AND or OR of any number of parts. The deciding value wins at any position; a value that is not a boolean counts as
    undefined.
    """
    deciding = symbol == "OR"

    def evaluate(frame: Frame) -> Value:
        result: Value = not deciding
        for part in parts:
            value = part(frame)
            if value is deciding:
                return deciding
            if type(value) is not bool:
                result = UNDEFINED
        return result

    return evaluate


def all_true(parts: Sequence[Evaluate]) -> Evaluate:
    """True if every part is true: AND where false and undefined mean the same, as in WHERE."""
    if len(parts) == 2:
        first, second = parts
        return lambda frame: first(frame) is True and second(frame) is True

    def evaluate(frame: Frame) -> Value:
        for part in parts:  # noqa: SIM110 -- a generator would cost more than the test
            if part(frame) is not True:
                return False
        return True

    return evaluate


def any_true(parts: Sequence[Evaluate]) -> Evaluate:
    """True if some part is true: OR where false and undefined mean the same, as in WHERE."""

    def evaluate(frame: Frame) -> Value:
        for part in parts:  # noqa: SIM110 -- a generator would cost more than the test
            if part(frame) is True:
                return True
        return False

    return evaluate


def coalescence(left: Evaluate, right: Evaluate) -> Evaluate:
    """`left ?? right`: replaces undefined, not null."""

    def evaluate(frame: Frame) -> Value:
        value = left(frame)
        return right(frame) if value is UNDEFINED else value

    return evaluate


def conditional(test: Evaluate, chosen: Evaluate, otherwise: Evaluate) -> Evaluate:
    """`test ? chosen : otherwise`: chosen only if the test is true."""
    return lambda frame: chosen(frame) if test(frame) is True else otherwise(frame)


# Numbers and strings.


def arithmetic(symbol: str, left: Evaluate, right: Evaluate) -> Evaluate:
    """An infix operator on numbers."""
    compute = ARITHMETIC[symbol]

    def evaluate(frame: Frame) -> Value:
        one, other = left(frame), right(frame)
        if type(one) in NUMBERS and type(other) in NUMBERS:
            return compute(one, other)
        return UNDEFINED

    return evaluate


def concatenation(left: Evaluate, right: Evaluate) -> Evaluate:
    """`left || right`."""

    def evaluate(frame: Frame) -> Value:
        one, other = left(frame), right(frame)
        return one + other if type(one) is str and type(other) is str else UNDEFINED

    return evaluate


_SIGNS: Final[dict[str, Callable[[Any], Value]]] = {
    "-": negate,
    "+": lambda value: value,
    "~": lambda value: ~to_int32(value),
}


def prefix_operator(symbol: str, operand: Evaluate) -> Evaluate:
    """A prefix `-`, `+` or `~`."""
    compute = _SIGNS[symbol]

    def evaluate(frame: Frame) -> Value:
        value = operand(frame)
        return compute(value) if type(value) in NUMBERS else UNDEFINED

    return evaluate


# Paths.


def read_slot(slot: int) -> Evaluate:
    """The value in one slot of the frame."""
    return operator.itemgetter(slot)


def property_of(slot: int, name: str) -> Evaluate:
    """`alias.name`, the most frequent expression of all."""

    def evaluate(frame: Frame) -> Value:
        held = frame[slot]
        return held.get(name, UNDEFINED) if type(held) is dict else UNDEFINED

    return evaluate


def properties_of(base: Evaluate, names: Sequence[str]) -> Evaluate:
    """`base.a.b…` with constant names only."""

    def evaluate(frame: Frame) -> Value:
        held = base(frame)
        for name in names:
            if type(held) is not dict:
                return UNDEFINED
            held = held.get(name, UNDEFINED)
        return held

    return evaluate


def step_into(held: Value, key: Value) -> Value:
    """`held[key]`: a property by string, an element by a whole number from 0."""
    if type(key) is str:
        return held.get(key, UNDEFINED) if type(held) is dict else UNDEFINED
    if type(held) is not list or type(key) not in NUMBERS or not 0 <= key < len(held) or key != int(key):
        return UNDEFINED
    return held[int(key)]


def steps_of(base: Evaluate, keys: Sequence[Evaluate]) -> Evaluate:
    """`base[k]…` with any keys."""

    def evaluate(frame: Frame) -> Value:
        held = base(frame)
        for key in keys:
            held = step_into(held, key(frame))
        return held

    return evaluate


# Constructors.


def array_of(items: Sequence[Evaluate]) -> Evaluate:
    """`[a, b]`; undefined items are dropped."""
    return lambda frame: [value for item in items if (value := item(frame)) is not UNDEFINED]


def object_of(fields: Sequence[tuple[str, Evaluate]]) -> Evaluate:
    """`{"a": x}`; undefined properties are dropped."""
    return lambda frame: {name: value for name, field in fields if (value := field(frame)) is not UNDEFINED}
