"""Conversions between types: the implicit ones (`convert_implicitly`, `common_type`) and those of CAST (`resolve_cast`).

A literal becomes any type that can hold its value. Any other value only widens: to a number of a higher rank (see
`arithmetic`), from Utf8, Json or Yson to String, from a date to a finer or wider one, from T to T?. Between containers
each part is converted implicitly; a Struct may also gain members that allow NULL.
Source: https://ydb.tech/docs/en/yql/reference/types/cast and `types/primitive#implicit-cast`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from mayflydb.query.yql import arithmetic, casting, moments
from mayflydb.query.yql.casting import FAILED, Converter, identity
from mayflydb.query.yql.containers import Convert, find_conversion
from mayflydb.query.yql.expression import Expression
from mayflydb.query.yql.faults import Fault
from mayflydb.query.yql.types import (
    INTEGERS,
    INTERVAL,
    INTERVAL64,
    JSON,
    NUMBERS,
    STRING,
    TIMESTAMP,
    UTF8,
    YSON,
    DecimalType,
    DictType,
    EmptyDictType,
    EmptyListType,
    Just,
    ListType,
    NullType,
    OptionalType,
    Primitive,
    StructType,
    TaggedType,
    TupleType,
    Type,
    Value,
    bare,
    holds_null,
    optional,
)

# --- values that widen -----------------------------------------------------------------------------------------------


def find_widening(source: Type, to: Type) -> Convert | None:
    """Return the implicit conversion of a value of `source`, NULL included, to `to`; None if there is none."""
    if source == to:
        return identity
    if isinstance(to, OptionalType):
        return _into_optional(source, to)
    if isinstance(source, Primitive) and isinstance(to, Primitive):
        return _widen_primitive(source, to)
    match source, to:
        case DecimalType(), DecimalType():
            return _widen_decimal(source, to)
        case EmptyListType(), ListType():
            return lambda value: []
        case EmptyDictType(), DictType():
            return lambda value: {}
        case TaggedType(_, item), TaggedType(tag, inner) if source.tag == tag:
            return find_widening(item, inner)
    converter = find_conversion(source, to, _widen_part, strict=True)
    return None if converter is None or converter[1] else converter[0]


def _widen_part(source: Type, to: Type) -> Converter | None:
    step = find_widening(source, to)
    return None if step is None else (step, False)


def _into_optional(source: Type, to: OptionalType) -> Convert | None:
    if isinstance(source, NullType):
        return identity
    # With the same number of levels each NULL stays at its level; with fewer, the value goes into one more.
    if isinstance(source, OptionalType) and _depth(source) >= _depth(to):
        inner = find_widening(source.item, to.item)
        if inner is None or inner is identity:
            return inner
        step, nested = inner, holds_null(to.item)
        return lambda value: (
            None if value is None else Just(step(value.value)) if nested and isinstance(value, Just) else step(value)
        )
    inner = find_widening(source, to.item)
    return None if inner is None else _wrap_in_just(inner, to.item)


def _wrap_in_just(step: Convert, item: Type) -> Convert:
    """Wrap the result of `step` in a Just where `item` has a NULL itself, so that a NULL inside differs from a NULL
    outside."""
    return (lambda value: Just(step(value))) if holds_null(item) else step


def _widen_primitive(source: Primitive, to: Primitive) -> Convert | None:
    if source in NUMBERS and to in NUMBERS:
        if arithmetic.RANKS[to] < arithmetic.RANKS[source]:
            return None
        # YDB takes the bits: a negative Int8 becomes a large Uint64.
        if to in INTEGERS:
            return casting.find_bitcast(source, to)
        converter = casting.find_cast(source, to)
        return converter[0] if converter else None
    if (source, to) in ((INTERVAL, INTERVAL64), (UTF8, STRING), (JSON, UTF8), (JSON, STRING), (YSON, STRING)):
        return _infallible_cast(source, to)
    if source in moments.MOMENTS and to in moments.MOMENTS and _is_finer(source, to):
        return _infallible_cast(source, to)
    if source in INTEGERS and to == TIMESTAMP:
        # The integer is microseconds. One beyond the limits becomes the nearest limit.
        low, high = moments.LIMITS[TIMESTAMP]
        return lambda value: min(max(value, low), high)
    return None


_MOMENTS: Final = (moments.NARROW, moments.WIDE, moments.NARROW_ZONED, moments.WIDE_ZONED)
_KINDS: Final[Mapping[Type, int]] = {type: place for types in _MOMENTS for place, type in enumerate(types)}
"""The unit of each type of dates and times: days, seconds, microseconds."""


def _is_finer(source: Type, to: Type) -> bool:
    """True if `to` holds every value of `source`: its unit is as fine or finer, and it is not narrower."""
    if _KINDS[source] > _KINDS[to]:
        return False
    # A type without a zone becomes one with a zone, and a narrow one becomes a wide one, never the other way.
    return (source not in moments.ZONED or to in moments.ZONED) and (moments.is_wide(to) or not moments.is_wide(source))


def _infallible_cast(source: Type, to: Type) -> Convert | None:
    converter = casting.find_cast(source, to)
    return None if converter is None or converter[1] else converter[0]


def _widen_decimal(source: DecimalType, to: DecimalType) -> Convert | None:
    # No digit may be lost, neither before the point nor behind it.
    if source.scale > to.scale or source.precision - source.scale > to.precision - to.scale:
        return None
    return _infallible_cast(source, to)


# --- one type for several --------------------------------------------------------------------------------------------


def common_type(types: Iterable[Type]) -> Type | None:
    """The type to which all of these are converted implicitly; None if there is none, or no types are given."""
    result: Type | None = None
    for each in types:
        result = each if result is None else _common_pair(result, each)
        if result is None:
            return None
    return result


def unify(expressions: Sequence[Expression]) -> tuple[Type, list[Expression]] | None:
    """Convert expressions to their common type, and return both; None if there is no common type.

    If the literals among them fit the common type of the other expressions, that type wins.
    """
    found = common_type([each.type for each in expressions])
    if found is None or any(each.literal for each in expressions):
        found = _type_of_others(expressions) or found
    if found is None:
        return None
    result = [fit_expression(each, found) for each in expressions]
    return None if None in result else (found, [each for each in result if each is not None])


def _type_of_others(expressions: Sequence[Expression]) -> Type | None:
    """The common type of the expressions that are no literals; None if one of the literals does not fit."""
    found = common_type([each.type for each in expressions if not each.literal])
    if found is None or any(fit_expression(each, found) is None for each in expressions):
        return None
    return found


def fit_expression(expression: Expression, to: Type) -> Expression | None:
    """Convert as `convert_implicitly` does, but refuse an integer literal that is too large for an integer type.

    An integer whose value is not known when the query is bound widens by its type alone.
    """
    if expression.type == to:
        return expression
    made = convert_implicitly(expression, to)
    if made is None or not expression.literal or made.literal:
        return made
    return None if bare(expression.type) in INTEGERS and bare(to) in INTEGERS else made


def _common_pair(left: Type, right: Type) -> Type | None:
    if left == right or find_widening(right, left) is not None:
        return left
    if find_widening(left, right) is not None:
        return right
    match left, right:
        case NullType(), _:
            return optional(right)
        case _, NullType():
            return optional(left)
        case OptionalType(), _:
            inner = _common_pair(left.item, right.item if isinstance(right, OptionalType) else right)
            return None if inner is None else OptionalType(inner)
        case _, OptionalType():
            inner = _common_pair(left, right.item)
            return None if inner is None else OptionalType(inner)
        case ListType(), ListType():
            inner = _common_pair(left.item, right.item)
            return None if inner is None else ListType(inner)
        case DecimalType(), DecimalType():
            return _common_decimal(left, right)
        case TupleType(), TupleType():
            return _common_tuple(left, right)
        case StructType(), StructType():
            return _common_struct(left, right)
        case DictType(), DictType():
            key, payload = _common_pair(left.key, right.key), _common_pair(left.payload, right.payload)
            return None if key is None or payload is None else DictType(key, payload)
    return None


def _common_decimal(left: DecimalType, right: DecimalType) -> Type | None:
    scale = max(left.scale, right.scale)
    precision = max(left.precision - left.scale, right.precision - right.scale) + scale
    return DecimalType(precision, scale) if precision <= 35 else None


def _common_tuple(left: TupleType, right: TupleType) -> Type | None:
    if len(left.items) != len(right.items):
        return None
    items = [_common_pair(*pair) for pair in zip(left.items, right.items, strict=True)]
    known = tuple(item for item in items if item is not None)
    return TupleType(known) if len(known) == len(items) else None


def _common_struct(left: StructType, right: StructType) -> Type | None:
    """A Struct with the members of both; a member that only one of them has becomes Optional."""
    others = dict(right.members)
    names = dict(left.members)
    members: list[tuple[str, Type]] = []
    for name in {**names, **others}:
        both = name in names and name in others
        type = _common_pair(names[name], others[name]) if both else optional(names.get(name) or others[name])
        if type is None:
            return None
        members.append((name, type))
    return StructType(tuple(members))


# --- expressions -----------------------------------------------------------------------------------------------------


def convert_implicitly(expression: Expression, to: Type) -> Expression | None:
    """Convert an expression implicitly: a literal that fits, or a value that widens. None if there is no such
    conversion."""
    if expression.type == to:
        return expression
    if expression.literal:
        fitted = _fit_constant(expression.value, expression.type, to)
        if fitted is not FAILED:
            return constant(to, fitted, literal=True)
    step = find_widening(expression.type, to)
    if step is not None:
        return _convert_expression(expression, to, step)
    if expression.constant and not isinstance(expression.type, (Primitive, DecimalType)):
        # A constant container, such as a list of literals, is converted if each of its parts fits.
        try:
            fitted = _fit_constant(expression.evaluate((), _NO_RUN), expression.type, to)
        except Fault:
            return None
        return None if fitted is FAILED else constant(to, fitted)
    return None


_NO_RUN: Final[Any] = None
"""Constant expressions do not read the run."""


def constant(type: Type, value: Value, literal: bool = False) -> Expression:
    """Return an expression with this constant value."""
    return Expression(type, lambda row, run: value, constant=True, literal=literal, value=value)


def _convert_expression(expression: Expression, to: Type, step: Convert) -> Expression:
    if step is identity:
        return Expression(to, expression.evaluate, constant=expression.constant)
    inner = expression.evaluate
    return Expression(to, lambda row, run: step(inner(row, run)), constant=expression.constant)


def _fit_constant(value: Value, source: Type, to: Type) -> Value:
    """The value of a constant in another type, part by part; `FAILED` if it does not fit."""
    if isinstance(to, OptionalType):
        if value is None:
            return None
        inner = source.item if isinstance(source, OptionalType) else source
        fitted = _fit_constant(value.value if isinstance(value, Just) else value, inner, to.item)
        return Just(fitted) if fitted is not FAILED and holds_null(to.item) else fitted
    if isinstance(source, (NullType, OptionalType)):
        return FAILED
    if source == to:
        return value
    if isinstance(source, Primitive):
        return casting.convert_literal(value, source, to)
    converter = find_conversion(source, to, lambda a, b: (lambda part: _fit_constant(part, a, b), True), strict=True)
    return FAILED if converter is None else converter[0](value)


# --- CAST ------------------------------------------------------------------------------------------------------------


def resolve_cast(source: Type, to: Type) -> tuple[Type, Convert] | None:
    """Return the type of `CAST(e AS to)` and its function from a value of `source`, NULL included; None if there is no
    such CAST.

    Where the conversion may fail, the type is an Optional, and the result of a failure is NULL.
    """
    if isinstance(source, NullType):
        return optional(to), identity
    converter = _cast(source, to)
    if converter is None:
        return None
    step, fails = converter
    if not fails:
        return to, step

    # A failure becomes NULL only here. Inside of a container it decides whether an item is dropped or the whole fails.
    def convert(value: Value) -> Value:
        result = step(value)
        return None if result is FAILED else result

    return optional(to), convert


def resolve_bitcast(source: Type, to: Type) -> tuple[Type, Convert] | None:
    """Return the type and the function of `BITCAST(e AS to)`; None unless both types are integers."""
    if isinstance(source, OptionalType):
        inner = resolve_bitcast(source.item, to.item if isinstance(to, OptionalType) else to)
        if inner is None:
            return None
        step = inner[1]
        return OptionalType(inner[0]), lambda value: None if value is None else step(value)
    bits = casting.find_bitcast(source, to)
    return None if bits is None else (to, bits)


def _cast(source: Type, to: Type) -> Converter | None:
    if source == to:
        return identity, False
    depth, wanted = _depth(source), _depth(to)
    if isinstance(source, NullType):
        return (identity, False) if wanted else None
    if wanted > depth and isinstance(to, OptionalType):
        return _cast_into(source, to)
    if depth > wanted and isinstance(source, OptionalType):
        return _cast_out(source, to)
    if isinstance(source, OptionalType) and isinstance(to, OptionalType):
        return _cast_within(source, to)
    if isinstance(source, TaggedType):
        return _cast(source.item, to)
    if isinstance(to, TaggedType):
        return _cast(source, to.item)
    if isinstance(source, (Primitive, DecimalType)) and isinstance(to, (Primitive, DecimalType)):
        return casting.find_cast(source, to)
    return find_conversion(source, to, _cast)


def _depth(type: Type) -> int:
    return 1 + _depth(type.item) if isinstance(type, OptionalType) else 0


def _cast_into(source: Type, to: OptionalType) -> Converter | None:
    """Cast to a type with more levels of Optional; a failure becomes NULL at the added level."""
    inner = _cast(source, to.item)
    if inner is None:
        return None
    step, fails = inner
    wrap = _wrap_in_just(identity, to.item)
    if not fails:
        return (step if wrap is identity else lambda value: wrap(step(value))), False

    def into(value: Value) -> Value:
        result = step(value)
        return None if result is FAILED else wrap(result)

    return into, False


def _cast_out(source: OptionalType, to: Type) -> Converter | None:
    """Cast to a type with fewer levels of Optional; NULL is a failure."""
    inner = _cast(source.item, to)
    if inner is None:
        return None
    step = inner[0]
    # The target has no value for NULL at this level.
    return lambda value: FAILED if value is None else step(value.value if isinstance(value, Just) else value), True


def _cast_within(source: OptionalType, to: OptionalType) -> Converter | None:
    inner = _cast(source.item, to.item)
    if inner is None:
        return None
    step, wrap = inner[0], _wrap_in_just(identity, to.item)

    def within(value: Value) -> Value:
        if value is None:
            return None
        result = step(value.value if isinstance(value, Just) else value)
        return None if result is FAILED else wrap(result)

    return within, False
