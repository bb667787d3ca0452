"""Order and equality of values: which types compare with each other, and the keys for sorting and grouping.

Numbers compare by value whatever their types, dates and times by the instant, String and Utf8 byte by byte. A
comparison with a NULL inside a value is NULL, and NaN equals nothing. Sorting and grouping have a total order instead:
NULL first, NaN last and equal to itself.
Source: https://ydb.tech/docs/en/yql/reference/syntax/expressions#comparison
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import cmp_to_key
from typing import Any, Final, TypeAlias

from mayflydb.query.yql import moments
from mayflydb.query.yql.types import (
    BOOL,
    DECIMAL_INF,
    DECIMAL_NAN,
    DYNUMBER,
    FLOATS,
    INTEGERS,
    NUMBERS,
    STRING,
    UTF8,
    UUID,
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
    VariantType,
    VoidType,
    format_long,
    holds_null,
)

Compare: TypeAlias = Callable[[Any, Any], int | None]
Equal: TypeAlias = Callable[[Any, Any], bool | None]

_TEXTS: Final = (STRING, UTF8)
_PLAIN: Final = (BOOL, UUID, DYNUMBER)
_NAN: Final = "nan"


def find_order(left: Type, right: Type) -> Compare | None:
    """Return the function that compares values of two types; None if the types do not compare.

    The function takes no NULL. It returns a number below, equal to or above zero, or None for NaN and where a NULL inside
    of a value decides.
    """
    if isinstance(left, DecimalType) or isinstance(right, DecimalType):
        return _decimal_order(left, right)
    if isinstance(left, Primitive) and isinstance(right, Primitive):
        return _primitive_order(left, right)
    return _container_order(left, right, find_order)


def find_equality(left: Type, right: Type) -> Equal | None:
    """Return the equality of two types; the function takes no NULL and returns None where a NULL inside a value
    decides.

    More types have an equality than an order: Structs, Dicts and Variants, too.
    """
    match left, right:
        case OptionalType(), _:
            return _unwrap_optionals(find_equality(left.item, right.item if isinstance(right, OptionalType) else right))
        case _, OptionalType():
            return _unwrap_optionals(find_equality(left, right.item))
        case TaggedType(), _:
            return find_equality(left.item, right)
        case _, TaggedType():
            return find_equality(left, right.item)
        case TupleType(), TupleType() if len(left.items) == len(right.items):
            return _tuple_equality(tuple(map(find_equality, left.items, right.items)))
        case StructType(), StructType():
            return _struct_equality(left, right)
        case ListType(), ListType():
            return _list_equality(find_equality(left.item, right.item))
        case DictType(), DictType() if left.key == right.key:
            return _dict_equality(left, find_equality(left.payload, right.payload))
        case VariantType(), VariantType() if left == right:
            return _variant_equality(left)
    ordered = find_order(left, right)
    return None if ordered is None else _equality_of_order(ordered)


_OPERATORS: Final[Mapping[str, Callable[[int], bool]]] = {
    "<": lambda order: order < 0,
    "<=": lambda order: order <= 0,
    ">": lambda order: order > 0,
    ">=": lambda order: order >= 0,
}


def find_relation(operator: str, left: Type, right: Type) -> Equal | None:
    """Return the function for `==`, `!=`, `<`, `<=`, `>` or `>=`: True, False or None for NULL. None if the types have
    no such relation.

    All relations with NaN are false except `!=`.
    """
    if operator in ("==", "!="):
        same = find_equality(left, right)
        if same is None or operator == "==":
            return same
        return _negate(same)
    ordered = find_order(left, right)
    if ordered is None:
        return None
    order, holds = ordered, _OPERATORS[operator]
    # An order is None for NaN and for NULL. Where no NULL is possible it was NaN, and the relation is false.
    exact = has_no_null(left) and has_no_null(right)

    def relate(a: Value, b: Value) -> bool | None:
        result = order(a, b)
        if result is None:
            return False if exact else None
        return holds(result)

    return relate


def refusal_message(operator: str, left: Type, right: Type) -> str:
    """YDB's message for types that `find_relation` refuses. The issue lies below `Type annotation` and `At function: ==`."""
    return f"Uncompatible types in compare: {format_long(left)} '{operator}' {format_long(right)}"


# --- types without parts ---------------------------------------------------------------------------------------------


def _compare(a: Any, b: Any) -> int:
    return int(a > b) - int(a < b)


def _compare_numbers(a: float, b: float) -> int | None:
    if a < b:
        return -1
    return 1 if a > b else 0 if a == b else None


def _primitive_order(left: Primitive, right: Primitive) -> Compare | None:
    if left in NUMBERS and right in NUMBERS:
        return _compare if left in INTEGERS and right in INTEGERS else _compare_numbers
    if left in moments.MOMENTS and right in moments.MOMENTS:
        return _moment_order(left, right)
    if left in moments.INTERVALS and right in moments.INTERVALS:
        return _compare
    if left in _TEXTS and right in _TEXTS:
        return _compare if left == right else _compare_mixed_texts
    return _compare if left == right and left in _PLAIN else None


def _compare_mixed_texts(a: str | bytes, b: str | bytes) -> int:
    return _compare(_bytes(a), _bytes(b))


def _bytes(text: str | bytes) -> bytes:
    return text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text


def _moment_order(left: Type, right: Type) -> Compare:
    if moments.SCALES[left] == moments.SCALES[right] and left not in moments.ZONED and right not in moments.ZONED:
        return _compare
    first, second = _to_micros(left), _to_micros(right)
    return lambda a, b: _compare(first(a), second(b))


def _to_micros(type: Type) -> Callable[[Any], int]:
    scale = moments.SCALES[type]
    if type in moments.ZONED:
        return lambda value: int(value[0]) * scale
    return lambda value: int(value) * scale


def _decimal_order(left: Type, right: Type) -> Compare | None:
    """Compare Decimals and integers at the larger of the two scales; the infinities are moved beyond every scaled
    number."""
    scales = [_scale(each) for each in (left, right)]
    first, second = scales
    if first is None or second is None:
        return None
    common = max(first, second)
    up = (10 ** (common - first), 10 ** (common - second))
    special = tuple(isinstance(each, DecimalType) for each in (left, right))

    def order(a: int, b: int) -> int | None:
        if (special[0] and a == DECIMAL_NAN) or (special[1] and b == DECIMAL_NAN):
            return None
        return _compare(_scale_up(a, up[0], special[0]), _scale_up(b, up[1], special[1]))

    return order


def _scale(type: Type) -> int | None:
    if isinstance(type, DecimalType):
        return type.scale
    return 0 if type in INTEGERS else None


# A scaled number has at most 70 digits: 35 of the number and 35 of the factor.
_BEYOND: Final = 10**80


def _scale_up(value: int, factor: int, special: bool) -> int:
    if special and abs(value) == DECIMAL_INF:
        return _BEYOND if value > 0 else -_BEYOND
    return value * factor


# --- types with parts ------------------------------------------------------------------------------------------------


def _container_order(left: Type, right: Type, of: Callable[[Type, Type], Compare | None]) -> Compare | None:
    match left, right:
        case OptionalType(), _:
            return _unwrap_optionals(of(left.item, right.item if isinstance(right, OptionalType) else right))
        case _, OptionalType():
            return _unwrap_optionals(of(left, right.item))
        case TaggedType(), _:
            return of(left.item, right)
        case _, TaggedType():
            return of(left, right.item)
        case NullType(), _:
            return lambda a, b: None
        case _, NullType():
            return lambda a, b: None
        case TupleType(), TupleType() if len(left.items) == len(right.items):
            return _tuple_order(tuple(map(of, left.items, right.items)))
        case ListType(), ListType():
            return _list_order(of(left.item, right.item))
        case (ListType() | EmptyListType(), EmptyListType()) | (EmptyListType(), ListType()):
            return lambda a, b: _compare(len(a), len(b))
        case VoidType(), VoidType():
            return lambda a, b: 0
        case EmptyDictType(), EmptyDictType():
            return lambda a, b: 0
    return None


def _unwrap_optionals(of: Callable[[Any, Any], Any] | None) -> Callable[[Any, Any], Any] | None:
    if of is None:
        return None
    inner = of

    def compare_inner(a: Value, b: Value) -> Any:
        if a is None or b is None:
            return None
        return inner(a.value if isinstance(a, Just) else a, b.value if isinstance(b, Just) else b)

    return compare_inner


def _tuple_order(orders: tuple[Compare | None, ...]) -> Compare | None:
    known = [each for each in orders if each is not None]
    if len(known) < len(orders):
        return None

    def order(a: tuple[Value, ...], b: tuple[Value, ...]) -> int | None:
        for each, first, second in zip(known, a, b, strict=True):
            result = None if first is None or second is None else each(first, second)
            if result != 0:
                return result
        return 0

    return order


def _list_order(item: Compare | None) -> Compare | None:
    if item is None:
        return None
    each = item

    def order(a: list[Value], b: list[Value]) -> int | None:
        for first, second in zip(a, b, strict=False):
            result = None if first is None or second is None else each(first, second)
            if result != 0:
                return result
        # A list that begins another one comes before it.
        return _compare(len(a), len(b))

    return order


def _equality_of_order(order: Compare) -> Equal:
    # None is NaN here, which equals nothing. A NULL is found by the equality of the container around it.
    def same(a: Value, b: Value) -> bool | None:
        result = order(a, b)
        return result == 0

    return same


def _negate(same: Equal) -> Equal:
    def different(a: Value, b: Value) -> bool | None:
        result = same(a, b)
        return None if result is None else not result

    return different


def _all_equal_pairs(pairs: list[tuple[Equal, Value, Value]]) -> bool | None:
    """Return False if any pair differs, None (NULL) if none is known to differ and one is NULL, else True."""
    answer: bool | None = True
    for same, a, b in pairs:
        result = None if a is None or b is None else same(a, b)
        if result is False:
            return False
        answer = None if result is None else answer
    return answer


def _tuple_equality(relations: tuple[Equal | None, ...]) -> Equal | None:
    known = [each for each in relations if each is not None]
    if len(known) < len(relations):
        return None
    return lambda a, b: _all_equal_pairs(list(zip(known, a, b, strict=True)))


def _struct_equality(left: StructType, right: StructType) -> Equal | None:
    """Equality of Structs member by member; the order of the members does not matter."""
    places = {name: place for place, (name, _) in enumerate(right.members)}
    if len(left.members) != len(right.members) or any(name not in places for name, _ in left.members):
        return None
    order = [places[name] for name, _ in left.members]
    items = tuple(find_equality(type, right.members[places[name]][1]) for name, type in left.members)
    whole = _tuple_equality(items)
    if whole is None:
        return None
    same = whole
    return lambda a, b: same(a, tuple(b[place] for place in order))


def _list_equality(item: Equal | None) -> Equal | None:
    if item is None:
        return None
    each = item
    return lambda a, b: len(a) == len(b) and _all_equal_pairs([(each, *pair) for pair in zip(a, b, strict=True)])


def _dict_equality(type: DictType, payload: Equal | None) -> Equal | None:
    if payload is None:
        return None
    each = payload
    void = isinstance(type.payload, VoidType)

    def same(a: dict[Any, Any], b: dict[Any, Any]) -> bool | None:
        if len(a) != len(b) or any(key not in b for key in a):
            return False
        return True if void else _all_equal_pairs([(each, value, b[key]) for key, value in a.items()])

    return same


def _variant_equality(type: VariantType) -> Equal | None:
    relations = [find_equality(part, part) for part in _alternatives(type)]
    known = [each for each in relations if each is not None]
    if len(known) < len(relations):
        return None
    return lambda a, b: a[0] == b[0] and _all_equal_pairs([(known[a[0]], a[1], b[1])])


def _alternatives(type: VariantType) -> tuple[Type, ...]:
    if isinstance(type.over, StructType):
        return tuple(part for _, part in type.over.members)
    return type.over.items if isinstance(type.over, TupleType) else ()


def has_no_null(type: Type) -> bool:
    """True if no value of the type is NULL or contains a NULL, so that a comparison of two values is never NULL."""
    match type:
        case OptionalType() | NullType():
            return False
        case TupleType(items):
            return all(map(has_no_null, items))
        case ListType(item) | TaggedType(_, item) | DictType(_, item):
            return has_no_null(item)
        case StructType(members):
            return all(has_no_null(part) for _, part in members)
        case VariantType():
            return all(map(has_no_null, _alternatives(type)))
    return True


# --- sorting and grouping --------------------------------------------------------------------------------------------


def is_sortable(type: Type) -> bool:
    """True if ORDER BY accepts values of the type."""
    return isinstance(type, NullType) or find_order(type, type) is not None


def sort_key(type: Type) -> Callable[[Value], Any]:
    """Return the sort key of a type: a total order with NULL first and NaN last. Callers sort with `reverse` for DESC."""
    match type:
        case OptionalType(item):
            inner = sort_key(item)
            if inner is _identity:
                # False sorts before True, so NULL comes first. Two NULLs are equal, and None is never ordered.
                return lambda value: (value is not None, value)
            return lambda value: (
                (False,) if value is None else (True, inner(value.value if isinstance(value, Just) else value))
            )
        case TupleType(items):
            keys = [sort_key(item) for item in items]
            return lambda value: tuple(key(part) for key, part in zip(keys, value, strict=True))
        case StructType(members):
            return sort_key(TupleType(tuple(part for _, part in members)))
        case ListType(item):
            key = sort_key(item)
            return lambda value: [key(part) for part in value]
        case TaggedType(_, item):
            return sort_key(item)
        case Primitive() if type in FLOATS:
            # NaN has no order in Python: a flag moves it behind all numbers, and 0.0 takes its place.
            return lambda value: (value != value, 0.0 if value != value else value)
        case Primitive() if type in moments.ZONED:
            return lambda value: value
        case VariantType():
            return lambda value: (value[0], _VARIANT(value[1]))
        case NullType() | VoidType() | EmptyListType() | EmptyDictType():
            return lambda value: 0
    return _identity


def is_identity(key: Callable[[Value], Any]) -> bool:
    """Return whether a key of `sort_key` or `group_key` returns each value as it is."""
    return key is _identity


def _identity(value: Value) -> Any:
    return value


def _by_text(a: Any, b: Any) -> int:
    return _compare(repr(a), repr(b))


_VARIANT: Final = cmp_to_key(_by_text)
"""YQL does not sort Variants. Where one must have a place in some order, the text of its value gives a stable one."""


def group_key(type: Type) -> Callable[[Value], Hashable]:
    """Return the function to a hashable key that is the same for equal values: for GROUP BY, DISTINCT, joins and keys
    of dicts.

    NaN equals itself here.
    """
    match type:
        case OptionalType(item):
            return _group_optional(item)
        case TupleType(items):
            return _group_tuple(items)
        case StructType(members):
            return _group_tuple(tuple(part for _, part in members))
        case ListType(item):
            key = group_key(item)
            return lambda value: tuple(key(part) for part in value)
        case DictType(_, payload):
            key = group_key(payload)
            return lambda value: frozenset((each, key(part)) for each, part in value.items())
        case TaggedType(_, item):
            return group_key(item)
        case VariantType():
            keys = [group_key(part) for part in _alternatives(type)]
            return lambda value: (value[0], keys[value[0]](value[1]))
        case Primitive() if type in FLOATS:
            return lambda value: _NAN if value != value else value
        case Primitive() if type in moments.ZONED:
            # An instant equals itself in any zone.
            return lambda value: int(value[0])
        case EmptyListType() | EmptyDictType():
            return lambda value: ()
    return _identity


def _group_optional(item: Type) -> Callable[[Value], Hashable]:
    inner = group_key(item)
    if inner is _identity:
        return _identity
    if holds_null(item):
        return lambda value: None if value is None else Just(inner(value.value))
    return lambda value: None if value is None else inner(value)


def _group_tuple(items: tuple[Type, ...]) -> Callable[[Value], Hashable]:
    keys = [group_key(item) for item in items]
    if all(key is _identity for key in keys):
        return _identity
    return lambda value: tuple(None if part is None else key(part) for key, part in zip(keys, value, strict=True))
