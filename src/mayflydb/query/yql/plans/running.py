"""Execution of plans."""

from __future__ import annotations

from collections.abc import AsyncIterator

from mayflydb.query.yql.faults import fault
from mayflydb.query.yql.members import find_arrangement
from mayflydb.query.yql.plans.plan import BoundSubquery, Plan, ResultPart
from mayflydb.query.yql.plans.relations import close, collect_rows
from mayflydb.query.yql.schemas import Run, Tables
from mayflydb.query.yql.types import Value, is_optional


async def execute(plan: Plan, run: Run, tables: Tables) -> AsyncIterator[ResultPart]:
    """Run all statements in order. Each result set yields at least one part, and the parts of one result set follow
    each other.

    `run` serves this execution only. Faults: missing parameters, evaluation, refusals of `tables`. Earlier writes are
    not undone: the caller rolls them back.
    """
    run.parameters = {**_missing_parameters(plan, run), **_arrange_parameters(plan, run)}
    for step in plan.steps:
        # Just before their statement, so that subqueries see what earlier statements have written.
        for subquery in step.subqueries:
            run.computed[subquery.number] = await evaluate_subquery(subquery, run, tables)
        if step.relation is not None:
            batches = step.relation.batches(run, tables)
        else:
            assert step.action is not None
            batches = step.action.act(run, tables)
        empty = True
        async for batch in batches:
            if batch and step.result is not None:
                empty = False
                yield ResultPart(step.result, batch)
        # Also a result set without rows yields a part, so that its columns reach the client.
        if empty and step.result is not None:
            yield ResultPart(step.result, ())


def _arrange_parameters(plan: Plan, run: Run) -> dict[str, Value]:
    """The values that the client sent, with Struct members in the order of the declared types."""
    found = dict(run.parameters)
    for name, given in plan.given.items():
        declared = plan.declared.get(name, given)
        if name in found and given != declared:
            arrange = find_arrangement(given, declared)
            assert arrange is not None, "binding has checked it"
            found[name] = arrange(found[name])
    return found


def _missing_parameters(plan: Plan, run: Run) -> dict[str, Value]:
    """NULL for optional parameters that the client did not send. Faults: another used parameter is missing."""
    missing = [name for name in plan.parameters if name in plan.used and name not in run.parameters]
    for name in missing:
        if not is_optional(plan.parameters[name]):
            raise fault(f"Missing value for parameter: ${name}", status="BAD_REQUEST")
    return dict.fromkeys(missing)


async def evaluate_subquery(subquery: BoundSubquery, run: Run, tables: Tables) -> Value:
    """Run a subquery, and return its value."""
    if subquery.mode == "list":
        return [row[0] for row in await collect_rows(subquery.relation, run, tables)]
    # Only the first row counts, so the read is closed behind it.
    batches = subquery.relation.batches(run, tables)
    try:
        async for batch in batches:
            if batch:
                return True if subquery.mode == "exists" else batch[0][0]
    finally:
        await close(batches)
    return False if subquery.mode == "exists" else None
