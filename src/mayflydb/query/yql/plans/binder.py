"""Binding of expressions: from syntax trees to functions of rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec

from mayflydb.model.instant import Instant
from mayflydb.query.yql.expression import Expression, Operand
from mayflydb.query.yql.faults import WARNING, Issue, Position, fault, unsupported
from mayflydb.query.yql.plans.paths import join
from mayflydb.query.yql.plans.plan import BoundSubquery, Relation
from mayflydb.query.yql.plans.scopes import EMPTY, RowScope
from mayflydb.query.yql.schemas import Schemas
from mayflydb.query.yql.syntax import Expression as Tree
from mayflydb.query.yql.syntax import Query
from mayflydb.query.yql.types import Type


class Pragmas(NamedTuple):
    """The pragmas that change the meaning of statements."""

    prefix: str = ""
    ordered_columns: bool = False
    simple_columns: bool = True
    classic_division: bool = True
    unicode_literals: bool = False
    positional_union: bool = False


UNUSED_SYMBOL: Final = 4527
"""YDB's code of the issue YQL_UNUSED_SYMBOL."""

PRAGMAS = Pragmas()
"""The pragmas of a script without PRAGMA."""


class Context:
    """The state of binding one script: its schemas and parameters, and the findings: tables read and written, warnings,
    subqueries."""

    def __init__(self, schemas: Schemas, database: str, parameters: Mapping[str, Type]) -> None:
        self.schemas, self.database, self.given = schemas, database, parameters
        self.set_pragmas(PRAGMAS)
        self.declared: dict[str, Type] = {}
        self._declared_at: dict[str, Position] = {}
        self.parameters: dict[str, Type] = {}
        self.reads: set[str] = set()
        self.writes: set[str] = set()
        self.stale: set[tuple[str, str]] = set()
        self.warnings: list[Issue] = []
        self.subqueries: list[BoundSubquery] = []
        self.kept_trees: list[Any] = []
        self.memo: dict[Any, tuple[Operand, bool]] = {}
        self.depth = 0
        self.row_uses = 0
        self.view_count = 0
        self.as_of: Instant | None = None
        self.open_views: list[str] = []
        self._numbers = 0

    def pragmas(self) -> Pragmas:
        return Pragmas(
            self.prefix,
            self.ordered_columns,
            self.simple_columns,
            self.classic_division,
            self.unicode_literals,
            self.positional_union,
        )

    def set_pragmas(self, to: Pragmas) -> None:
        self.prefix, self.ordered_columns, self.simple_columns = to.prefix, to.ordered_columns, to.simple_columns
        self.classic_division, self.unicode_literals = to.classic_division, to.unicode_literals
        self.positional_union = to.positional_union

    def next_number(self) -> int:
        """A new number for an entry of `Run.computed`."""
        self._numbers += 1
        return self._numbers

    def path(self, name: str) -> str:
        return join(self.database, self.prefix, name)

    def parameter(self, name: str, at: Position) -> Type:
        """The type of a parameter. Faults: it is neither declared nor sent."""
        type = self.declared.get(name) or self.given.get(name)
        if type is None:
            raise fault(f"Unknown name: ${name}", at)
        self.parameters[name] = type
        return type

    def declare(self, name: str, type: Type, at: Position) -> None:
        """Declare the type of a parameter. A warning points to the first DECLARE of a name."""
        self.declared[name] = type
        self._declared_at.setdefault(name, at)

    def warn_of_unused(self) -> None:
        """Warn of each declared parameter that no statement reads. Names that begin with an underscore are exempt."""
        for name, at in self._declared_at.items():
            if name not in self.parameters and not name.startswith("_"):
                self.warnings.append(Issue(f"Symbol ${name} is not used", UNUSED_SYMBOL, WARNING, at))

    def begin(self) -> None:
        """Begin a new statement. Values kept for the statement before may differ now, so they are forgotten."""
        self.subqueries, self.kept_trees = [], []
        self.memo = {}

    def add_subquery(self, relation: Relation, mode: Literal["scalar", "list", "exists"]) -> int:
        """Add a subquery to evaluate before the statement; returns the number of its value in `Run.computed`."""
        number = self.next_number()
        self.subqueries.append(BoundSubquery(number, relation, mode))
        return number


class Binder:
    """Binds expressions over rows of one kind. `bound_trees`: expressions that are bound already, as after GROUP BY.

    `width`: the number of values in a row; the arguments of lambdas follow them. `Context.row_uses` counts the references
    to rows: an expression that does not change the count is the same for all rows.
    """

    def __init__(
        self,
        context: Context,
        names: Names,
        scope: RowScope = EMPTY,
        bound_trees: Mapping[Tree, Expression] | None = None,
        width: int | None = None,
    ) -> None:
        self.context, self.names, self.scope = context, names, scope
        self.bound_trees: Mapping[Tree, Expression] = bound_trees or {}
        self.width = len(scope) if width is None else width
        self.grouped = False

    def with_names(self, names: Names, width: int) -> Binder:
        """Return a binder for the same row with more values behind it, and with more names."""
        # A copy: names that are defined later do not reach this binder.
        inner = Binder(self.context, {**self.names, **names}, self.scope, self.bound_trees, width)
        inner.grouped = self.grouped
        return inner

    def operand(self, tree: Tree) -> Operand:
        """Bind an expression that may be a lambda or a type. Faults: names, types."""
        # Above GROUP BY, a key or an aggregate is a value of the row; its operands are not in that row.
        if self.bound_trees and (found := self.bound_trees.get(tree)) is not None:
            self.context.row_uses += 1
            return found
        handler = HANDLERS.get(tree.__class__)
        if handler is None:
            raise unsupported(tree.__class__.__name__, tree.at)
        self.context.depth += 1
        if self.context.depth > MAX_DEPTH:
            raise fault("The expression is nested too deeply", tree.at)
        try:
            return handler(self, tree)
        finally:
            self.context.depth -= 1

    def expression(self, tree: Tree) -> Expression:
        """Bind an expression that must be a value. Faults: names, types, a lambda or a type."""
        found = self.operand(tree)
        if not isinstance(found, Expression):
            raise fault("Expected a value here, and not a lambda or a type", tree.at)
        return found

    def bind_invariant(self, tree: Tree) -> tuple[Expression, bool]:
        """Bind an expression; True if it is the same for all rows."""
        before = self.context.row_uses
        found = self.expression(tree)
        return found, self.context.row_uses == before


class LambdaArgument(msgspec.Struct, frozen=True):
    """A parameter of a lambda, at `index` in the row."""

    index: int
    type: Type


class NamedExpression:
    """`$x = ...`: the tree, and the binder at its definition. `pick`: the index in the tuple, for `$a, $b = ...`."""

    def __init__(self, value: Tree | Query, binder: Binder, pick: int | None = None) -> None:
        self.value, self.binder, self.pick = value, binder, pick


Names: TypeAlias = dict[str, LambdaArgument | NamedExpression]
"""Lambda arguments and named expressions by name without `$`. Every other name is a parameter."""


# More than the parser's limit: named expressions, lambdas and views nest without brackets.
MAX_DEPTH = 200

HANDLERS: dict[type, Callable[[Binder, Any], Operand]] = {}
"""The function that binds each class of node. Each module registers its own; `expressions` imports them all."""
