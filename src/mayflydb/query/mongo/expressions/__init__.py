"""Aggregation expressions, compiled to closures. Constant parts are computed once, at compile time."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.expressions import (
    arithmetic,
    arrays,
    comparison,
    conditionals,
    conversion,
    dates,
    objects,
    regex,
    sets,
    statistics,
    strings,
    trigonometry,
    variables,
)
from mayflydb.query.mongo.expressions.core import CompileScope, Constant, Expression, Frame, Parser
from mayflydb.query.mongo.expressions.dependencies import depends_on
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.values import Value

__all__ = ["OPERATORS", "Constant", "Expression", "Frame", "compile_expression", "depends_on", "frame_of"]

OPERATORS: Final[Mapping[str, Parser]] = {
    name: parser
    for family in (
        arithmetic,
        arrays,
        comparison,
        conditionals,
        conversion,
        dates,
        objects,
        regex,
        sets,
        statistics,
        strings,
        trigonometry,
        variables,
    )
    for name, parser in family.OPERATORS.items()
}
"""Operators by name, with `$`."""


def compile_expression(spec: Value, env: Env, variables: Collection[str] = ()) -> Expression:
    """Compile a specification. The result is a `Constant` if it reads neither the document nor variables of the frame.

    `variables`: names, beside those of `env`, that the frames bind. MqlError for an invalid expression: 168 for an unknown
    operator, 17276 for an undefined variable, 15 for one that is nested too deeply.
    """
    try:
        return CompileScope(env, frozenset(variables), OPERATORS).compile(spec)
    # Nesting is limited by Python's stack here: compiling is recursive.
    except RecursionError:
        raise MqlError(15, "an expression exceeds the maximum nested depth") from None


def frame_of(document: Value, env: Env) -> Frame:
    """Return the frame in which a document is both `$$ROOT` and `$$CURRENT`."""
    return Frame(document, document, env.variables)
