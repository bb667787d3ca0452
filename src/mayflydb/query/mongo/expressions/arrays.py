"""Operators over arrays, and those that evaluate an expression for each element."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mayflydb.model.releasing import SLICE, keep
from mayflydb.query.mongo.expressions.core import (
    ArgumentCodes,
    CompileScope,
    Expression,
    Frame,
    Function,
    Parser,
    apply_function,
    check_arguments,
    check_size,
    check_variable,
    compile_operands,
    fixed_arity,
    fold_constants,
    is_nullish,
    make_binder,
    measure_value,
    ranged_arity,
    with_scope,
)
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.numbers import exact_int32, exact_integer
from mayflydb.query.mongo.values import (
    INT32_MAX,
    INT32_MIN,
    MISSING,
    Value,
    format_value,
    is_number,
    is_truthy,
    type_name,
)
from mayflydb.query.sorting import sort_in_runs


def _size(value: Value) -> int:
    if type(value) is not list:
        raise MqlError(17124, f"The argument to $size must be an array, but was of type: {type_name(value)}")
    return len(value)


def _element_at(array: Value, place: Value) -> Value:
    if is_nullish(array) or is_nullish(place):
        return None
    if type(array) is not list:
        raise MqlError(28689, f"$arrayElemAt's first argument must be an array, but is {type_name(array)}")
    if not is_number(place):
        raise MqlError(28690, f"$arrayElemAt's second argument must be a numeric value, but is {type_name(place)}")
    index = exact_int32(place)
    if index is None:
        raise MqlError(
            28691, f"$arrayElemAt's second argument must be representable as a 32-bit integer: {format_value(place)}"
        )
    # Beyond the array the value is missing, not null.
    return array[index] if -len(array) <= index < len(array) else MISSING


def _membership(scope: CompileScope) -> Function:
    key = scope.comparison_key()

    def contains(value: Value, array: Value) -> bool:
        if type(array) is not list:
            raise MqlError(40081, f"$in requires an array as a second argument, found: {type_name(array)}")
        wanted = key(value)
        return any(key(each) == wanted for each in array)

    return contains


def _concat(*arrays: Value) -> Value:
    joined: list[Value] = []
    for array in arrays:
        if is_nullish(array):
            return None
        if type(array) is not list:
            raise MqlError(28664, f"$concatArrays only supports arrays, not {type_name(array)}")
        # A list takes 8 bytes for each element.
        check_size(8 * (len(joined) + len(array)))
        joined.extend(array)
    return joined


def _slice(array: Value, *places: Value) -> Value:
    if is_nullish(array) or any(is_nullish(each) for each in places):
        return None
    if type(array) is not list:
        raise MqlError(28724, f"First argument to $slice must be an array, but is of type: {type_name(array)}")
    first = _parse_slice_argument(
        places[0], 28725, "Second argument to $slice must be a numeric value, but is of type: ", "Second"
    )
    if len(places) == 1:
        return array[:first] if first >= 0 else array[first:]
    count = _parse_slice_argument(
        places[1], 28727, "Third argument to $slice must be numeric, but is of type: ", "Third"
    )
    if count <= 0:
        raise MqlError(28729, f"Third argument to $slice must be positive: {count}")
    start = max(0, len(array) + first) if first < 0 else first
    return array[start : start + count]


def _parse_slice_argument(value: Value, code: int, message: str, which: str) -> int:
    if not is_number(value):
        raise MqlError(code, f"{message}{type_name(value)}")
    place = exact_int32(value)
    if place is None:
        raise MqlError(
            code + 1, f"{which} argument to $slice can't be represented as a 32-bit integer: {format_value(value)}"
        )
    return place


def _reverse(array: Value) -> Value:
    if is_nullish(array):
        return None
    if type(array) is not list:
        raise MqlError(34435, f"The argument to $reverseArray must be an array, but was of type: {type_name(array)}")
    return array[::-1]


def bound_of(name: str, value: Value, what: str) -> int:
    """Parse a start or end index of `$indexOfArray` or `$indexOfCP`.

    MqlError 40096 and 40097 for an invalid index, 9711600 and 9711601 of `$indexOfArray`.
    """
    fraction, negative = (9711600, 9711601) if name == "$indexOfArray" else (40096, 40097)
    place = exact_int32(value)
    if place is None:
        raise MqlError(
            fraction,
            f"{name} requires an integral {what}, found a value of type: {type_name(value)}, with value: "
            f'"{format_value(value) if value is not MISSING else ""}"',
        )
    if place < 0:
        raise MqlError(negative, f"{name} requires a nonnegative {what}, found: {place}")
    return place


def _search(scope: CompileScope) -> Function:
    key = scope.comparison_key()

    def index_of(array: Value, wanted: Value, *bounds: Value) -> Value:
        if is_nullish(array):
            return None
        if type(array) is not list:
            raise MqlError(40090, f"$indexOfArray requires an array as a first argument, found: {type_name(array)}")
        start = bound_of("$indexOfArray", bounds[0], "starting index") if bounds else 0
        end = bound_of("$indexOfArray", bounds[1], "ending index") if len(bounds) > 1 else len(array)
        sought = key(wanted)
        for index in range(start, min(end, len(array))):
            if key(array[index]) == sought:
                return index
        return -1

    return index_of


# 100 MB at 16 bytes for each number.
_MAX_RANGE_LENGTH: Final = 100 * 1024 * 1024 // 16


def _compile_range(name: str, spec: Value, scope: CompileScope) -> Expression:
    places = apply_function(_range, compile_operands(name, spec, scope, 2, 3))
    # Constant operands are folded to a range, not to its numbers: three small numbers may stand for a hundred megabytes.
    return lambda frame: _list_numbers(places(frame))


def _list_numbers(places: range) -> list[int]:
    # Kept before it is filled: a stop may come at any time.
    made: list[int] = keep([], len(places))
    for begin in range(0, len(places), SLICE):
        made += places[begin : begin + SLICE]
    return made


def _range(start: Value, end: Value, step: Value = 1) -> range:
    first = _parse_range_argument(start, 34443, "starting")
    last = _parse_range_argument(end, 34445, "ending")
    by = _parse_range_argument(step, 34447, "step")
    if by == 0:
        raise MqlError(34449, "$range requires a non-zero step value")
    places = range(first, last, by)
    if len(places) > _MAX_RANGE_LENGTH:
        raise MqlError(146, f"$range would use too much memory: {len(places)} elements")
    return places


def _parse_range_argument(value: Value, code: int, which: str) -> int:
    if not is_number(value):
        raise MqlError(code, f"$range requires a numeric {which} value, found value of type: {type_name(value)}")
    place = exact_int32(value)
    if place is None:
        raise MqlError(
            code + 1,
            f"$range requires a {which} value that can be represented as a 32-bit integer, found value: {format_value(value)}",
        )
    return place


def _is_array(value: Value) -> bool:
    return type(value) is list


# --- for each element ------------------------------------------------------------------------------------------------

_MAP_CODES: Final = ArgumentCodes(16878, 16879, {"input": 16880, "in": 16882})
_FILTER_CODES: Final = ArgumentCodes(28646, 28647, {"input": 28648, "cond": 28650})
_REDUCE_CODES: Final = ArgumentCodes(40075, 40076, {"input": 40077, "initialValue": 40078, "in": 40079})


def _compile_map(name: str, spec: Value, scope: CompileScope) -> Expression:
    given = check_arguments(name, spec, ("input", "in"), ("as",), _MAP_CODES)
    variable = check_variable(given.get("as", "this"))
    source = scope.compile(given["input"])
    body = scope.with_names(variable).compile(given["in"])
    bind = make_binder(variable)

    def each(frame: Frame) -> Value:
        array = source(frame)
        if is_nullish(array):
            return None
        if type(array) is not list:
            raise MqlError(16883, f"input to $map must be an array not {type_name(array)}")
        inner, assign = bind(frame)
        results = []
        for element in array:
            assign(element)
            value = body(inner)
            results.append(None if value is MISSING else value)
        return results

    return each


def _compile_filter(name: str, spec: Value, scope: CompileScope) -> Expression:
    given = check_arguments(name, spec, ("input", "cond"), ("as", "limit"), _FILTER_CODES)
    variable = check_variable(given.get("as", "this"))
    source = scope.compile(given["input"])
    condition = scope.with_names(variable).compile(given["cond"])
    limit = scope.compile(given["limit"]) if "limit" in given else None
    bind = make_binder(variable)

    def filter_array(frame: Frame) -> Value:
        array = source(frame)
        if is_nullish(array):
            return None
        if type(array) is not list:
            raise MqlError(28651, f"input to $filter must be an array not {type_name(array)}")
        most = _parse_filter_limit(limit(frame)) if limit is not None else None
        inner, assign = bind(frame)
        results: list[Value] = []
        for element in array:
            assign(element)
            if is_truthy(condition(inner)):
                results.append(element)
                # `most` is None without a limit, which no length equals.
                if len(results) == most:
                    break
        return results

    return filter_array


def _parse_filter_limit(value: Value) -> int | None:
    if is_nullish(value):
        return None
    limit = exact_integer(value)
    if limit is None or not INT32_MIN <= limit <= INT32_MAX:
        raise MqlError(327391, f"$filter: limit must be represented as a 32-bit integral value: {format_value(value)}")
    if limit < 1:
        raise MqlError(327392, f"$filter: limit must be greater than 0: {limit}")
    return limit


def _compile_reduce(name: str, spec: Value, scope: CompileScope) -> Expression:
    given = check_arguments(name, spec, ("input", "initialValue", "in"), (), _REDUCE_CODES)
    source = scope.compile(given["input"])
    initial = scope.compile(given["initialValue"])
    body = scope.with_names("this", "value").compile(given["in"])
    bind = make_binder("value", "this")

    def reduce_array(frame: Frame) -> Value:
        array = source(frame)
        if is_nullish(array):
            return None
        if type(array) is not list:
            raise MqlError(40080, f"$reduce requires that 'input' be an array, found: {type_name(array)}")
        inner, assign = bind(frame)
        value = initial(frame)
        until_measured = 1
        for element in array:
            assign(value, element)
            value = body(inner)
            until_measured -= 1
            if not until_measured and type(value) in (str, list, dict):
                # A value that doubles with each element is caught early; a large value is not measured for each element.
                until_measured = min(4, 1 + measure_value(value) // 1000)
            elif not until_measured:
                until_measured = 1
        return value

    return reduce_array


# --- $zip and $sortArray ---------------------------------------------------------------------------------------------

_ZIP_CODES: Final = ArgumentCodes(34460, 34464, {"inputs": 34465})


def _compile_zip(name: str, spec: Value, scope: CompileScope) -> Expression:
    given = check_arguments(name, spec, ("inputs",), ("useLongestLength", "defaults"), _ZIP_CODES)
    inputs, defaults = given["inputs"], given.get("defaults", [])
    longest = given.get("useLongestLength", False)
    if type(inputs) is not list:
        raise MqlError(34461, f"inputs must be an array of expressions, found {type_name(inputs)}")
    if type(defaults) is not list:
        raise MqlError(34462, f"defaults must be an array of expressions, found {type_name(defaults)}")
    if type(longest) is not bool:
        raise MqlError(34463, f"useLongestLength must be a bool, found {type_name(longest)}")
    if not inputs:
        raise MqlError(34465, "$zip requires at least one input array")
    if defaults and not longest:
        raise MqlError(34466, "cannot specify defaults unless useLongestLength is true")
    if defaults and len(defaults) != len(inputs):
        raise MqlError(34467, "defaults and inputs must have the same length")
    sources = [scope.compile(each) for each in inputs]
    fillers = [scope.compile(each) for each in defaults or [None] * len(inputs)]

    def zip_arrays(frame: Frame) -> Value:
        arrays = [source(frame) for source in sources]
        if any(is_nullish(array) for array in arrays):
            return None
        for array in arrays:
            if type(array) is not list:
                raise MqlError(34468, f"$zip found a non-array expression in input: {format_value(array)}")
        filling = [filler(frame) for filler in fillers]
        count = (max if longest else min)(map(len, arrays))
        return [
            [array[index] if index < len(array) else filler for array, filler in zip(arrays, filling, strict=True)]
            for index in range(count)
        ]

    return fold_constants(zip_arrays, sources + fillers)


_SORT_CODES: Final = ArgumentCodes(2942500, 2942501, {"input": 2942502, "sortBy": 2942503})


def _compile_sort(name: str, spec: Value, scope: CompileScope) -> Expression:
    from mayflydb.query.mongo.expressions.ordering import compile_order

    given = check_arguments(name, spec, ("input", "sortBy"), (), _SORT_CODES)
    source = scope.compile(given["input"])
    by = given["sortBy"]
    if type(by) is dict:
        order = compile_order(by, scope.env)
    else:
        direction = exact_integer(by)
        if direction not in (1, -1):
            raise MqlError(2942506, "The $sort element value must be either 1 or -1")
        key = scope.comparison_key()

        def order(values: list[Value]) -> list[Value]:
            return sort_in_runs(values, key, direction == -1)

    def in_order(frame: Frame) -> Value:
        array = source(frame)
        if is_nullish(array):
            return None
        if type(array) is not list:
            raise MqlError(
                2942504, f"The input argument to $sortArray must be an array, but was of type: {type_name(array)}"
            )
        return order(array)

    return fold_constants(in_order, [source])


OPERATORS: Final[Mapping[str, Parser]] = {
    "$size": fixed_arity(1, _size),
    "$arrayElemAt": fixed_arity(2, _element_at),
    "$in": with_scope(2, 2, _membership),
    "$concatArrays": ranged_arity(0, None, _concat),
    "$slice": ranged_arity(2, 3, _slice),
    "$reverseArray": fixed_arity(1, _reverse),
    "$indexOfArray": with_scope(2, 4, _search),
    "$range": _compile_range,
    "$isArray": fixed_arity(1, _is_array),
    "$map": _compile_map,
    "$filter": _compile_filter,
    "$reduce": _compile_reduce,
    "$zip": _compile_zip,
    "$sortArray": _compile_sort,
}
