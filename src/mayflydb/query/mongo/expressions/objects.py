"""Operators over documents and their fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bson import Binary

from mayflydb.query.mongo.expressions.core import (
    ArgumentCodes,
    CompileScope,
    Constant,
    Expression,
    Frame,
    Parser,
    apply_function,
    check_arguments,
    fixed_arity,
    is_nullish,
    ranged_arity,
)
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.values import MISSING, Document, Value, encode, format_value, type_name


def _merge(*values: Value) -> Value:
    merged: Document = {}
    for value in values:
        if is_nullish(value):
            continue
        if type(value) is not dict:
            raise MqlError(
                40400,
                f"$mergeObjects requires object inputs, but input {format_value(value)} is of type {type_name(value)}",
            )
        merged.update(value)
    return merged


def _compile_merge(name: str, spec: Value, scope: CompileScope) -> Expression:
    """Compile `$mergeObjects`. A single operand that yields an array stands for its elements."""
    if type(spec) is list:
        return ranged_arity(0, None, _merge)(name, spec, scope)
    # `{$mergeObjects: "$array"}` merges the documents of the array.
    return apply_function(lambda value: _merge(*value) if type(value) is list else _merge(value), [scope.compile(spec)])


def _to_array(value: Value) -> Value:
    if is_nullish(value):
        return None
    if type(value) is not dict:
        raise MqlError(40390, f"$objectToArray requires a document input, found: {type_name(value)}")
    return [{"k": name, "v": each} for name, each in value.items()]


def _to_object(value: Value) -> Value:
    if is_nullish(value):
        return None
    if type(value) is not list:
        raise MqlError(40386, f"$arrayToObject requires an array input, found: {type_name(value)}")
    if not value:
        return {}
    if type(value[0]) is list:
        return dict(_pair_of_array(each) for each in value)
    if type(value[0]) is dict:
        return dict(_pair_of_object(each) for each in value)
    raise MqlError(40398, f"Unrecognised input type format for $arrayToObject: {type_name(value[0])}")


def _pair_of_array(pair: Value) -> tuple[str, Value]:
    if type(pair) is not list:
        raise MqlError(
            40396,
            f"$arrayToObject requires a consistent input format. Elements must all be arrays or all be objects. "
            f"Array was detected, now found: {type_name(pair)}",
        )
    if len(pair) != 2:
        raise MqlError(40397, f"$arrayToObject requires an array of size 2 arrays,found array of size: {len(pair)}")
    return _check_key(
        pair[0], 40395, "array of key-value pairs, where the key must be of type string. Found key type: "
    ), pair[1]


def _pair_of_object(pair: Value) -> tuple[str, Value]:
    if type(pair) is not dict:
        raise MqlError(
            40391,
            f"$arrayToObject requires a consistent input format. Elements must all be arrays or all be objects. "
            f"Object was detected, now found: {type_name(pair)}",
        )
    if len(pair) != 2:
        raise MqlError(
            40392,
            f"$arrayToObject requires an object keys of 'k' and 'v'. Found incorrect number of keys:{len(pair)}",
        )
    if "k" not in pair or "v" not in pair:
        raise MqlError(40393, "$arrayToObject requires an object with keys 'k' and 'v'. Missing either or both keys")
    return _check_key(
        pair["k"], 40394, "object with keys 'k' and 'v', where the value of 'k' must be of type string. Found type: "
    ), pair["v"]


def _check_key(value: Value, code: int, message: str) -> str:
    if type(value) is not str:
        raise MqlError(code, f"$arrayToObject requires an {message}{type_name(value)}")
    if "\0" in value:
        raise MqlError(4940400, "Key field cannot contain an embedded null byte")
    return value


# --- fields by name --------------------------------------------------------------------------------------------------

_GET_CODES: Final = ArgumentCodes(3041701, 3041701, {"field": 3041702, "input": 3041703})
_SET_CODES: Final = ArgumentCodes(4161100, 4161101, {"field": 4161102, "value": 4161103, "input": 4161109})


def _compile_get_field(name: str, spec: Value, scope: CompileScope) -> Expression:
    if type(spec) is dict and not (len(spec) == 1 and next(iter(spec)).startswith("$")):
        given = check_arguments(name, spec, ("field", "input"), (), _GET_CODES)
        source = scope.compile(given["input"])
        field = scope.compile(given["field"])
    else:
        field = scope.compile(spec)
        source = scope.compile("$$CURRENT")

    def get(frame: Frame) -> Value:
        key = field(frame)
        if type(key) is not str:
            raise MqlError(3041704, f"$getField requires 'field' to evaluate to type String, but got {type_name(key)}")
        value = source(frame)
        if value is None:
            return None
        return value.get(key, MISSING) if type(value) is dict else MISSING

    return get


def _compile_set_field(name: str, spec: Value, scope: CompileScope) -> Expression:
    given = check_arguments(name, spec, ("field", "input", "value"), (), _SET_CODES)
    return _compile_change(name, given, scope.compile(given["value"]), scope)


def _compile_unset_field(name: str, spec: Value, scope: CompileScope) -> Expression:
    given = check_arguments(name, spec, ("field", "input"), (), _SET_CODES)
    return _compile_change(name, given, Constant(MISSING), scope)


def _compile_change(name: str, given: Document, content: Expression, scope: CompileScope) -> Expression:
    field = scope.compile(given["field"])
    if type(field) is not Constant:
        raise MqlError(4161106, f"{name} requires 'field' to evaluate to a constant, but got a non-constant argument")
    key = field.value
    if type(key) is not str:
        raise MqlError(4161107, f"{name} requires 'field' to evaluate to type String, but got {type_name(key)}")
    source = scope.compile(given["input"])

    def put(frame: Frame) -> Value:
        document = source(frame)
        if is_nullish(document):
            return None
        if type(document) is not dict:
            raise MqlError(4161105, f"{name} requires 'input' to evaluate to type Object")
        value = content(frame)
        changed = dict(document)
        if value is MISSING:
            changed.pop(key, None)
        else:
            changed[key] = value
        return changed

    return put


# --- sizes -----------------------------------------------------------------------------------------------------------


def _bson_size(value: Value) -> Value:
    if is_nullish(value):
        return None
    if type(value) is not dict:
        raise MqlError(31393, f"$bsonSize requires a document input, found: {type_name(value)}")
    return len(encode(value))


def _binary_size(value: Value) -> Value:
    if is_nullish(value):
        return None
    if type(value) is str:
        return len(value.encode(errors="surrogateescape"))
    if type(value) in (bytes, Binary):
        return len(value)
    raise MqlError(51276, f"$binarySize requires a string or BinData argument, found: {type_name(value)}")


OPERATORS: Final[Mapping[str, Parser]] = {
    "$mergeObjects": _compile_merge,
    "$objectToArray": fixed_arity(1, _to_array),
    "$arrayToObject": fixed_arity(1, _to_object),
    "$getField": _compile_get_field,
    "$setField": _compile_set_field,
    "$unsetField": _compile_unset_field,
    "$bsonSize": fixed_arity(1, _bson_size),
    "$binarySize": fixed_arity(1, _binary_size),
}
