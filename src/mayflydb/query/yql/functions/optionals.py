"""Functions of NULL and conditions: Just, Unwrap, Ensure, IF, Coalesce, NVL, NANVL, Least, Greatest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mayflydb.query.yql import comparison
from mayflydb.query.yql.expression import Builder, Expression, Invocation, Operand
from mayflydb.query.yql.faults import Fault, fault
from mayflydb.query.yql.functions.support import (
    apply_with_nulls,
    argument_fault,
    common_type,
    constant,
    convert_operand,
    count_operands,
    unwrap_optional,
    value_at,
    values_of,
    wrap_optional,
)
from mayflydb.query.yql.schemas import Row, Run
from mayflydb.query.yql.types import (
    BOOL,
    FLOATS,
    NULL,
    STRING,
    OptionalType,
    Value,
    bare,
    format_type,
    is_optional,
    optional,
)


def _just(call: Invocation) -> Operand:
    count_operands(call, 1)
    given = value_at(call, 0)
    return apply_with_nulls([given], OptionalType(given.type), wrap_optional(given.type))


def _as_optional(call: Invocation) -> Operand:
    """`AsOptional(value)`: as Just, except that an Optional stays as it is."""
    count_operands(call, 1)
    return value_at(call, 0) if is_optional(value_at(call, 0).type) else _just(call)


def _unwrap(call: Invocation) -> Operand:
    """`Unwrap(value? [, message])`"""
    given = count_operands(call, 1, 2)
    value = value_at(call, 0)
    if not isinstance(value.type, OptionalType):
        raise argument_fault(call, f"Expected optional type, but got: {format_type(value.type)}")
    message = convert_operand(call, 1, STRING).evaluate if given == 2 else None
    evaluate, inside = value.evaluate, unwrap_optional(value.type)

    def unwrap(row: Row, run: Run) -> Value:
        found = evaluate(row, run)
        if found is None:
            said = b"" if message is None else message(row, run) or b""
            raise _failure("Failed to unwrap empty optional", said, call)
        return inside(found)

    return Expression(value.type.item, unwrap, constant=value.constant)


def _failure(what: str, message: bytes, call: Invocation) -> Fault:
    return fault(f"{what}: {message.decode('utf-8', 'replace')}" if message else what, call.position)


def _ensure(call: Invocation) -> Operand:
    """`Ensure(value, condition [, message])`"""
    given = count_operands(call, 2, 3)
    value, condition = value_at(call, 0), condition_at(call, 1)
    message = convert_operand(call, 2, STRING).evaluate if given == 3 else None

    def ensure(row: Row, run: Run) -> Value:
        if not condition(row, run):
            said = b"" if message is None else message(row, run) or b""
            raise fault(said.decode("utf-8", "replace") or "Condition violated", call.position)
        return value.evaluate(row, run)

    return Expression(value.type, ensure)


def _ensure_type(call: Invocation) -> Operand:
    """`EnsureType(value, Type [, message])`: the value; a Fault if it is not of that type."""
    return _check_type(call, converted=False)


def _ensure_convertible(call: Invocation) -> Operand:
    return _check_type(call, converted=True)


def _check_type(call: Invocation, converted: bool) -> Operand:
    from mayflydb.query.yql.functions.support import coerce, evaluate_constant, type_at

    given = count_operands(call, 2, 3)
    value, kind = value_at(call, 0), type_at(call, 1)
    if value.type == kind or (converted and coerce(value, kind) is not None):
        return value
    message = coerce(value_at(call, 2), STRING) if given == 3 else constant(STRING, b"")
    if message is None:
        raise argument_fault(
            call, f"Mismatch type argument #3, type diff: {format_type(value_at(call, 2).type)} != String"
        )
    said = evaluate_constant(message, call)
    raise argument_fault(
        call,
        f"Mismatch types: expected {format_type(kind)}, but got {format_type(value.type)}"
        + (f", {said.decode('utf-8', 'replace')}" if said else ""),
    )


def condition_at(call: Invocation, index: int) -> Callable[[Row, Run], Value]:
    """Return the operand, a Bool, as a function; NULL counts as false."""
    given = value_at(call, index)
    if given.type != NULL and bare(given.type) != BOOL:
        raise argument_fault(call, f"Expected type: Bool, but got: {format_type(given.type)}")
    return given.evaluate


def _if(call: Invocation) -> Operand:
    """`IF(condition, then [, else])`"""
    condition = condition_at(call, 0) if count_operands(call, 2, 3) else None
    assert condition is not None
    fixed = value_at(call, 0).constant
    if len(call.operands) == 3:
        kind, (yes, no) = common_type(call, [value_at(call, 1), value_at(call, 2)])
    else:
        yes = value_at(call, 1)
        kind, no = optional(yes.type), constant(NULL, None)
    first, second = yes.evaluate, no.evaluate
    return Expression(
        kind,
        lambda row, run: first(row, run) if condition(row, run) else second(row, run),
        constant=fixed and yes.constant and no.constant,
    )


def _coalesce(call: Invocation) -> Operand:
    """The first operand that is not NULL; the result is Optional only if the last operand is."""
    count_operands(call, 1, -1)
    given = [each for each in values_of(call) if each.type != NULL] or values_of(call)[:1]
    # An operand that cannot be NULL is the result, whatever follows.
    if len(given) == 1 or not is_optional(given[0].type):
        return given[0]
    for index, each in enumerate(given):  # Operands behind the first one that cannot be NULL have no effect.
        if not is_optional(each.type):
            given = given[: index + 1]
            break
    # The last operand is reached only if all others are NULL.
    certain = not is_optional(given[-1].type)
    kind, given = common_type(call, given)
    evaluates = [each.evaluate for each in given]

    def first(row: Row, run: Run) -> Value:
        for evaluate in evaluates:
            value = evaluate(row, run)
            if value is not None:
                return value
        return None

    return Expression(bare(kind) if certain else kind, first, constant=all(each.constant for each in given))


def _nanvl(call: Invocation) -> Operand:
    """`NANVL(value, instead)`: `instead` if the value is nan."""
    count_operands(call, 2)
    kind, (value, instead) = common_type(call, values_of(call))
    if bare(kind) not in FLOATS:
        raise argument_fault(call, f"Expected floating point type, but got: {format_type(kind)}")
    return apply_with_nulls([value, instead], kind, lambda a, b: b if a is not None and a != a else a)


def _extreme_of(greatest: bool) -> Builder:
    """MIN_OF and MAX_OF: NULL if an operand is NULL."""

    def build(call: Invocation) -> Operand:
        count_operands(call, 1, -1)
        kind, given = common_type(call, values_of(call))
        key = comparison.sort_key(bare(kind))

        def choose(*values: Value) -> Value:
            if None in values:
                return None
            return max(values, key=key) if greatest else min(values, key=key)

        return apply_with_nulls(given, kind, choose)

    return build


def _likely(call: Invocation) -> Operand:
    count_operands(call, 1)
    condition_at(call, 0)
    return value_at(call, 0)


BUILDERS: Final[dict[str, Builder]] = {
    "Just": _just,
    "AsOptional": _as_optional,
    "Unwrap": _unwrap,
    "Ensure": _ensure,
    "EnsureType": _ensure_type,
    "EnsureConvertibleTo": _ensure_convertible,
    "If": _if,
    "Coalesce": _coalesce,
    "Nvl": _coalesce,
    "Nanvl": _nanvl,
    "MaxOf": _extreme_of(greatest=True),
    "Greatest": _extreme_of(greatest=True),
    "MinOf": _extreme_of(greatest=False),
    "Least": _extreme_of(greatest=False),
    "Likely": _likely,
}
