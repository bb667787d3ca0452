"""Bound expressions: a type, and a function from a row to a value. Binding resolves names and types of a syntax tree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

import msgspec

from mayflydb.query.yql.faults import Position
from mayflydb.query.yql.schemas import Row, Run
from mayflydb.query.yql.types import Type, Value

Evaluate: TypeAlias = Callable[[Row, Run], Value]


class Expression(msgspec.Struct, frozen=True):
    """A bound expression; `evaluate` returns a value of `type`.

    `constant`: the expression reads neither the row nor the run. `literal`: the query has a literal here (perhaps with
    a minus), so the expression may take another type that can hold its `value`.
    """

    type: Type
    evaluate: Evaluate
    constant: bool = False
    literal: bool = False
    value: Value = None


class Lambda(Protocol):
    """A lambda, bound again for the argument types of each call."""

    @property
    def arity(self) -> int: ...

    def bind(self, types: Sequence[Type]) -> BoundLambda:
        """Bind the body for arguments of these types. Faults: those of the body."""

    def detach(self) -> Lambda:
        """Return the same lambda without the row and the outer arguments of its definition: its calls need no row. Binding
        it is a fault where the body reads them."""


class BoundLambda(msgspec.Struct, frozen=True):
    """A bound lambda. `call(arguments, row, run)` returns the value of the body; `row` and `run` belong to the
    expression around it."""

    type: Type
    call: Callable[[tuple[Value, ...], Row, Run], Value]


class TypeOperand(msgspec.Struct, frozen=True):
    """A type given as an argument: `Nothing(Int32?)`, `ListCreate(Int32)`."""

    type: Type


class BoundFactory(msgspec.Struct, frozen=True):
    """An aggregate over values of one type, without operands that it reads by itself.

    `step(state, value, row, run)` returns the next state; `row` and `run` belong to the expression around it. `finish(state,
    run)` is the result. No two groups share a state. `null_when_empty`: the result over no value is NULL.
    """

    type: Type
    start: Callable[[], Value]
    step: Callable[[Value, Value, Row, Run], Value]
    finish: Callable[[Value, Run], Value]
    null_when_empty: bool


class Factory(msgspec.Struct, frozen=True):
    """An aggregate whose values are not named yet: `AggregationFactory("sum")`. `bind(call, type)` returns it for values of
    a type; `call` is the call that applies it. Faults: it does not take such values."""

    bind: Callable[[Invocation, Type], BoundFactory]


Operand: TypeAlias = Expression | Lambda | TypeOperand | Factory


class Invocation(msgspec.Struct, frozen=True):
    """A call whose operands are bound: `operands` by position, and `named` for those written as `value AS name`."""

    name: str
    operands: tuple[Operand, ...]
    named: tuple[tuple[str, Operand], ...]
    position: Position


Builder: TypeAlias = Callable[[Invocation], Operand]
"""Builds the expression of a call, or a Lambda where the function returns a function (`DateTime::Format`).

Faults: wrong arguments.
"""


class Aggregation(msgspec.Struct, frozen=True):
    """An aggregate function over rows.

    `start` makes a state, `step(state, values)` returns the next state for the operands' values in one row, `finish`
    the result. No two groups share a state; a step may change its state in place and return it.

    `fold(state, values)` returns the state after the steps of several rows, for their values of the only operand (without
    operands: any values, one for each row); None: there is no quicker way than the steps.

    `contextual`: steps get the pair of row and run behind the operands' values. `finish_in_run`: gives the result instead of
    `finish`, which then only tells what there is without rows.
    """

    type: Type
    start: Callable[[], Value]
    step: Callable[[Value, tuple[Value, ...]], Value]
    finish: Callable[[Value], Value]
    fold: Callable[[Value, Sequence[Value]], Value] | None = None
    contextual: bool = False
    finish_in_run: Callable[[Value, Run], Value] | None = None

    def end(self, state: Value, run: Run) -> Value:
        """Return the result of a state."""
        return self.finish(state) if self.finish_in_run is None else self.finish_in_run(state, run)

    @property
    def is_null_without_rows(self) -> bool:
        """True if the result over no rows is NULL, as of MIN and SUM; COUNT has 0."""
        return self.finish(self.start()) is None


def pair_with_run(row: Row, run: Run) -> Value:
    """The operand behind those of a contextual aggregation."""
    return row, run


AggregateBuilder: TypeAlias = Callable[[Invocation], Aggregation]
"""Builds the aggregate of a call. The caller handles DISTINCT by leaving out steps."""
