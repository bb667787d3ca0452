"""Whole texts: statement after statement."""

from __future__ import annotations

from collections.abc import Mapping

from mayflydb.query.yql import names as type_names
from mayflydb.query.yql.faults import Fault, Issue, fault, unsupported
from mayflydb.query.yql.plans import expressions, writes
from mayflydb.query.yql.plans.binder import Binder, Context
from mayflydb.query.yql.plans.paths import is_prefix_pragma
from mayflydb.query.yql.plans.plan import Plan, ResultColumns, Step
from mayflydb.query.yql.plans.queries import bind_query
from mayflydb.query.yql.plans.scopes import Named, Names
from mayflydb.query.yql.plans.subqueries import is_query
from mayflydb.query.yql.schemas import Schemas
from mayflydb.query.yql.statements import (
    Commit,
    Declare,
    Delete,
    Discard,
    Pragma,
    Script,
    Statement,
    Update,
    Write,
)
from mayflydb.query.yql.syntax import Binding
from mayflydb.query.yql.types import Type, format_long

assert expressions.LOADED

MIXED = (
    "Queries with mixed data and scheme operations are not supported. "
    "Use separate queries for different types of operations."
)


def bind(script: Script, schemas: Schemas, database: str, parameters: Mapping[str, Type]) -> Plan:
    """A plan of the data statements of `script` over these tables.

    `schemas` has what `tables_of` names, as far as it is there, and what its views stand for. `parameters`: types of those that
    are given, by name without `$`. Faults: names, types, tables; statements that define something.
    """
    context = Context(schemas, database, parameters)
    names: Names = {}
    steps: list[Step] = []
    results: list[ResultColumns] = []
    ends: list[Commit] = []
    for statement in script.statements:
        if prepare(context, names, statement):
            continue
        if isinstance(statement, Commit):
            ends.append(statement)
            continue
        step, columns = bind_statement(context, names, statement, len(results))
        steps.append(step)
        if columns is not None:
            results.append(columns)
    return Plan(
        tuple(steps),
        context.declared,
        {**context.declared, **context.parameters},
        tuple(results),
        frozenset(context.reads),
        frozenset(context.writes),
        tuple(context.warnings),
        commit=any(not each.rollback for each in ends),
        rollback=any(each.rollback for each in ends),
    )


def prepare(context: Context, names: Names, statement: Statement) -> bool:
    """Take in what only says how to read the rest: DECLARE, PRAGMA, `$x = ...`. False: it is something else."""
    match statement:
        case Declare(at, name, type_name):
            type = type_names.resolve(type_name)
            given = context.given.get(name)
            if given is not None and given != type:
                raise fault(
                    f"Parameter ${name} type mismatch, expected: {format_long(type)}, actual: {format_long(given)}",
                    at,
                    "BAD_REQUEST",
                )
            context.declared[name] = type
        case Pragma():
            _pragma(context, statement)
        case Binding(_, bound, value):
            binder = Binder(context, dict(names))
            for place, name in enumerate(bound):
                names[name] = Named(value, binder, place if len(bound) > 1 else None)
        case _:
            return False
    return True


def _pragma(context: Context, pragma: Pragma) -> None:
    """Those that mean something here; others tune what Mayfly does not have."""
    name = pragma.name.lower()
    if is_prefix_pragma(pragma):
        context.prefix = pragma.values[-1]
    elif name in ("orderedcolumns", "disableorderedcolumns"):
        context.ordered_columns = name == "orderedcolumns"
    elif name in ("positionalunionall", "disablepositionalunionall"):
        context.positional = name == "positionalunionall"


def bind_statement(
    context: Context, names: Names, statement: Statement, result: int
) -> tuple[Step, ResultColumns | None]:
    """One statement as a step, and the columns of what it returns: its result set would be number `result`."""
    context.begin()
    if is_query(statement):
        bound = bind_query(context, names, statement)  # type: ignore[arg-type]  # It is one.
        columns = tuple((each.name, each.type) for each in bound.fields)
        return Step(tuple(context.preludes), relation=bound.relation, result=result), columns
    if isinstance(statement, Discard):
        bound = bind_query(context, names, statement.query)
        return Step(tuple(context.preludes), relation=bound.relation), None
    if isinstance(statement, (Write, Update, Delete)):
        action, returned = writes.bind_write(context, names, statement)
        step = Step(tuple(context.preludes), action=action, result=None if returned is None else result)
        return step, returned
    if statement.__class__.__module__.endswith(".definitions"):
        raise Fault("GENERIC_ERROR", Issue(MIXED, 2009, position=statement.at))
    raise unsupported(statement.__class__.__name__, statement.at)
