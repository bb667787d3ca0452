"""`$cond`, `$ifNull`, `$switch`: only the chosen branch is evaluated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mayflydb.query.mongo.expressions.core import (
    CompileScope,
    Expression,
    Frame,
    Parser,
    compile_operands,
    fold_constants,
    is_nullish,
)
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.values import Value, is_truthy, type_name


def _compile_cond(name: str, spec: Value, scope: CompileScope) -> Expression:
    if type(spec) is dict:
        for field in spec:
            if field not in ("if", "then", "else"):
                raise MqlError(17083, f"Unrecognized parameter to $cond: {field}")
        for code, field in ((17080, "if"), (17081, "then"), (17082, "else")):
            if field not in spec:
                raise MqlError(code, f"Missing '{field}' parameter to $cond")
        spec = [spec["if"], spec["then"], spec["else"]]
    # Every branch is compiled: an invalid one is refused even if it is never chosen.
    test, then, otherwise = parts = compile_operands(name, spec, scope, 3, 3)
    return fold_constants(lambda frame: then(frame) if is_truthy(test(frame)) else otherwise(frame), parts)


def _compile_if_null(name: str, spec: Value, scope: CompileScope) -> Expression:
    parts = compile_operands(name, spec, scope, 0, None)
    if len(parts) < 2:
        raise MqlError(1257300, f"$ifNull needs at least two arguments, had: {len(parts)}")
    *first, last = parts

    def choose(frame: Frame) -> Value:
        for part in first:
            value = part(frame)
            if not is_nullish(value):
                return value
        return last(frame)

    return fold_constants(choose, parts)


def _compile_switch(name: str, spec: Value, scope: CompileScope) -> Expression:
    if type(spec) is not dict:
        raise MqlError(40060, f"$switch requires an object as an argument, found: {type_name(spec)}")
    for field in spec:
        if field not in ("branches", "default"):
            raise MqlError(40067, f"$switch found an unknown argument: {field}")
    branches = spec.get("branches", [])
    if type(branches) is not list:
        raise MqlError(40061, f"$switch expected an array for 'branches', found: {type_name(branches)}")
    if not branches:
        raise MqlError(40068, "$switch requires at least one branch.")
    compiled = [_compile_branch(each, scope) for each in branches]
    default = scope.compile(spec["default"]) if "default" in spec else None

    def choose(frame: Frame) -> Value:
        for case, then in compiled:
            if is_truthy(case(frame)):
                return then(frame)
        if default is None:
            raise MqlError(
                40066, "$switch could not find a matching branch for an input, and no default was specified."
            )
        return default(frame)

    return fold_constants(choose, [part for pair in compiled for part in pair] + ([default] if default else []))


def _compile_branch(branch: Value, scope: CompileScope) -> tuple[Expression, Expression]:
    if type(branch) is not dict:
        raise MqlError(40062, f"$switch expected each branch to be an object, found: {type_name(branch)}")
    for field in branch:
        if field not in ("case", "then"):
            raise MqlError(40063, f"$switch found an unknown argument to a branch: {field}")
    if "case" not in branch:
        raise MqlError(40064, "$switch requires each branch have a 'case' expression")
    if "then" not in branch:
        raise MqlError(40065, "$switch requires each branch have a 'then' expression.")
    return scope.compile(branch["case"]), scope.compile(branch["then"])


OPERATORS: Final[Mapping[str, Parser]] = {
    "$cond": _compile_cond,
    "$ifNull": _compile_if_null,
    "$switch": _compile_switch,
}
