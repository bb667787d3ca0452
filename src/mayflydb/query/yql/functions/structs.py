"""Functions of structs: adding, removing, renaming and gathering of members, and of variants.

Source: https://ydb.tech/docs/en/yql/reference/builtins/struct
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from mayflydb.query.yql.expression import Builder, Expression, Invocation, Lambda, Operand
from mayflydb.query.yql.functions.constructors import alternatives, struct_of
from mayflydb.query.yql.functions.support import (
    apply_with_nulls,
    argument_fault,
    common_type,
    constant,
    count_operands,
    evaluate_constant,
    map_value,
    value_at,
    wrap_optional,
)
from mayflydb.query.yql.types import (
    EMPTY_LIST,
    STRING,
    EmptyListType,
    ListType,
    NullType,
    OptionalType,
    StructType,
    TupleType,
    Type,
    Value,
    VariantType,
    bare,
    format_type,
    holds_null,
    is_optional,
    optional,
)


def struct_at(call: Invocation, index: int) -> tuple[Expression, StructType]:
    given = value_at(call, index)
    kind = bare(given.type)
    if not isinstance(kind, StructType):
        raise argument_fault(call, f"Expected struct type, but got: {format_type(given.type)}")
    return given, kind


def name_at(call: Invocation, index: int) -> str:
    """The operand, a name, which must be a constant."""
    return _text(evaluate_constant(value_at(call, index), call))


def _text(value: Value) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _names_at(call: Invocation, index: int) -> list[str]:
    return [_text(each) for each in _items_at(call, index)]


def _pairs_at(call: Invocation, index: int) -> list[tuple[str, str]]:
    pairs = _items_at(call, index)
    if any(not isinstance(each, tuple) or len(each) != 2 for each in pairs):
        raise argument_fault(call, f"Expected pairs of names as argument #{index + 1}")
    return [(_text(old), _text(new)) for old, new in pairs]


def _items_at(call: Invocation, index: int) -> Sequence[Value]:
    """The items of an operand that is a constant list or tuple."""
    given = value_at(call, index)
    if not isinstance(given.type, (ListType, TupleType, EmptyListType)):
        raise argument_fault(call, f"Expected a list or tuple of names, but got: {format_type(given.type)}")
    found: Sequence[Value] = evaluate_constant(given, call)
    return found


def members_of(given: Expression, kind: StructType) -> dict[str, Expression]:
    """Each member of a struct as an expression."""
    return {name: member_of(given, at, item) for at, (name, item) in enumerate(kind.members)}


def member_of(given: Expression, at: int, item: Type) -> Expression:
    return map_value(given, item, lambda value: value[at])


def _pick_members(given: Expression, kind: StructType, names: Iterable[tuple[str, str]]) -> Expression:
    """Build a struct of members under other names; `names` has pairs (name in `given`, name in the result)."""
    known = {name: at for at, (name, _) in enumerate(kind.members)}
    chosen = sorted((new, known[old]) for old, new in names)
    result = StructType(tuple((new, kind.members[at][1]) for new, at in chosen))
    places = [at for _, at in chosen]
    return map_value(given, result, lambda value: tuple(value[at] for at in places))


def _check_members(call: Invocation, kind: StructType, names: Iterable[str]) -> None:
    known = {name for name, _ in kind.members}
    for name in names:
        if name not in known:
            raise argument_fault(call, f"Unknown member name: {name}")


def _try_member(call: Invocation) -> Operand:
    """`TryMember(struct, "name", otherwise)`"""
    count_operands(call, 3)
    given, kind = struct_at(call, 0)
    found = members_of(given, kind).get(name_at(call, 1))
    otherwise = value_at(call, 2)
    if found is None:
        return otherwise
    if bare(found.type) != bare(otherwise.type) and not isinstance(otherwise.type, NullType):
        raise argument_fault(call, f"Mismatch of types: {format_type(found.type)} != {format_type(otherwise.type)}")
    if not is_optional(found.type):
        return found
    return apply_with_nulls([found, otherwise], otherwise.type, lambda a, b: b if a is None else a)


def _expand(call: Invocation) -> Operand:
    """`ExpandStruct(struct, 2 AS b)`"""
    if len(call.operands) != 1:
        raise argument_fault(call, "Expected a struct and named arguments")
    given, kind = struct_at(call, 0)
    added = []
    for name, operand in call.named:
        if not isinstance(operand, Expression):
            raise argument_fault(call, "Expected a value as named argument")
        added.append((name, operand))
    return struct_of(call, [*members_of(given, kind).items(), *added])


def _add(call: Invocation) -> Operand:
    count_operands(call, 3)
    given, kind = struct_at(call, 0)
    return struct_of(call, [*members_of(given, kind).items(), (name_at(call, 1), value_at(call, 2))])


def _remove_members(several: bool, force: bool) -> Builder:
    """RemoveMember(s) and ForceRemoveMember(s)."""

    def build(call: Invocation) -> Operand:
        count_operands(call, 2)
        given, kind = struct_at(call, 0)
        names = _names_at(call, 1) if several else [name_at(call, 1)]
        if not force:
            _check_members(call, kind, names)
        return _pick_members(given, kind, [(name, name) for name, _ in kind.members if name not in names])

    return build


def _replace(call: Invocation) -> Operand:
    """`ReplaceMember(struct, "name", value)`"""
    count_operands(call, 3)
    given, kind = struct_at(call, 0)
    name = name_at(call, 1)
    _check_members(call, kind, [name])
    return struct_of(call, {**members_of(given, kind), name: value_at(call, 2)}.items())


def _choose(call: Invocation) -> Operand:
    count_operands(call, 2)
    given, kind = struct_at(call, 0)
    names = _names_at(call, 1)
    _check_members(call, kind, names)
    return _pick_members(given, kind, [(name, name) for name in names])


def _combine(call: Invocation) -> Operand:
    count_operands(call, 1, -1)
    members: list[tuple[str, Expression]] = []
    for index in range(len(call.operands)):
        members.extend(members_of(*struct_at(call, index)).items())
    return struct_of(call, members)


def _flatten(call: Invocation) -> Operand:
    """`FlattenMembers(AsTuple("prefix", struct), ...)`"""
    count_operands(call, 1, -1)
    members: list[tuple[str, Expression]] = []
    for index in range(len(call.operands)):
        given = value_at(call, index)
        kind = given.type
        if not isinstance(kind, TupleType) or len(kind.items) != 2 or not isinstance(bare(kind.items[1]), StructType):
            raise argument_fault(call, f"Expected a tuple of a prefix and a struct, but got: {format_type(kind)}")
        prefix = _text(evaluate_constant(member_of(given, 0, STRING), call)) if given.constant else None
        if prefix is None:
            raise argument_fault(call, "Expected a constant prefix")
        inner, of = member_of(given, 1, kind.items[1]), bare(kind.items[1])
        assert isinstance(of, StructType)
        members.extend((prefix + name, each) for name, each in members_of(inner, of).items())
    return struct_of(call, members)


def _names(call: Invocation) -> Operand:
    count_operands(call, 1)
    if isinstance(value_at(call, 0).type, NullType):
        return Expression(EMPTY_LIST, lambda row, run: [], constant=True)
    _, kind = struct_at(call, 0)
    return constant(ListType(STRING), [name.encode() for name, _ in kind.members])


def _rename(force: bool) -> Builder:
    def build(call: Invocation) -> Operand:
        count_operands(call, 2)
        given, kind = struct_at(call, 0)
        pairs = _pairs_at(call, 1)
        known = {name for name, _ in kind.members}
        if not force:
            _check_members(call, kind, [old for old, _ in pairs])
        moved = {old for old, _ in pairs}
        kept = [(name, name) for name in known if name not in moved]
        wanted = [*kept, *((old, new) for old, new in pairs if old in known)]
        names = [new for _, new in wanted]
        if len(set(names)) != len(names):
            raise argument_fault(call, f"Duplicated member: {next(each for each in names if names.count(each) > 1)}")
        return _pick_members(given, kind, wanted)

    return build


def _gather(call: Invocation) -> Operand:
    count_operands(call, 1)
    if isinstance(value_at(call, 0).type, NullType):
        return Expression(EMPTY_LIST, lambda row, run: [], constant=True)
    given, kind = struct_at(call, 0)
    names = [name.encode() for name, _ in kind.members]
    # The members are read only if the struct is not NULL, so their types are those without NULL.
    bare_struct = Expression(kind, given.evaluate, constant=given.constant)
    item, parts = common_type(call, list(members_of(bare_struct, kind).values()))
    result = ListType(TupleType((STRING, item)))
    made = apply_with_nulls(parts, result, lambda *values: list(zip(names, values, strict=True)))
    if not is_optional(given.type):
        return made
    outer, inner = given.evaluate, made.evaluate
    return Expression(
        optional(result), lambda row, run: None if outer(row, run) is None else inner(row, run), given.constant
    )


def _spread(force: bool) -> Builder:
    def build(call: Invocation) -> Operand:
        count_operands(call, 2)
        given, names = value_at(call, 0), _names_at(call, 1)
        kind = bare(given.type)
        item = kind.item if isinstance(kind, ListType) else None
        if not isinstance(item, TupleType) or len(item.items) != 2:
            raise argument_fault(call, f"Expected list of pairs, but got: {format_type(given.type)}")
        payload = item.items[1]
        some: Callable[[Value], Value] = _identity if holds_null(payload) else wrap_optional(payload)
        ordered = sorted(names)
        result = StructType(tuple((name, optional(payload)) for name in ordered))

        def spread(pairs: Value) -> Value:
            # The last of equal names wins.
            found = {_text(name): some(value) for name, value in pairs}
            if not force and not set(found) <= set(names):
                raise argument_fault(call, f"Unknown member name: {next(each for each in found if each not in names)}")
            return tuple(found.get(name) for name in ordered)

        return map_value(given, result, spread)

    return build


def _identity(value: Value) -> Value:
    return value


# --- two structs -----------------------------------------------------------------------------------------------------


def _merge_structs(names: Callable[[set[str], set[str]], set[str]], merging: bool) -> Builder:
    """StructUnion and others; a lambda (name, left?, right?) may merge members of the same name."""

    def build(call: Invocation) -> Operand:
        from mayflydb.query.yql.functions.support import as_lambda

        given = count_operands(call, 2, 3 if merging else 2)
        left, right = members_of(*struct_at(call, 0)), members_of(*struct_at(call, 1))
        members = []
        for name in sorted(names(set(left), set(right))):
            found = left.get(name, right.get(name))
            assert found is not None
            if given == 3:
                found = _merge(as_lambda(call.operands[2]), name, left.get(name), right.get(name), found.type)
            members.append((name, found))
        return struct_of(call, members)

    return build


def _merge(merge: Lambda, name: str, left: Expression | None, right: Expression | None, kind: Type) -> Expression:
    def side(given: Expression | None) -> Expression:
        if given is None:
            return constant(optional(kind), None)
        return given if holds_null(given.type) else as_optional(given)

    one, two = side(left), side(right)
    body = merge.bind([STRING, one.type, two.type])
    first, second, label = one.evaluate, two.evaluate, name.encode()
    return Expression(body.type, lambda row, run: body.call((label, first(row, run), second(row, run)), row, run))


def as_optional(given: Expression) -> Expression:
    """The same value as an Optional."""
    return Expression(OptionalType(given.type), given.evaluate, given.constant)


# --- variants --------------------------------------------------------------------------------------------------------


def _variant_at(call: Invocation, index: int) -> tuple[Expression, VariantType]:
    given = value_at(call, index)
    kind = bare(given.type)
    if not isinstance(kind, VariantType):
        raise argument_fault(call, f"Expected variant type, but got: {format_type(given.type)}")
    return given, kind


def _way(call: Invocation) -> Operand:
    """`Way(variant)`: the name of the alternative, or its number."""
    from mayflydb.query.yql.types import UINT32, UTF8

    count_operands(call, 1)
    if isinstance(value_at(call, 0).type, NullType):
        return value_at(call, 0)
    given, kind = _variant_at(call, 0)
    if isinstance(kind.over, StructType):
        names = [name for name, _ in kind.over.members]
        return map_value(given, UTF8, lambda value: names[value[0]])
    return map_value(given, UINT32, lambda value: value[0])


def _variant_item(call: Invocation) -> Operand:
    """`VariantItem(variant)`: the value, if all alternatives have the same type."""
    count_operands(call, 1)
    if isinstance(value_at(call, 0).type, NullType):
        return value_at(call, 0)
    given, kind = _variant_at(call, 0)
    items = {item for _, item in alternatives(kind)}
    if len(items) != 1:
        raise argument_fault(call, "All types of alternatives must be the same")
    return map_value(given, items.pop(), lambda value: value[1])


BUILDERS: Final[dict[str, Builder]] = {
    "TryMember": _try_member,
    "ExpandStruct": _expand,
    "AddMember": _add,
    "RemoveMember": _remove_members(several=False, force=False),
    "ForceRemoveMember": _remove_members(several=False, force=True),
    "RemoveMembers": _remove_members(several=True, force=False),
    "ForceRemoveMembers": _remove_members(several=True, force=True),
    "ReplaceMember": _replace,
    "ChooseMembers": _choose,
    "CombineMembers": _combine,
    "FlattenMembers": _flatten,
    "StructMembers": _names,
    "RenameMembers": _rename(force=False),
    "ForceRenameMembers": _rename(force=True),
    "GatherMembers": _gather,
    "SpreadMembers": _spread(force=False),
    "ForceSpreadMembers": _spread(force=True),
    "StructUnion": _merge_structs(lambda a, b: a | b, merging=True),
    "StructIntersection": _merge_structs(lambda a, b: a & b, merging=True),
    "StructDifference": _merge_structs(lambda a, b: a - b, merging=False),
    "StructSymmetricDifference": _merge_structs(lambda a, b: a ^ b, merging=False),
    "Way": _way,
    "VariantItem": _variant_item,
}
