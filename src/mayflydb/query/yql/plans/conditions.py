"""Conditions on the rows of one table, alone and without a query around them, for filters that outlive their request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from mayflydb.query.yql.faults import fault, unsupported
from mayflydb.query.yql.functions.clock import BUILDERS as OF_THE_RUN
from mayflydb.query.yql.parser import parse_expression
from mayflydb.query.yql.plans.binder import Binder, Context
from mayflydb.query.yql.plans.effort import Effort, estimate_tree
from mayflydb.query.yql.plans.expressions import REGISTERED
from mayflydb.query.yql.plans.scopes import Field, RowScope
from mayflydb.query.yql.plans.trees import nodes
from mayflydb.query.yql.schemas import Column, Row, Run
from mayflydb.query.yql.syntax import FunctionCall, Parameter, Subquery
from mayflydb.query.yql.types import BOOL, bare

assert REGISTERED, "expressions are bound by the handlers that these modules register"

_OF_THE_RUN: Final = frozenset({name.lower() for name in OF_THE_RUN} | {"listsample", "listsamplen", "listshuffle"})
"""Functions whose value is another one at another time."""

Test = Callable[[Row], bool]
"""Returns whether a condition is true for a row."""


class _NoChance:
    """The chance of conditions, none of which draws."""

    def random(self) -> float:
        raise AssertionError("a condition draws no random numbers")

    def getrandbits(self, k: int, /) -> int:
        raise AssertionError("a condition draws no random numbers")


def compile_row_condition(text: str, columns: Sequence[Column]) -> Test:
    """Compile a predicate over the columns of a row, in their order.

    Faults: a wrong text, what depends on anything but the row, and what may take longer than reading the row.
    """
    tree = parse_expression(text)
    for node in nodes(tree):
        if isinstance(node, Subquery):
            raise unsupported("a subquery in a condition on one row", node.at)
        if isinstance(node, Parameter):
            raise unsupported("a parameter in a condition without a query", node.at)
        if isinstance(node, FunctionCall) and node.name.replace("_", "").lower() in _OF_THE_RUN:
            raise unsupported(f"{node.name} in a condition on one row", node.at)
    if estimate_tree(tree) is Effort.UNBOUNDED:
        raise unsupported("a condition that may take longer than reading its row, as by LIKE, lambdas or JSON", tree.at)
    scope = RowScope([Field(column.name, column.type) for column in columns])
    bound = Binder(Context({}, "/local", {}), {}, scope).expression(tree)
    if bare(bound.type) != BOOL:
        raise fault(f"a condition is a Bool, and this is {bound.type}", tree.at)
    evaluate = bound.evaluate
    run = Run(0, {}, _NoChance())
    return lambda row: evaluate(row, run) is True
