"""JSON_EXISTS, JSON_VALUE and JSON_QUERY. The grammar has clauses of its own for these functions.

Source: https://ydb.tech/docs/en/yql/reference/builtins/json
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from mayflydb.query.yql import conversions, texts
from mayflydb.query.yql.expression import Evaluate, Expression, Invocation
from mayflydb.query.yql.faults import Position, fault
from mayflydb.query.yql.functions import json_path
from mayflydb.query.yql.functions.support import argument_fault, coerce, evaluate_constant, text_of
from mayflydb.query.yql.schemas import Row, Run
from mayflydb.query.yql.types import (
    BOOL,
    DOUBLE,
    FLOATS,
    INT64,
    INTEGERS,
    JSON,
    JSON_DOCUMENT,
    NULL,
    NUMBERS,
    STRING,
    UTF8,
    DecimalType,
    Type,
    Value,
    bare,
    format_type,
    optional,
)

Clause = tuple[str, Expression | None, Type | None]
Outcome = Callable[[Row, Run, str], Value]
"""Gives the result for an empty sequence, or for an error (its text)."""

# `1.0` and `1` are one number in JSON, so whole numbers become ints.
_DECODER: Final = msgspec.json.Decoder(float_hook=lambda text: json_path.whole_as_int(float(text)))
_ENCODER: Final = msgspec.json.Encoder()


def bind_json_function(
    function: str, operand: Expression, path: Expression, clauses: Sequence[Clause], position: Position
) -> Expression:
    """Build the expression of `function(operand, path clauses...)`; bound clauses in the form of syntax.Json.

    The result is Bool?, Json?, or the type of RETURNING (Utf8), Optional. Faults: wrong operands, a path that cannot be
    parsed.
    """
    call = Invocation(function, (operand, path), (), position)
    if operand.type != NULL and bare(operand.type) not in (JSON, JSON_DOCUMENT):
        raise argument_fault(call, f"Expected Json type, but got: {format_type(operand.type)}")
    search = _searcher(call, operand, path, clauses)
    clause_values = {words: (value, kind) for words, value, kind in clauses if not words.startswith("PASSING ")}
    finish: Callable[[json_path.Items], Value] = bool
    kind: Type = optional(BOOL)
    if function == "JSON_QUERY":
        kind, finish = optional(JSON), _finish_query(clause_values)
    elif function == "JSON_VALUE":
        returned = next((kind for words, (_, kind) in clause_values.items() if words == "RETURNING" and kind), None)
        kind, finish = optional(returned or UTF8), _finish_value(call, returned)
    empty = _choose_outcome(call, clause_values, "EMPTY", kind, function)
    error = _choose_outcome(call, clause_values, "ERROR", kind, function)
    null = operand.evaluate

    def evaluate(row: Row, run: Run) -> Value:
        if null(row, run) is None:
            return None
        try:
            # The default of ON EMPTY may fail too; then ON ERROR decides.
            items = search(row, run)
            if items or function == "JSON_EXISTS":
                return finish(items)
            return empty(row, run, "Result is empty")
        except json_path.PathError as wrong_path:
            return _result_on_error(error, row, run, str(wrong_path), call)

    return Expression(kind, evaluate, constant=operand.constant and not clauses)


def _searcher(
    call: Invocation, operand: Expression, path: Expression, clauses: Sequence[Clause]
) -> Callable[[Row, Run], json_path.Items]:
    found = json_path.parse(text_of(evaluate_constant(path, call)))
    document = operand.evaluate
    variables: list[tuple[str, Evaluate, Callable[[Value], Any]]] = []
    for words, value, _ in clauses:
        if words.startswith("PASSING ") and value is not None:
            variables.append((words.removeprefix("PASSING "), value.evaluate, _variable(call, value.type)))

    def search(row: Row, run: Run) -> json_path.Items:
        given = {}
        for name, evaluate, convert in variables:
            value = evaluate(row, run)
            given[name] = None if value is None else convert(value)
        try:
            return found(_DECODER.decode(document(row, run)), given)
        except RecursionError:  # Each step of a path calls the one before it.
            raise fault("Invalid JsonPath: too many steps", call.position) from None

    return search


def _variable(call: Invocation, kind: Type) -> Callable[[Value], Any]:
    """Return the conversion of a variable's value to a JSON value."""
    kind = bare(kind)
    if kind in NUMBERS or kind in (BOOL, UTF8, NULL):
        return lambda value: value
    if kind in (JSON, JSON_DOCUMENT):
        return _DECODER.decode
    if kind == STRING:
        return text_of
    if texts.has_text(kind):
        return lambda value: texts.to_text(kind, value)
    raise argument_fault(call, f"A variable of type {format_type(kind)} cannot be passed to JsonPath")


def _choose_outcome(
    call: Invocation,
    clause_values: dict[str, tuple[Expression | None, Type | None]],
    when: str,
    kind: Type,
    function: str,
) -> Outcome:
    """Return the outcome of ON EMPTY or ON ERROR, by the clause or by default."""
    words = next((words for words in clause_values if words.endswith(f" ON {when}")), "")
    word = words.removesuffix(f" ON {when}")
    if word == "ERROR":
        return _raise_error(call)
    if word == "DEFAULT":
        value = clause_values[words][0]
        assert value is not None
        return _default(call, value, kind, f"ON {when}")
    if function == "JSON_EXISTS":
        default: Value = {"TRUE": True, "UNKNOWN": None}.get(word, False)
    else:
        default = {"EMPTY ARRAY": "[]", "EMPTY OBJECT": "{}", "EMPTY": "[]"}.get(word)
    return lambda row, run, message: default


def _default(call: Invocation, value: Expression, kind: Type, clause: str) -> Outcome:
    """Return the outcome of DEFAULT: a value of the target type. PathError at run time: a number out of the type's range."""
    if bare(value.type) not in INTEGERS or bare(kind) not in INTEGERS:
        given = coerce(value, kind)
        if given is None:
            raise argument_fault(call, f"DEFAULT of type {format_type(value.type)} is no {format_type(bare(kind))}")
        evaluate = given.evaluate
        return lambda row, run, message: evaluate(row, run)
    low, high = texts.BOUNDS[bare(kind)]
    number = value.evaluate

    def outcome(row: Row, run: Run, message: str) -> Value:
        found = number(row, run)
        if found is not None and not low <= found <= high:
            target = format_type(bare(kind))
            raise json_path.PathError(f"Failed to cast default value from {clause} clause to target type {target}")
        return found

    return outcome


def _result_on_error(error: Outcome, row: Row, run: Run, message: str, call: Invocation) -> Value:
    """Return the result of ON ERROR. Fault: its own default cannot be a value of the target type."""
    try:
        return error(row, run, message)
    except json_path.PathError as wrong_default:
        raise fault(str(wrong_default), call.position) from None


def _raise_error(call: Invocation) -> Outcome:
    def outcome(row: Row, run: Run, message: str) -> Value:
        raise fault(f"{call.name}: {message}", call.position)

    return outcome


def _finish_query(
    clause_values: dict[str, tuple[Expression | None, Type | None]],
) -> Callable[[json_path.Items], Value]:
    """JSON_QUERY: an object or an array; with a wrapper any items."""
    wrapper = next((words for words in clause_values if words.endswith("WRAPPER")), "")
    always = wrapper.startswith("WITH") and "CONDITIONAL" not in wrapper.split()
    conditional = wrapper.startswith("WITH") and "CONDITIONAL" in wrapper.split()

    def finish(items: json_path.Items) -> Value:
        if always or (conditional and not (len(items) == 1 and isinstance(items[0], (list, dict)))):
            return _ENCODER.encode(items).decode()
        if len(items) > 1:
            raise json_path.PathError("Result consists of multiple items")
        if not isinstance(items[0], (list, dict)):
            raise json_path.PathError("Result is neither array nor object")
        return _ENCODER.encode(items[0]).decode()

    return finish


def _finish_value(call: Invocation, kind: Type | None) -> Callable[[json_path.Items], Value]:
    """JSON_VALUE: one item that is neither array nor object, as a value of the type."""
    convert = _scalar_converter(call, kind)

    def finish(items: json_path.Items) -> Value:
        if len(items) > 1:
            raise json_path.PathError("Result consists of multiple items")
        item = items[0]
        if isinstance(item, (list, dict)):
            raise json_path.PathError("Extracted JSON value is either object or array")
        if item is None:
            return None
        found = convert(item)
        if found is None:
            raise json_path.PathError("Cannot convert extracted JSON value to target type")
        return found

    return finish


def _scalar_converter(call: Invocation, kind: Type | None) -> Callable[[Any], Value]:
    if kind is None:
        return _as_text
    if kind in (UTF8, STRING):
        return lambda item: (item if kind == UTF8 else item.encode()) if isinstance(item, str) else None
    if kind == BOOL:
        return lambda item: item if isinstance(item, bool) else None
    if kind in INTEGERS or kind in FLOATS or isinstance(kind, DecimalType):
        return _number_converter(call, kind)
    if texts.has_text(kind):
        return lambda item: texts.from_text(kind, item) if isinstance(item, str) else None
    raise argument_fault(call, f"Returning argument of {call.name} cannot be {format_type(kind)}")


def _as_text(item: Any) -> Value:
    if isinstance(item, str):
        return item
    if isinstance(item, bool):
        return "true" if item else "false"
    return str(item) if isinstance(item, int) else texts.to_text(DOUBLE, item)


def _number_converter(call: Invocation, kind: Type) -> Callable[[Any], Value]:
    whole, broken = conversions.resolve_cast(INT64, kind), conversions.resolve_cast(DOUBLE, kind)
    if whole is None or broken is None:
        raise argument_fault(call, f"Returning argument of {call.name} cannot be {format_type(kind)}")
    of_whole, of_broken = whole[1], broken[1]

    def convert(item: Any) -> Value:
        if isinstance(item, (bool, str)):
            return None
        if isinstance(item, int):
            if kind in INTEGERS:
                low, high = texts.BOUNDS[kind]
                return item if low <= item <= high else None
            return of_whole(item) if -(2**63) <= item < 2**63 else of_broken(float(item))
        # A number with a fraction is no integer: an error, and no rounding.
        if kind in INTEGERS and item != int(item):
            return None
        return of_broken(item)

    return convert
