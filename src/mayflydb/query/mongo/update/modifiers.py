"""Modifiers of single values. Each compiles its argument once to a node that changes the value at the path."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from bson import DatetimeMS, Int64, Timestamp

from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.faults import MqlError, bad_value
from mayflydb.query.mongo.update import arithmetic
from mayflydb.query.mongo.update.identical import identical
from mayflydb.query.mongo.update.tree import ModifierNode, Trail, UpdateRun
from mayflydb.query.mongo.values import MISSING, Document, Value, format_value, is_number, timestamp_at, type_name

Modifier: TypeAlias = Callable[[str, Value, Env], ModifierNode]
"""Compiles a modifier from its path and argument. MqlError for an invalid argument."""


def compile_set(_path: str, argument: Value, _env: Env) -> ModifierNode:
    """Compile `$set`."""
    return ModifierNode(_setter(argument))


def compile_set_on_insert(_path: str, argument: Value, _env: Env) -> ModifierNode:
    """Compile `$setOnInsert`."""
    return ModifierNode(_setter(argument), only_inserting=True)


def compile_unset(_path: str, _argument: Value, _env: Env) -> ModifierNode:
    """Compile `$unset`; its argument is ignored."""
    return ModifierNode(lambda _old, _trail, _run: MISSING, lenient=True)


def compile_increment(path: str, argument: Value, _env: Env) -> ModifierNode:
    """Compile `$inc`. A missing field counts as 0."""
    _check_number("increment", path, argument)

    def act(old: Value, trail: Trail, run: UpdateRun) -> Value:
        # No addition to 0, so that -0.0 and the exponent of a decimal stay as given.
        return argument if old is MISSING else _calculate("$inc", arithmetic.add, old, argument, trail, run)

    return ModifierNode(act)


def compile_multiply(path: str, argument: Value, _env: Env) -> ModifierNode:
    """Compile `$mul`. A missing field becomes 0 of the argument's type."""
    _check_number("multiply", path, argument)

    def act(old: Value, trail: Trail, run: UpdateRun) -> Value:
        # The product with an int32 of 0 is a zero of the argument's type.
        return _calculate("$mul", arithmetic.multiply, 0 if old is MISSING else old, argument, trail, run)

    return ModifierNode(act)


def compile_minimum(_path: str, argument: Value, env: Env) -> ModifierNode:
    """Compile `$min`, by the order of all types."""
    key = env.collation.order_key
    limit = key(argument)
    return ModifierNode(lambda old, _trail, _run: argument if old is MISSING or limit < key(old) else old)


def compile_maximum(_path: str, argument: Value, env: Env) -> ModifierNode:
    """Compile `$max`, by the order of all types."""
    key = env.collation.order_key
    limit = key(argument)
    return ModifierNode(lambda old, _trail, _run: argument if old is MISSING or limit > key(old) else old)


def compile_current_date(_path: str, argument: Value, env: Env) -> ModifierNode:
    """Compile `$currentDate: true`, `{$type: "date"}` or `{$type: "timestamp"}`."""
    value: Value = DatetimeMS(env.now)
    if type(argument) is dict:
        for name in argument:
            if name != "$type":
                raise bad_value(f"Unrecognized $currentDate option: {name}")
        if argument.get("$type") not in ("date", "timestamp"):
            raise bad_value(
                "The '$type' string field is required to be 'date' or 'timestamp': {$currentDate: {field : {$type: 'date'}}}"
            )
        if argument["$type"] == "timestamp":
            value = command_timestamp(env)
    elif type(argument) is not bool:
        raise bad_value(
            f"{type_name(argument)} is not valid type for $currentDate."
            " Please use a boolean ('true') or a $type expression ({$type: 'timestamp/date'})."
        )
    return ModifierNode(_setter(value))


def command_timestamp(env: Env) -> Timestamp:
    """Return the time of the command as a Timestamp, in seconds."""
    return timestamp_at(env.now // 1000)


_BITS: Final[Mapping[str, Callable[[int, int], int]]] = {
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
}


def compile_bit(_path: str, argument: Value, _env: Env) -> ModifierNode:
    """Compile `$bit: {and | or | xor: <integer>}`. Several operations apply in order; a missing field counts as 0."""
    format_ = "{$bit: {field: {and/or/xor: #}}"
    if type(argument) is not dict:
        raise bad_value(
            f"The $bit modifier is not compatible with a {type_name(argument)}. You must pass in an embedded document: {format_}"
        )
    for name, operand in argument.items():
        if name not in _BITS:
            raise bad_value(
                f"The $bit modifier only supports 'and', 'or', and 'xor', not '{name}' which is an unknown operator:"
                f" {{{name}: {format_value(operand)}}}"
            )
        if not arithmetic.is_integer(operand):
            raise bad_value(
                f"The $bit modifier field must be an Integer(32/64 bit); a '{type_name(operand)}' is not supported here:"
                f" {{{name}: {format_value(operand)}}}"
            )
    if not argument:
        raise bad_value(f"You must pass in at least one bitwise operation. The format is: {format_}")

    def act(old: Value, trail: Trail, run: UpdateRun) -> Value:
        if old is not MISSING and not arithmetic.is_integer(old):
            raise bad_value(
                f"Cannot apply $bit to a value of non-integral type.{id_of(run.root)} has the field {trail[-1]}"
                f" of non-integer type {type_name(old)}"
            )
        new = 0 if old is MISSING else old
        for name, operand in argument.items():
            new = arithmetic.bitwise(new, operand, _BITS[name])
        return old if identical(old, new) else new

    return ModifierNode(act)


def id_of(document: Document) -> str:
    """Return the `_id` of a document as messages print it."""
    return f"_id: {format_value(document['_id'])}" if "_id" in document else "no id"


def _setter(value: Value) -> Callable[[Value, Trail, UpdateRun], Value]:
    return lambda old, _trail, _run: old if identical(old, value) else value


def _check_number(verb: str, path: str, argument: Value) -> None:
    if not is_number(argument):
        raise MqlError(14, f"Cannot {verb} with non-numeric argument: {{{path}: {format_value(argument)}}}")


def _calculate(
    name: str, operation: Callable[[Any, Any], Value | None], old: Value, by: Value, trail: Trail, run: UpdateRun
) -> Value:
    if not is_number(old):
        raise MqlError(
            14,
            f"Cannot apply {name} to a value of non-numeric type. {{{id_of(run.root)}}} has the field '{trail[-1]}'"
            f" of non-numeric type {type_name(old)}",
        )
    new = operation(old, by)
    if new is None:
        current = f"({'NumberLong' if type(old) is Int64 or arithmetic.is_long(old) else 'NumberInt'}){old}"
        raise bad_value(
            f"Failed to apply {name} operations to current value ({current}) for document {{{id_of(run.root)}}}"
        )
    return old if identical(old, new) else new
