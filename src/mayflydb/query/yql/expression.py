"""What an expression becomes once names and types are known: a type, and a closure from a row to a value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

import msgspec

from mayflydb.query.yql.faults import Position
from mayflydb.query.yql.schemas import Row, Run
from mayflydb.query.yql.types import Type, Value

Evaluate: TypeAlias = Callable[[Row, Run], Value]


class Expression(msgspec.Struct, frozen=True):
    """`evaluate` gives a value of `type`.

    `constant`: it reads neither the row nor the run, so any row will do. `literal`: it was written as a literal (or a minus and
    one), and so may take another type that can hold its value; `value` is that value then.
    """

    type: Type
    evaluate: Evaluate
    constant: bool = False
    literal: bool = False
    value: Value = None


class Lambda(Protocol):
    """A lambda that waits for the types of what it will be called with."""

    @property
    def arity(self) -> int: ...

    def bind(self, types: Sequence[Type]) -> Bound:
        """Its body for arguments of these types. Faults: those of its body."""


class Bound(msgspec.Struct, frozen=True):
    """`call(arguments, row, run)`: the body's value; `row` and `run` are those of the expression around the
    lambda."""

    type: Type
    call: Callable[[tuple[Value, ...], Row, Run], Value]


class TypeOperand(msgspec.Struct, frozen=True):
    """A type given as an argument: `Nothing(Int32?)`, `ListCreate(Int32)`."""

    type: Type


Operand: TypeAlias = Expression | Lambda | TypeOperand


class Invocation(msgspec.Struct, frozen=True):
    """A call to be bound: `operands` by position, `named` those written as `value AS name`."""

    name: str
    operands: tuple[Operand, ...]
    named: tuple[tuple[str, Operand], ...]
    position: Position


Builder: TypeAlias = Callable[[Invocation], Operand]
"""Makes the expression of a call, or a Lambda where a function gives a function (`DateTime::Format`). Faults:
wrong arguments."""


class Aggregation(msgspec.Struct, frozen=True):
    """An aggregate over rows: `start` makes a state, `step(state, values)` gives the next one for the values of
    the operands in one
    row, `finish` the result. States are never shared; a step may change the one it got and give it back.
    """

    type: Type
    start: Callable[[], Value]
    step: Callable[[Value, tuple[Value, ...]], Value]
    finish: Callable[[Value], Value]


AggregateBuilder: TypeAlias = Callable[[Invocation], Aggregation]
"""DISTINCT and FILTER are the caller's business: it leaves steps out."""
