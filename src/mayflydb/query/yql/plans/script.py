"""Binding of scripts, statement by statement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mayflydb.query.yql.faults import Fault, Issue, Position, fault, type_fault, unsupported
from mayflydb.query.yql.plans import expressions, queries, writes
from mayflydb.query.yql.plans.binder import MAX_DEPTH, Binder, Context, NamedExpression, Names
from mayflydb.query.yql.plans.bound import bind_query
from mayflydb.query.yql.plans.declarations import apply_declaration
from mayflydb.query.yql.plans.plan import Plan, ResultColumns, Step
from mayflydb.query.yql.plans.subqueries import is_query
from mayflydb.query.yql.schemas import Schemas
from mayflydb.query.yql.statements import (
    Action,
    Commit,
    Delete,
    Discard,
    Do,
    EvaluateFor,
    EvaluateIf,
    Script,
    Statement,
    Update,
    Write,
)
from mayflydb.query.yql.syntax import Literal_
from mayflydb.query.yql.types import CallableType, ListType, Primitive, StructType, Type, format_long

assert expressions.REGISTERED
assert queries.REGISTERED

MIXED_OPERATIONS = (
    "Queries with mixed data and scheme operations are not supported. "
    "Use separate queries for different types of operations."
)


def bind(script: Script, schemas: Schemas, database: str, parameters: Mapping[str, Type]) -> Plan:
    """Bind the data statements of `script` to these tables.

    `schemas` has the existing ones of `tables_of`, and those that its views name. `parameters`: the types of the
    parameters that the client sent, by name without `$`. Faults: names, types, tables; statements that change the
    scheme.
    """
    context = Context(schemas, database, parameters)
    binding = _ScriptBinder(context)
    binding.bind_all(script.statements, {})
    context.warn_of_unused()
    return Plan(
        tuple(binding.steps),
        context.declared,
        {**context.declared, **context.parameters},
        tuple(binding.results),
        frozenset(context.reads),
        frozenset(context.writes),
        tuple(context.warnings),
        commit=any(not each.rollback for each in binding.ends),
        rollback=any(each.rollback for each in binding.ends),
        stale=frozenset(context.stale),
        used=frozenset(context.parameters),
        given=parameters,
        as_of=context.as_of,
    )


class _ScriptBinder:
    """The steps and result sets of the statements bound so far."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.steps: list[Step] = []
        self.results: list[ResultColumns] = []
        self.ends: list[Commit] = []
        self.actions: dict[str, tuple[Action, Names]] = {}

    def bind_all(self, statements: Sequence[Statement], names: Names) -> None:
        """Bind statements in order, and add their names to `names`."""
        for statement in statements:
            if apply_declaration(self.context, names, statement):
                continue
            if isinstance(statement, Commit):
                self.ends.append(statement)
            elif isinstance(statement, Action):
                self.actions[statement.name] = statement, dict(names)
            elif isinstance(statement, Do):
                self._bind_do(statement, names)
            else:
                self._bind(statement, names)

    def _bind(self, statement: Statement, names: Names) -> None:
        step, columns = bind_statement(self.context, names, statement, len(self.results))
        self.steps.append(step)
        if columns is not None:
            self.results.append(columns)

    def _bind_do(self, statement: Do, names: Names) -> None:
        """Bind the statements of an action, with its parameters as names. Faults: an unknown action, a wrong number of
        arguments."""
        if statement.action is None:
            self.bind_all(statement.body, dict(names))
            return
        if statement.action == "EMPTY_ACTION":
            return
        if statement.action not in self.actions:
            raise fault(f"Unknown name: ${statement.action}", statement.at)
        action, around = self.actions[statement.action]
        missing = len(action.parameters) - len(statement.arguments)
        if not 0 <= missing <= action.optional:
            wanted = len(action.parameters)
            raise fault(f"Action ${action.name} takes {wanted} arguments", statement.at)
        given = Binder(self.context, dict(names))
        absent = (Literal_(statement.at, "null", None),) * missing
        bound: Names = {
            name: NamedExpression(value, given)
            for name, value in zip(action.parameters, (*statement.arguments, *absent), strict=True)
        }
        self.context.depth += 1
        if self.context.depth > MAX_DEPTH:
            raise fault("Actions are nested too deeply", statement.at)
        # The body sees the names at the definition of the action; the arguments see those at the call.
        self.bind_all(action.body, {**around, **bound})
        self.context.depth -= 1


def check_persistable(columns: ResultColumns, at: Position) -> None:
    """Refuse columns whose values live only during a query: those of `Resource<..>` and `Callable<..>`."""
    if any(_lives_in_query(type) for _, type in columns):
        whole = format_long(ListType(StructType(columns)))
        raise type_fault("RemoveSystemMembers", f"Expected persistable data, but got: {whole}", at)


def _lives_in_query(type: object) -> bool:
    if isinstance(type, Primitive):
        return type.name.startswith("Resource<")
    if isinstance(type, tuple):
        return any(map(_lives_in_query, type))
    if isinstance(type, CallableType):
        return True
    return isinstance(type, Type) and any(_lives_in_query(getattr(type, each)) for each in type.__struct_fields__)


def bind_statement(
    context: Context, names: Names, statement: Statement, result: int
) -> tuple[Step, ResultColumns | None]:
    """Bind one statement: its step, and the columns of its result set, which would have number `result`."""
    context.begin()
    if is_query(statement):
        bound = bind_query(context, names, statement)  # type: ignore[arg-type]  # A query.
        columns = tuple((each.name, each.type) for each in bound.fields)
        check_persistable(columns, statement.at)
        return Step(tuple(context.subqueries), relation=bound.relation, result=result), columns
    if isinstance(statement, Discard):
        bound = bind_query(context, names, statement.query)
        return Step(tuple(context.subqueries), relation=bound.relation), None
    if isinstance(statement, (Write, Update, Delete)):
        action, returned = writes.bind_write(context, names, statement)
        check_persistable(returned or (), statement.at)
        step = Step(tuple(context.subqueries), action=action, result=None if returned is None else result)
        return step, returned
    if isinstance(statement, (EvaluateIf, EvaluateFor)):
        raise fault("EVALUATE is not supported in YDB queries", statement.at)
    if statement.__class__.__module__.endswith(".definitions"):
        raise Fault("GENERIC_ERROR", Issue(MIXED_OPERATIONS, 2009, position=statement.at))
    raise unsupported(statement.__class__.__name__, statement.at)
