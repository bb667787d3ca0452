"""Scopes of aliases and slots of intermediate values in a frame."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from mayflydb.query.cosmos_sql.aggregates import AGGREGATES, Aggregate
from mayflydb.query.cosmos_sql.operators import Evaluate, Frame
from mayflydb.query.cosmos_sql.syntax import FunctionCall, Subquery, SyntaxNode, children
from mayflydb.query.cosmos_sql.values import Value

Parameters: TypeAlias = Mapping[str, Value]
"""`@name` -> decoded JSON."""

CONTEXT_SLOT: Final = 0
DOCUMENT_SLOT: Final = 1

ROOT: Final = "ROOT"
"""The builtin name of the container, in any case; an alias of that name hides it."""


class Slots:
    """Allocates slots of the frame; every alias of the whole query has its own."""

    def __init__(self) -> None:
        self.count = DOCUMENT_SLOT + 1

    def allocate(self) -> int:
        """Return the next free slot."""
        self.count += 1
        return self.count - 1


class AliasScope:
    """The aliases that a SELECT can see: its own and those of the SELECTs around it.

    `container`: ROOT, and an unknown name at the head of FROM, mean the document.
    """

    def __init__(self, outer: AliasScope | None, *, container: bool) -> None:
        self.outer = outer
        self.container = container
        self.own: dict[str, int] = {}

    def resolve(self, name: str) -> int | None:
        """Return the slot of `name`, or None."""
        scope: AliasScope | None = self
        # An inner alias hides an outer one of the same name.
        while scope is not None:
            if name in scope.own:
                return scope.own[name]
            scope = scope.outer
        return DOCUMENT_SLOT if self.container and name.upper() == ROOT else None


class Grouping:
    """The computation of a SELECT with GROUP BY or aggregates: expressions for each row, and the slots of the group's values.

    `leaves` are the parts of the projection without aggregates. They are the same for all rows of a group and are evaluated
    on its first row. `aggregates` are evaluated on every row.
    """

    def __init__(self, keys: tuple[Evaluate, ...]) -> None:
        self.keys = keys
        self.leaves: list[tuple[int, Evaluate]] = []
        self.aggregates: list[tuple[int, Callable[[], Aggregate], Evaluate]] = []

    def start_group(self, frame: Frame) -> tuple[list[Value], list[Aggregate]]:
        """Start a group whose first row is in `frame`."""
        return [leaf(frame) for _, leaf in self.leaves], [state() for _, state, _ in self.aggregates]

    def add_row(self, states: list[Aggregate], frame: Frame) -> None:
        """Add the row in `frame` to a group."""
        for state, (_, _, argument) in zip(states, self.aggregates, strict=True):
            state.add(argument(frame))

    def write_group(self, group: tuple[list[Value], list[Aggregate]], frame: Frame) -> None:
        """Write the group's values into the slots from which the projection reads them."""
        leaves, states = group
        for (slot, _), value in zip(self.leaves, leaves, strict=True):
            frame[slot] = value
        for (slot, _, _), state in zip(self.aggregates, states, strict=True):
            frame[slot] = state.result()


def is_aggregate(node: SyntaxNode) -> bool:
    """True if `node` is a call of an aggregate function."""
    return isinstance(node, FunctionCall) and not node.udf and node.name.upper() in AGGREGATES


def find_aggregate(root: SyntaxNode) -> SyntaxNode | None:
    """Return the first aggregate in an expression, without those of its subqueries."""
    stack = [root]
    while stack:
        node = stack.pop()
        if is_aggregate(node):
            return node
        if not isinstance(node, Subquery):
            stack.extend(children(node))
    return None
