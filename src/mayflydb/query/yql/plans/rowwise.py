"""Evaluation of expressions for many rows in one call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import TypeAlias

from mayflydb.query.yql.expression import Expression
from mayflydb.query.yql.plans.scopes import Slot
from mayflydb.query.yql.schemas import Row, Run
from mayflydb.query.yql.types import Value

EvaluateRows: TypeAlias = Callable[[Sequence[Row], Run], list[Value]]
"""Returns the values of an expression in rows, in their order."""


def for_rows(expression: Expression) -> EvaluateRows:
    """Return the function that evaluates an expression for many rows."""
    if isinstance(expression, Slot):
        pick = itemgetter(expression.index)
        return lambda rows, run: list(map(pick, rows))
    evaluate = expression.evaluate
    return lambda rows, run: [evaluate(row, run) for row in rows]
