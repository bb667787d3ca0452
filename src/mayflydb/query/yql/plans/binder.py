"""From expressions as trees to closures over rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec

from mayflydb.query.yql.expression import Expression, Operand
from mayflydb.query.yql.faults import WARNING, Issue, Position, fault, unsupported
from mayflydb.query.yql.plans.paths import join
from mayflydb.query.yql.plans.plan import Prelude, Relation
from mayflydb.query.yql.plans.scopes import EMPTY, RowScope
from mayflydb.query.yql.schemas import Schemas
from mayflydb.query.yql.syntax import Expression as Tree
from mayflydb.query.yql.syntax import Query
from mayflydb.query.yql.types import Type


class Pragmas(NamedTuple):
    """How the text is read: see PRAGMA."""

    prefix: str = ""
    ordered_columns: bool = False
    simple_columns: bool = True
    classic_division: bool = True
    unicode_literals: bool = False
    positional: bool = False


UNUSED_SYMBOL: Final = 4527
"""The code of YQL_UNUSED_SYMBOL."""

PRAGMAS = Pragmas()
"""Where nothing is said."""


class Context:
    """What a whole script is bound with, and what binding it finds out."""

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
        self.preludes: list[Prelude] = []
        self.trees: list[Any] = []
        self.memo: dict[Any, tuple[Operand, bool]] = {}
        self.depth = 0
        self.uses = 0
        self.views = 0
        self.within: list[str] = []
        self._numbers = 0

    def pragmas(self) -> Pragmas:
        return Pragmas(
            self.prefix,
            self.ordered_columns,
            self.simple_columns,
            self.classic_division,
            self.unicode_literals,
            self.positional,
        )

    def set_pragmas(self, to: Pragmas) -> None:
        self.prefix, self.ordered_columns, self.simple_columns = to.prefix, to.ordered_columns, to.simple_columns
        self.classic_division, self.unicode_literals = to.classic_division, to.unicode_literals
        self.positional = to.positional

    def number(self) -> int:
        """A new number of `Run.named`."""
        self._numbers += 1
        return self._numbers

    def path(self, name: str) -> str:
        return join(self.database, self.prefix, name)

    def parameter(self, name: str, at: Position) -> Type:
        """Its type. Faults: nobody declared it or gave it."""
        type = self.declared.get(name) or self.given.get(name)
        if type is None:
            raise fault(f"Unknown name: ${name}", at)
        self.parameters[name] = type
        return type

    def declare(self, name: str, type: Type, at: Position) -> None:
        """A parameter has this type. The first DECLARE of a name is where a warning points."""
        self.declared[name] = type
        self._declared_at.setdefault(name, at)

    def warn_of_unused(self) -> None:
        """A warning for each declared parameter that no statement reads; names that begin with an underscore are exempt."""
        for name, at in self._declared_at.items():
            if name not in self.parameters and not name.startswith("_"):
                self.warnings.append(Issue(f"Symbol ${name} is not used", UNUSED_SYMBOL, WARNING, at))

    def begin(self) -> None:
        """A new statement: what was evaluated before another may differ now."""
        self.preludes, self.trees = [], []
        self.memo = {}

    def prelude(self, relation: Relation, mode: Literal["scalar", "list", "exists"]) -> int:
        """Evaluate `relation` before this statement; the number under which it will be found."""
        number = self.number()
        self.preludes.append(Prelude(number, relation, mode))
        return number


class Binder:
    """Binds expressions over rows of one kind. `special`: what whole expressions already came to, as after GROUP BY.

    `width`: how many values a row has; arguments of lambdas stand behind them. `Context.uses` counts what was taken from rows.
    """

    def __init__(
        self,
        context: Context,
        names: Names,
        scope: RowScope = EMPTY,
        special: Mapping[Tree, Expression] | None = None,
        width: int | None = None,
    ) -> None:
        self.context, self.names, self.scope = context, names, scope
        self.special: Mapping[Tree, Expression] = special or {}
        self.width = len(scope) if width is None else width
        self.grouped = False

    def within(self, names: Names, width: int) -> Binder:
        """The same row with more behind it, and more names."""
        inner = Binder(self.context, {**self.names, **names}, self.scope, self.special, width)
        inner.grouped = self.grouped
        return inner

    def operand(self, tree: Tree) -> Operand:
        """What `tree` means here. Faults: names, types."""
        if self.special and (found := self.special.get(tree)) is not None:
            self.context.uses += 1
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
        """The same, where it has to be a value."""
        found = self.operand(tree)
        if not isinstance(found, Expression):
            raise fault("Expected a value here, and not a lambda or a type", tree.at)
        return found

    def free(self, tree: Tree) -> tuple[Expression, bool]:
        """An expression, and whether it is the same for all rows."""
        before = self.context.uses
        found = self.expression(tree)
        return found, self.context.uses == before


class LambdaArgument(msgspec.Struct, frozen=True):
    """A parameter of a lambda: it stands at `index` of the row."""

    index: int
    type: Type


class NamedExpression:
    """`$x = ...`: a tree, and where it stood. `pick`: which part of a tuple, for `$a, $b = ...`."""

    def __init__(self, value: Tree | Query, binder: Binder, pick: int | None = None) -> None:
        self.value, self.binder, self.pick = value, binder, pick


Names: TypeAlias = dict[str, LambdaArgument | NamedExpression]
"""By name without `$`. What is not here is a parameter."""


MAX_DEPTH = 200

HANDLERS: dict[type, Callable[[Binder, Any], Operand]] = {}
"""By class of the tree; the modules that know them fill it in (`expressions` imports them all)."""
