"""The array modifiers: `$push`, `$addToSet`, `$pop`, `$pull`, `$pullAll`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec
from bson import Decimal128, Regex

from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.faults import MqlError, bad_value, failed_to_parse
from mayflydb.query.mongo.filter import compile_filter
from mayflydb.query.mongo.paths import REFERENCE
from mayflydb.query.mongo.update.identical import identical
from mayflydb.query.mongo.update.modifiers import id_of
from mayflydb.query.mongo.update.tree import ModifierNode, Trail, UpdateRun, as_index
from mayflydb.query.mongo.values import (
    INT64_MAX,
    INT64_MIN,
    MISSING,
    Document,
    Value,
    format_value,
    is_number,
    type_name,
)
from mayflydb.query.sorting import sort_in_runs

# --- $push -----------------------------------------------------------------------------------------------------------


class Push(msgspec.Struct, frozen=True):
    """A `$push`: `values` are inserted at `position`, then the array is sorted, then cut to `slice_`."""

    values: list[Value]
    position: int | None = None
    slice_: int | None = None
    sort: Callable[[list[Value]], list[Value]] | None = None

    def insert_into(self, array: list[Value]) -> list[Value]:
        """Return the new array."""
        at = len(array) if self.position is None else self.position
        # A negative position before the start counts as the start.
        at = max(len(array) + at, 0) if at < 0 else at
        new = [*array[:at], *self.values, *array[at:]]
        if self.sort is not None:
            new = self.sort(new)
        if self.slice_ is None:
            return new
        # A negative $slice keeps the last elements.
        return new[: self.slice_] if self.slice_ >= 0 else new[self.slice_ :]


def compile_push(_path: str, argument: Value, env: Env) -> ModifierNode:
    """Compile `$push` of one value, or of `{$each, [$position], [$slice], [$sort]}`."""
    modifier = _parse_push(argument, env) if type(argument) is dict and "$each" in argument else Push([argument])

    def act(old: Value, trail: Trail, run: UpdateRun) -> Value:
        if old is MISSING:
            return modifier.insert_into([])
        if type(old) is not list:
            raise bad_value(
                f"The field '{'.'.join(trail)}' must be an array but is of type {type_name(old)}"
                f" in document {{{id_of(run.root)}}}"
            )
        new = modifier.insert_into(old)
        return old if identical(old, new) else new

    return ModifierNode(act)


def _parse_push(argument: Document, env: Env) -> Push:
    for name in argument:
        if name not in ("$each", "$slice", "$sort", "$position"):
            raise bad_value(f"Unrecognized clause in $push: {name}")
    values = argument["$each"]
    if type(values) is not list:
        raise bad_value(f"The argument to $each in $push must be an array but it was of type: {type_name(values)}")
    slice_, position = argument.get("$slice", MISSING), argument.get("$position", MISSING)
    if slice_ is not MISSING and _exact_int64(slice_) is None:
        raise bad_value(f"The value for $slice must be an integer value but was given type: {type_name(slice_)}")
    if position is not MISSING and _exact_int64(position) is None:
        raise bad_value(f"The value for $position must be an integer value, not of type: {type_name(position)}")
    sort = argument.get("$sort", MISSING)
    return Push(
        values,
        None if position is MISSING else _exact_int64(position),
        None if slice_ is MISSING else _exact_int64(slice_),
        None if sort is MISSING else _parse_sort(sort, env),
    )


def _exact_int64(value: Value) -> int | None:
    """Return the integer value of a number of any type; None for a fraction, a value beyond int64, or another type."""
    if not is_number(value):
        return None
    number = value.to_decimal() if type(value) is Decimal128 else value
    if type(number) is not float and type(value) is not Decimal128:
        return int(number)
    if number != number or not INT64_MIN <= number <= INT64_MAX or number != int(number):
        return None
    return int(number)


_DIRECTION: Final = "The $sort element value must be either 1 or -1"


def _parse_sort(sort: Value, env: Env) -> Callable[[list[Value]], list[Value]]:
    key = env.collation.order_key
    if is_number(sort):
        if _exact_int64(sort) not in (1, -1):
            raise bad_value(_DIRECTION)
        backwards = _exact_int64(sort) == -1
        return lambda values: sort_in_runs(values, key, backwards)
    if type(sort) is not dict:
        raise bad_value(
            "The $sort is invalid: use 1/-1 to sort the whole element, or {field:1/-1} to sort embedded fields"
        )
    if not sort:
        raise bad_value("The $sort pattern is empty when it should be a set of fields.")
    fields: list[tuple[list[str], bool]] = []
    for path, direction in sort.items():
        if _exact_int64(direction) not in (1, -1):
            raise bad_value(_DIRECTION)
        if not path:
            raise bad_value("The $sort field cannot be empty")
        parts = path.split(".")
        if "" in parts:
            raise bad_value(f"The $sort field is a dotted field but has an empty part: {path}")
        fields.append((parts, _exact_int64(direction) == -1))

    def by(parts: list[str]) -> Callable[[Value], Any]:
        return lambda value: key(_value_at(value, parts))

    def sort_by_fields(values: list[Value]) -> list[Value]:
        # Sorting is stable, so the last field is sorted first.
        for parts, backwards in reversed(fields):
            values = sort_in_runs(values, by(parts), backwards)
        return values

    return sort_by_fields


def _value_at(value: Value, parts: list[str]) -> Value:
    """Return the value at a path; null if there is none."""
    for part in parts:
        if type(value) is dict:
            value = value.get(part)
        elif type(value) is list:
            index = as_index(part)
            value = value[index] if index is not None and index < len(value) else None
        else:
            return None
    return value


# --- $addToSet -------------------------------------------------------------------------------------------------------


def compile_add_to_set(_path: str, argument: Value, env: Env) -> ModifierNode:
    """Compile `$addToSet` of one value or of `{$each: [...]}`: values that equal no element are appended."""
    values = [argument]
    if type(argument) is dict and next(iter(argument), None) == "$each":
        values = argument["$each"]
        if type(values) is not list:
            raise MqlError(
                14, f"The argument to $each in $addToSet must be an array but it was of type {type_name(values)}"
            )
        if len(argument) > 1:
            raise bad_value(f"Found unexpected fields after $each in $addToSet: {format_value(argument)}")
    key = env.collation.order_key

    def act(old: Value, trail: Trail, _run: UpdateRun) -> Value:
        if old is not MISSING and type(old) is not list:
            raise bad_value(
                f"Cannot apply $addToSet to non-array field. Field named '{trail[-1]}' has non-array type {type_name(old)}"
            )
        # The values of the argument may repeat each other, too.
        present = set() if old is MISSING else {key(value) for value in old}
        added = []
        for value in values:
            if key(value) not in present:
                present.add(key(value))
                added.append(value)
        if old is MISSING:
            return added
        return [*old, *added] if added else old

    return ModifierNode(act)


# --- $pop, $pull, $pullAll -------------------------------------------------------------------------------------------


def compile_pop(path: str, argument: Value, _env: Env) -> ModifierNode:
    """Compile `$pop`: removes the last element for 1, the first for -1."""
    if not is_number(argument):
        raise failed_to_parse(f"Expected a number in: {path}: {format_value(argument)}")
    end = _exact_int64(argument)
    if end is None:
        raise failed_to_parse(f"Expected an integer: {path}: {format_value(argument)}")
    if end not in (1, -1):
        raise failed_to_parse(f"$pop expects 1 or -1, found: {end}")

    def act(old: Value, trail: Trail, _run: UpdateRun) -> Value:
        if old is MISSING:
            return old
        if type(old) is not list:
            raise MqlError(14, f"Path '{'.'.join(trail)}' contains an element of non-array type '{type_name(old)}'")
        if not old:
            return old
        return old[:-1] if end == 1 else old[1:]

    return ModifierNode(act)


_WHOLE_QUERIES: Final = frozenset(
    {"$and", "$or", "$nor", "$expr", "$jsonSchema", "$comment", "$where", "$text", *REFERENCE}
)


def compile_pull(_path: str, argument: Value, env: Env) -> ModifierNode:
    """Compile `$pull`: a query on elements that are documents, operators on each element, or a value to remove."""
    if type(argument) is dict:
        first = next(iter(argument), "")
        if not first.startswith("$") or first in _WHOLE_QUERIES:
            query = compile_filter(argument, env)
            return _remove_elements(lambda element: type(element) is dict and query.matches(element))
    if type(argument) in (dict, Regex):
        # Elements need not be documents, but a query applies to documents: both are wrapped in a field.
        condition = compile_filter({"element": argument}, env)
        return _remove_elements(lambda element: condition.matches({"element": element}))
    wanted = env.collation.order_key(argument)
    return _remove_elements(lambda element: bool(env.collation.order_key(element) == wanted))


def compile_pull_all(_path: str, argument: Value, env: Env) -> ModifierNode:
    """Compile `$pullAll`: removes every element that equals one of the values."""
    if type(argument) is not list:
        raise bad_value(f"$pullAll requires an array argument but was given a {type_name(argument)}")
    unwanted: set[Any] = {env.collation.order_key(value) for value in argument}
    return _remove_elements(lambda element: env.collation.order_key(element) in unwanted)


def _remove_elements(unwanted: Callable[[Value], bool]) -> ModifierNode:
    def act(old: Value, _trail: Trail, _run: UpdateRun) -> Value:
        if old is MISSING:
            return old
        if type(old) is not list:
            raise bad_value("Cannot apply $pull to a non-array value")
        kept = [element for element in old if not unwanted(element)]
        return old if len(kept) == len(old) else kept

    return ModifierNode(act)
