"""`$let`, `$literal`, `$meta`, random numbers, and the operators that are refused by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mayflydb.query.mongo.expressions.core import (
    CompileScope,
    Constant,
    Expression,
    Frame,
    Parser,
    check_text,
    check_variable,
    fold_constants,
    make_binder,
)
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.numbers import double_of
from mayflydb.query.mongo.text import compile_meta
from mayflydb.query.mongo.values import Value, is_number, type_name


def _compile_let(name: str, spec: Value, scope: CompileScope) -> Expression:
    if type(spec) is not dict:
        raise MqlError(16874, "$let only supports an object as its argument")
    for field in spec:
        if field not in ("vars", "in"):
            raise MqlError(16875, f"Unrecognized parameter to $let: {field}")
    for code, field in ((16876, "vars"), (16877, "in")):
        if field not in spec:
            raise MqlError(code, f"Missing '{field}' parameter to $let")
    if type(spec["vars"]) is not dict:
        raise MqlError(10065, "invalid parameter: expected an object (vars)")
    names = [check_variable(each) for each in spec["vars"]]
    values = [scope.compile(each) for each in spec["vars"].values()]
    body = scope.with_names(*names).compile(spec["in"])
    bind = make_binder(*names)

    def let(frame: Frame) -> Value:
        inner, assign = bind(frame)
        assign(*[value(frame) for value in values])
        return body(inner)

    # A constant body does not read the variables, so their values may depend on documents.
    return fold_constants(let, [body])


def _compile_literal(name: str, spec: Value, scope: CompileScope) -> Expression:
    return Constant(check_text(spec) if type(spec) is str else spec)


def _compile_rand(name: str, spec: Value, scope: CompileScope) -> Expression:
    if type(spec) not in (dict, list):
        raise MqlError(10065, "invalid parameter: expected an object ($rand)")
    if spec:
        raise MqlError(3040501, "$rand does not currently accept arguments")
    # The result is no Constant, so it is never folded: each evaluation draws a new number.
    random = scope.env.random
    return lambda frame: random()


def _compile_sample_rate(name: str, spec: Value, scope: CompileScope) -> Expression:
    if not is_number(spec):
        raise MqlError(2, f"argument to $sampleRate must be a numeric type, not {type_name(spec)}")
    rate = double_of(spec)
    if not 0 <= rate <= 1:
        raise MqlError(2, "numeric argument to $sampleRate must be in [0, 1]")
    random = scope.env.random
    return lambda frame: random() < rate


def _refuse_javascript(name: str, spec: Value, scope: CompileScope) -> Expression:
    raise MqlError(238, f"{name} is not supported: there is no JavaScript here")


def _compile_meta(name: str, spec: Value, scope: CompileScope) -> Expression:
    score = compile_meta(spec, scope.env.score)
    return lambda frame: score(frame.root)


OPERATORS: Final[Mapping[str, Parser]] = {
    "$let": _compile_let,
    "$literal": _compile_literal,
    "$const": _compile_literal,
    "$meta": _compile_meta,
    "$rand": _compile_rand,
    "$sampleRate": _compile_sample_rate,
    "$function": _refuse_javascript,
    "$accumulator": _refuse_javascript,
}
