"""Calls of functions and lambdas; types as arguments."""

from __future__ import annotations

from collections.abc import Sequence

from mayflydb.query.yql import functions
from mayflydb.query.yql.expression import BoundLambda, Expression, Factory, Invocation, Lambda, Operand, TypeOperand
from mayflydb.query.yql.faults import Position, fault
from mayflydb.query.yql.functions.support import CallableValue
from mayflydb.query.yql.plans.binder import HANDLERS, Binder, LambdaArgument, NamedExpression, Names
from mayflydb.query.yql.plans.columns import bind_row_columns
from mayflydb.query.yql.plans.scopes import EMPTY
from mayflydb.query.yql.plans.type_names import bind_type
from mayflydb.query.yql.plans.window_functions import WINDOW_FUNCTIONS
from mayflydb.query.yql.schemas import Row, Run
from mayflydb.query.yql.syntax import Apply, FunctionCall, TypeArgument
from mayflydb.query.yql.syntax import Argument as Given
from mayflydb.query.yql.syntax import Lambda as LambdaTree
from mayflydb.query.yql.types import NULL, CallableType, StructType, Type, Value


def bind_call(binder: Binder, tree: FunctionCall) -> Operand:
    if tree.name.lower() in ("tablerow", "jointablerow"):
        return bind_table_row(binder, tree)
    builder = functions.find(tree.name)
    if builder is None:
        if functions.find_aggregate(tree.name) is not None:
            raise fault(f"Aggregate function {tree.name} is not allowed here", tree.at)
        if tree.name.upper() in WINDOW_FUNCTIONS:
            name = "".join(each.capitalize() for each in tree.name.split("_"))
            raise fault(f"Failed to use window function {name} without window specification", tree.at)
        raise fault(f"Unknown builtin: {tree.name}", tree.at)
    if tree.over is not None:
        raise fault(f"Function {tree.name} is no window function", tree.at)
    return builder(bind_invocation(binder, tree.name, tree.arguments, tree.at))


def bind_invocation(binder: Binder, name: str, arguments: Sequence[Given], at: Position) -> Invocation:
    """Bind the operands of a call."""
    operands = tuple(binder.operand(each.value) for each in arguments if each.name is None)
    named = tuple((each.name, binder.operand(each.value)) for each in arguments if each.name is not None)
    return Invocation(name, operands, named, at)


def bind_table_row(binder: Binder, tree: FunctionCall) -> Expression:
    """Bind TableRow() or JoinTableRow(): all columns as a struct, for JoinTableRow with the names of their tables."""
    scope = binder.scope
    binder.context.row_uses += 1
    if scope is EMPTY or binder.grouped:
        raise fault(f"{tree.name} needs FROM, and no GROUP BY", tree.at)
    columns = bind_row_columns(binder, tree.name.lower() == "jointablerow", tree.at)
    values = tuple(each.evaluate for _, each in columns)
    type = StructType(tuple((name, each.type) for name, each in columns))
    return Expression(type, lambda row, run: tuple([each(row, run) for each in values]))


def bind_apply(binder: Binder, tree: Apply) -> Operand:
    """Bind `$f(1)`: the body of the lambda with these arguments."""
    callee = binder.operand(tree.callee)
    if isinstance(callee, Expression) and isinstance(callee.type, CallableType):
        callee = CallableValue(callee, callee.type)
    if isinstance(callee, (Expression, TypeOperand, Factory)):
        raise fault("Expected a lambda or a callable here", tree.at)
    arguments = [binder.expression(each.value) for each in tree.arguments]
    return bind_lambda_call(callee, arguments, tree.at)


def bind_lambda_call(callee: Lambda, arguments: Sequence[Expression], at: Position) -> Expression:
    bound = callee.bind([each.type for each in arguments])
    values, body = tuple(each.evaluate for each in arguments), bound.call
    return Expression(bound.type, lambda row, run: body(tuple([each(row, run) for each in values]), row, run))


class Closure:
    """A lambda of the query, with the names and the row at its definition."""

    def __init__(self, binder: Binder, tree: LambdaTree) -> None:
        self._binder, self._tree = binder, tree
        self._bound: dict[tuple[Type, ...], BoundLambda] = {}

    @property
    def arity(self) -> int:
        return len(self._tree.parameters)

    def bind(self, types: Sequence[Type]) -> BoundLambda:
        tree, key = self._tree, tuple(types)
        missing = self.arity - len(key)
        if not 0 <= missing <= tree.optional:
            wanted = f"{self.arity - tree.optional} to {self.arity}" if tree.optional else str(self.arity)
            raise fault(f"Expected {wanted} arguments of a lambda, but got: {len(key)}", tree.at)
        found = self._bound.get(key)
        if found is None:
            found = self._bound[key] = self._bind((*key, *(NULL for _ in range(missing))), missing)
        return found

    def detach(self) -> Closure:
        binder = self._binder
        names: Names = {name: each for name, each in binder.names.items() if not isinstance(each, LambdaArgument)}
        return Closure(Binder(binder.context, names), self._tree)

    def _bind(self, types: tuple[Type, ...], missing: int) -> BoundLambda:
        binder, width, tree = self._binder, self._binder.width, self._tree
        arguments: Names = {
            name: LambdaArgument(width + place, type)
            for place, (name, type) in enumerate(zip(tree.parameters, types, strict=True))
            if name != "_"
        }
        inner = binder.with_names(arguments, width + len(types))
        for binding in tree.bindings:
            many = len(binding.names) > 1
            for place, name in enumerate(binding.names):
                # Each definition gets a copy of the names before it, so it sees the earlier ones and not itself.
                inner.names[name] = NamedExpression(
                    binding.value, inner.with_names({}, inner.width), place if many else None
                )
        body = inner.expression(tree.body)
        evaluate, rest = body.evaluate, (None,) * missing

        # The body's row: | row and outer arguments at the definition, `width` values | own arguments |. A call within
        # another lambda has a longer row, which is cut.
        def run_body(values: tuple[Value, ...], row: Row, run: Run) -> Value:
            return evaluate(row[:width] + values + rest, run)

        return BoundLambda(body.type, run_body)


def bind_lambda(binder: Binder, tree: LambdaTree) -> Operand:
    return Closure(binder, tree)


def bind_type_argument(binder: Binder, tree: TypeArgument) -> Operand:
    return TypeOperand(bind_type(binder, tree.type))


HANDLERS.update({FunctionCall: bind_call, Apply: bind_apply, LambdaTree: bind_lambda, TypeArgument: bind_type_argument})
