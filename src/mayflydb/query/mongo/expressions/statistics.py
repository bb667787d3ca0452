"""Accumulators as expressions, over an array or over several operands: `$sum`, `$avg`, `$min`, `$max`, `$firstN` and others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from mayflydb.query.mongo.expressions.core import (
    ArgumentCodes,
    CompileScope,
    Expression,
    Frame,
    Function,
    Parser,
    apply_function,
    check_arguments,
    compile_operands,
    fixed_arity,
    fold_constants,
    is_nullish,
)
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.numbers import double_of, exact_integer
from mayflydb.query.mongo.totals import Deviation, Extreme, Sum, percentile, pick_extremes
from mayflydb.query.mongo.values import MISSING, Value, format_value, is_number, type_name
from mayflydb.query.sorting import sort_in_runs


def _accumulator_operator(make: Callable[[CompileScope], Any], result: Callable[[Any], Value]) -> Parser:
    """Return the parser of an accumulator. A single operand that yields an array stands for its elements."""

    def parser(name: str, spec: Value, scope: CompileScope) -> Expression:
        parts = compile_operands(name, spec, scope, 0, None)

        def total(*values: Value) -> Value:
            state = make(scope)
            if len(values) == 1 and type(values[0]) is list:
                # Only a single operand is entered; of several operands, an array is a value like any other.
                values = tuple(values[0])
            for value in values:
                state.add(value)
            return result(state)

        return apply_function(total, parts)

    return parser


# --- ends of arrays --------------------------------------------------------------------------------------------------


def _end_of_array(name: str, at: int) -> Function:
    def end(value: Value) -> Value:
        if is_nullish(value):
            return None
        if type(value) is not list:
            raise MqlError(28689, f"{name}'s argument must be an array, but is {type_name(value)}")
        return value[at] if value else MISSING

    return end


N_CODES: Final = ArgumentCodes(5787900, 5787901, {"n": 5787906, "input": 5787907})


def count_of(value: Value) -> int:
    """Return the `n` of `$firstN` and similar operators. MqlError 5787902, 5787903 and 5787908 for an invalid one."""
    if not is_number(value):
        raise MqlError(
            5787902,
            f"Value for 'n' must be of integral type, but found {format_value(value) if value is not MISSING else 'missing'}",
        )
    count = exact_integer(value)
    if count is None:
        raise MqlError(5787903, f"Value for 'n' must be of integral type, but found {format_value(value)}")
    if count <= 0:
        raise MqlError(5787908, f"'n' must be greater than 0, found {count}")
    return count


def _picking_operator(pick: Callable[[list[Value], int, CompileScope], list[Value]]) -> Parser:
    def parser(name: str, spec: Value, scope: CompileScope) -> Expression:
        given = check_arguments(name, spec, ("n", "input"), (), N_CODES)
        count, source = scope.compile(given["n"]), scope.compile(given["input"])

        def several(frame: Frame) -> Value:
            values = source(frame)
            if type(values) is not list:
                raise MqlError(5788200, f"Input must be an array, found: {type_name(values)}")
            return pick(values, count_of(count(frame)), scope)

        return fold_constants(several, [count, source])

    return parser


# --- percentiles -----------------------------------------------------------------------------------------------------

PERCENTILE_CODES: Final = ArgumentCodes(7436100, 40415, {"input": 40414, "p": 40414, "method": 40414})


def shares_of(value: Value) -> list[float]:
    """Return the `p` of `$percentile`. MqlError 7750301 to 7750303 for an invalid one."""
    if type(value) is not list or not value:
        raise MqlError(
            7750301,
            f"The $percentile 'p' field must be an array of numbers from [0.0, 1.0], but found: {format_value(value)}",
        )
    for each in value:
        if not is_number(each) or not 0 <= double_of(each) <= 1:
            raise MqlError(
                7750303,
                f"The $percentile 'p' field must be an array of numbers from [0.0, 1.0], but found: {format_value(each)}",
            )
    return [double_of(each) for each in value]


def check_method(name: str, value: Value) -> None:
    """Raise MqlError 2 for a method other than `approximate`. The percentile is computed exactly all the same."""
    if value != "approximate":
        raise MqlError(2, f"Currently only 'approximate' can be used as percentile 'method'. ({name})")


def numbers_in(values: list[Value]) -> list[float]:
    """Return the numbers among the values as sorted doubles."""
    return sort_in_runs([double_of(each) for each in values if is_number(each)], float)


def _compile_percentile(name: str, spec: Value, scope: CompileScope) -> Expression:
    given = check_arguments(name, spec, ("input", "p", "method"), (), PERCENTILE_CODES)
    check_method(name, given["method"])
    source, wanted = scope.compile(given["input"]), scope.compile(given["p"])

    def find(value: Value, shares: Value) -> list[float | None]:
        ordered = numbers_in(value if type(value) is list else [value])
        return [percentile(ordered, share) for share in shares_of(shares)]

    return apply_function(find, [source, wanted])


def _compile_median(name: str, spec: Value, scope: CompileScope) -> Expression:
    given = check_arguments(name, spec, ("input", "method"), (), PERCENTILE_CODES)
    check_method(name, given["method"])
    return apply_function(
        lambda value: percentile(numbers_in(value if type(value) is list else [value]), 0.5),
        [scope.compile(given["input"])],
    )


OPERATORS: Final[Mapping[str, Parser]] = {
    "$sum": _accumulator_operator(lambda scope: Sum(), Sum.result),
    "$avg": _accumulator_operator(lambda scope: Sum(), Sum.average),
    "$min": _accumulator_operator(lambda scope: Extreme(scope.comparison_key(), False), lambda state: state.value),
    "$max": _accumulator_operator(lambda scope: Extreme(scope.comparison_key(), True), lambda state: state.value),
    "$stdDevPop": _accumulator_operator(lambda scope: Deviation(), lambda state: state.result(False)),
    "$stdDevSamp": _accumulator_operator(lambda scope: Deviation(), lambda state: state.result(True)),
    "$first": fixed_arity(1, _end_of_array("$first", 0)),
    "$last": fixed_arity(1, _end_of_array("$last", -1)),
    "$firstN": _picking_operator(lambda values, count, scope: values[:count]),
    "$lastN": _picking_operator(lambda values, count, scope: values[-count:]),
    "$minN": _picking_operator(
        lambda values, count, scope: pick_extremes(values, count, scope.comparison_key(), False)
    ),
    "$maxN": _picking_operator(lambda values, count, scope: pick_extremes(values, count, scope.comparison_key(), True)),
    "$percentile": _compile_percentile,
    "$median": _compile_median,
}
