"""Operators on one field: `{a: {$gt: 1, $lt: 5}}` and `{a: 5}`, compiled to conditions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn

import msgspec
from bson import Decimal128, Regex

from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.faults import MqlError, bad_value
from mayflydb.query.mongo.filter.comparisons import equality, membership, ordering
from mayflydb.query.mongo.filter.nodes import (
    RANKS,
    Condition,
    Every,
    FilterNode,
    Leaf,
    Negated,
    Test,
    never,
    value_test,
)
from mayflydb.query.mongo.operands import (
    bit_test,
    parse_bit_mask,
    parse_natural,
    parse_type_names,
    truncate_number,
    type_test,
)
from mayflydb.query.mongo.patterns import flag_letters, pattern_test
from mayflydb.query.mongo.text import TextIndex
from mayflydb.query.mongo.values import MISSING, Document, Value, is_number, is_truthy


class FilterScope(msgspec.Struct):
    """The state of compiling one filter.

    `in_element`: inside an element of an array. `reads_all`: a condition reads the whole document.
    `named`: the top-level fields with conditions. `text_count`: the number of `$text` so far.
    """

    env: Env
    compile: Callable[[Document, FilterScope], FilterNode]
    text: TextIndex | None = None
    in_element: bool = False
    reads_all: bool = False
    named: set[str] = msgspec.field(default_factory=set)
    depth: int = 0
    text_count: int = 0

    def for_element(self) -> FilterScope:
        """Return the scope of a query on an array element."""
        return FilterScope(self.env, self.compile, in_element=True, depth=self.depth)


def is_operators(value: Value, partial_references: bool = False) -> bool:
    """Return whether an operand is a document of operators such as `{$gt: 1}`, not a value to compare with.

    A reference is a value: a document with `$ref` and `$id` or, with `partial_references`, with one of `$ref`, `$id`, `$db`.
    """
    if type(value) is not dict or not value:
        return False
    if not next(iter(value)).startswith("$"):
        return False
    if partial_references:
        return not value.keys() & {"$ref", "$id", "$db"}
    return not {"$ref", "$id"} <= value.keys()


def field_condition(path: str, operand: Value, scope: FilterScope) -> Condition:
    """Compile the condition on one field. MqlError 2 for an unknown operator or an invalid operand."""
    if is_operators(operand):
        return operators_condition(path, operand, scope)
    if type(operand) is Regex:
        return Leaf(pattern_test(operand.pattern, flag_letters(operand)), operator="$regex")
    return Leaf(equality(operand, scope.env.collation))


def operators_condition(path: str, operators: Document, scope: FilterScope) -> Condition:
    """Compile a document of operators on one field; all of them must hold."""
    conditions = []
    for name, operand in operators.items():
        compiler = _OPERATORS.get(name)
        if compiler is None:
            raise bad_value(_UNKNOWN.get(name, f"unknown operator: {name}"))
        if name == "$options":
            if "$regex" not in operators:
                raise bad_value("$options needs a $regex")
            continue
        condition = compiler(path, operand, scope) if name != "$regex" else _compile_regex(operators)
        conditions.append(_mark_operator(condition, name))
    return conditions[0] if len(conditions) == 1 else Every(tuple(conditions))


def _mark_operator(condition: Condition, operator: str) -> Condition:
    """Return the condition with its operator recorded, which decides its rank among others."""
    if isinstance(condition, Leaf) and operator in RANKS:
        return msgspec.structs.replace(condition, operator=operator)
    return condition


_UNKNOWN: Final = {
    "$where": "$where cannot be applied to a field",
    "$expr": "$expr can only be applied to the top-level document",
}


def _compile_eq(_: str, operand: Value, scope: FilterScope) -> Condition:
    return Leaf(equality(operand, scope.env.collation))


def _compile_ne(_: str, operand: Value, scope: FilterScope) -> Condition:
    if type(operand) is Regex:
        raise bad_value("Can't have regex as arg to $ne.")
    return Negated(Leaf(equality(operand, scope.env.collation)))


def _ordering_compiler(name: str) -> Callable[[str, Value, FilterScope], Condition]:
    def compile_operator(path: str, operand: Value, scope: FilterScope) -> Condition:
        if type(operand) is Regex:
            raise bad_value(f"Can't have RegEx as arg to predicate over field '{path}'.")
        return Leaf(ordering(name, operand, scope.env.collation))

    return compile_operator


def _compile_members(name: str, operand: Value, scope: FilterScope) -> Condition:
    if type(operand) is not list:
        raise bad_value(f"{name} needs an array")
    wanted, patterns = [], []
    for each in operand:
        if is_operators(each):
            raise bad_value("cannot nest $ under $in")
        if type(each) is Regex:
            patterns.append(pattern_test(each.pattern, flag_letters(each)))
        else:
            wanted.append(each)
    return Leaf(membership(wanted, patterns, scope.env.collation))


def _compile_in(_: str, operand: Value, scope: FilterScope) -> Condition:
    return _compile_members("$in", operand, scope)


def _compile_nin(_: str, operand: Value, scope: FilterScope) -> Condition:
    return Negated(_compile_members("$nin", operand, scope))


def _compile_not(path: str, operand: Value, scope: FilterScope) -> Condition:
    if type(operand) is Regex:
        return Negated(Leaf(pattern_test(operand.pattern, flag_letters(operand))))
    if type(operand) is not dict:
        raise bad_value("$not needs a regex or a document")
    if not operand:
        raise bad_value("$not cannot be empty")
    return Negated(operators_condition(path, operand, scope))


def _compile_exists(_: str, operand: Value, __: FilterScope) -> Condition:
    # An empty array exists, though it has no element to test.
    found = Leaf(lambda value: value is not MISSING, spread=False)
    return found if is_truthy(operand) else Negated(found)


def _compile_type(path: str, operand: Value, _: FilterScope) -> Condition:
    return Leaf(type_test(parse_type_names(path, operand)))


def _compile_regex(operators: Document) -> Condition:
    operand, flags = operators["$regex"], ""
    names = list(operators)
    if type(operand) is Regex:
        pattern, flags = operand.pattern, flag_letters(operand)
    elif type(operand) is str:
        pattern = operand
    else:
        raise bad_value("$regex has to be a string")
    if "$options" in operators:
        options = operators["$options"]
        if type(options) is not str:
            raise bad_value("$options has to be a string")
        regex_first = names.index("$regex") < names.index("$options")
        if flags and (regex_first or options):
            raise MqlError(51075 if regex_first else 51074, "options set in both $regex and $options")
        flags = flags or options
    return Leaf(pattern_test(pattern, flags))


def _compile_size(_: str, operand: Value, __: FilterScope) -> Condition:
    try:
        size = parse_natural("$size", operand)
    except MqlError as refusal:
        raise bad_value(f"Failed to parse $size. {refusal}") from None
    return Leaf(lambda value: type(value) is list and len(value) == size, spread=False)


def _compile_mod(_: str, operand: Value, __: FilterScope) -> Condition:
    if type(operand) is not list:
        raise bad_value("malformed mod, needs to be an array")
    if len(operand) < 2:
        raise bad_value("malformed mod, not enough elements")
    if len(operand) > 2:
        raise bad_value("malformed mod, too many elements")
    divisor, remainder = (_parse_mod_operand(*each) for each in zip(("divisor", "remainder"), operand, strict=True))
    if divisor == 0:
        raise bad_value("divisor cannot be 0")

    def test(value: Value) -> bool:
        number = truncate_number(value) if is_number(value) else None
        if number is None:
            return False
        # The remainder has the sign of the dividend, as in C.
        rest = abs(number) % abs(divisor)
        return (rest if number >= 0 else -rest) == remainder

    return Leaf(test)


def _parse_mod_operand(role: str, value: Any) -> int:
    if not is_number(value):
        raise bad_value(f"malformed mod, {role} not a number")
    number = truncate_number(value)
    if number is None:
        why = "Unable to coerce NaN/Inf to integral type"
        raise bad_value(f"malformed mod, {role} value is invalid :: caused by :: {why}")
    if type(value) is Decimal128 and not -(1 << 63) <= number < 1 << 63:
        raise bad_value(
            f"malformed mod, {role} value is invalid :: caused by :: Out of bounds coercing to integral value"
        )
    return number


def _compile_elem_match(_: str, operand: Value, scope: FilterScope) -> Condition:
    test = element_test(operand, scope)

    def index(array: list[Value]) -> int | None:
        return next((place for place, each in enumerate(array) if test(each)), None)

    return Leaf(lambda value: type(value) is list and any(map(test, value)), spread=False, index=index)


def element_test(operand: Value, scope: FilterScope) -> Test:
    """Return the test of `$elemMatch` on one element. MqlError 2."""
    if type(operand) is not dict:
        raise bad_value("$elemMatch needs an Object")
    if is_operators(operand, partial_references=True) and next(iter(operand)) not in TOP_LEVEL_OPERATORS:
        return value_test(operators_condition("", operand, scope.for_element()))
    if "$where" in operand:
        raise bad_value("$elemMatch cannot contain $where expression")
    matches = scope.compile(operand, scope.for_element()).matches

    def test(element: Value) -> bool:
        if type(element) is list:
            # To `$elemMatch` an array within the array is a document whose field names are the indexes.
            return matches({str(index): each for index, each in enumerate(element)})
        return type(element) is dict and matches(element)

    return test


TOP_LEVEL_OPERATORS: Final = frozenset(
    "$and $or $nor $expr $comment $jsonSchema $text $where $sampleRate $alwaysTrue $alwaysFalse".split()  # noqa: SIM905
)
"""Operators that stand at the top level of a query, in place of a field name."""


def _compile_all(path: str, operand: Value, scope: FilterScope) -> Condition:
    if type(operand) is not list:
        raise bad_value("$all needs an array")
    if not operand:
        # `$all: []` matches nothing, although all of no conditions hold.
        return Leaf(never)
    by_elements = _first_name(operand[0]) == "$elemMatch"
    conditions: list[Condition] = []
    for each in operand:
        name = _first_name(each)
        if by_elements:
            if name != "$elemMatch":
                raise bad_value("$all/$elemMatch has to be consistent")
            conditions.append(_compile_elem_match(path, each["$elemMatch"], scope))
        elif name in _OPERATORS:
            raise bad_value("no $ expressions in $all")
        elif type(each) is Regex:
            conditions.append(Leaf(pattern_test(each.pattern, flag_letters(each))))
        else:
            conditions.append(Leaf(equality(each, scope.env.collation)))
    return conditions[0] if len(conditions) == 1 else Every(tuple(conditions))


def _first_name(value: Value) -> str | None:
    return next(iter(value), None) if type(value) is dict else None


def _bits_compiler(name: str) -> Callable[[str, Value, FilterScope], Condition]:
    return lambda path, operand, _: Leaf(bit_test(name, parse_bit_mask(path, operand)))


def _geo_refusal(name: str) -> Callable[[str, Value, FilterScope], Condition]:
    def refuse(_: str, __: Value, ___: FilterScope) -> NoReturn:
        raise bad_value(f"{name} is not supported: there are no geospatial queries")

    return refuse


def _regex_alone(_: str, __: Value, ___: FilterScope) -> Condition:
    raise AssertionError("compiled together with its options")


_OPERATORS: Final[Mapping[str, Callable[[str, Value, FilterScope], Condition]]] = {
    "$eq": _compile_eq,
    "$ne": _compile_ne,
    **{name: _ordering_compiler(name) for name in ("$lt", "$lte", "$gt", "$gte")},
    "$in": _compile_in,
    "$nin": _compile_nin,
    "$not": _compile_not,
    "$exists": _compile_exists,
    "$type": _compile_type,
    "$regex": _regex_alone,
    "$options": _regex_alone,
    "$size": _compile_size,
    "$mod": _compile_mod,
    "$elemMatch": _compile_elem_match,
    "$all": _compile_all,
    **{name: _bits_compiler(name) for name in ("$bitsAllSet", "$bitsAnySet", "$bitsAllClear", "$bitsAnyClear")},
    **{
        name: _geo_refusal(name)
        for name in ("$geoWithin", "$within", "$geoIntersects", "$near", "$nearSphere", "$geoNear", "$maxDistance")
    },
}
