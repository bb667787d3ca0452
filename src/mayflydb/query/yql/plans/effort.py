"""The effort of a query, estimated from its text and plan. It decides where the query computes."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Final

from mayflydb.query.yql import statements, syntax
from mayflydb.query.yql.plans.access import KeyRanges
from mayflydb.query.yql.plans.grouping import GroupRows
from mayflydb.query.yql.plans.plan import Plan, Relation
from mayflydb.query.yql.plans.relations import FilterRows, LimitRows, OneRow, ProjectRows, Scan
from mayflydb.query.yql.plans.trees import nodes
from mayflydb.query.yql.statements import Script


class Effort(IntEnum):
    """The classes of queries, least first."""

    SMALL = 0
    """Reads single rows by their keys, and otherwise handles what the text and the parameters bring along."""

    STREAMING = 1
    """Handles each row by itself, with a very small factor. It holds no rows."""

    LINEAR = 2
    """Takes time in proportion to the rows that it reads, with a small factor."""

    UNBOUNDED = 3
    """May take any time: joins, lambdas, texts and lists that grow, patterns."""


MAX_NODES: Final = 1000
"""A larger query is unbounded: each row passes through all of its expressions."""

STREAMING_NODES: Final = 40
"""A larger query does not stream: some hundred rows at a time pass through its expressions on the event loop."""

_LINEAR_NODES: Final = frozenset(
    (
        *(
            syntax.Name,
            syntax.Parameter,
            syntax.Member,
            syntax.NamedMember,
            syntax.Literal_,
            syntax.Unary,
            syntax.Binary,
            syntax.Between,
        ),
        *(syntax.In, syntax.Case, syntax.Cast, syntax.TypeName, syntax.TypeArgument, syntax.Argument),
        *(syntax.FunctionCall, syntax.ListLiteral, syntax.TupleLiteral, syntax.StructLiteral, syntax.Item, syntax.Star),
        *(syntax.TableRef, syntax.QuerySource, syntax.Source, syntax.From, syntax.OrderItem, syntax.GroupBy),
        *(syntax.Select, syntax.Values, statements.Declare, statements.Pragma, statements.Write, statements.Update),
        *(statements.Delete, statements.Commit, statements.Discard),
    )
)
"""Subqueries, compounds and names of expressions are not among them: a short text can evaluate those any number of times."""

_LINEAR_FUNCTIONS: Final = frozenset(
    (
        *("count", "sum", "min", "max", "avg", "some", "countif", "sumif", "avgif", "boolor", "booland"),
        *("coalesce", "nvl", "if", "just", "nothing", "unwrap", "ensure", "length", "len", "abs", "maxof", "minof"),
        *("startswith", "endswith", "find", "substring", "asstruct", "astuple", "aslist", "random", "randomnumber"),
        *(
            "randomuuid",
            "currentutcdate",
            "currentutcdatetime",
            "currentutctimestamp",
            "bool",
            "int8",
            "int16",
            "int32",
        ),
        *("int64", "uint8", "uint16", "uint32", "uint64", "float", "double", "decimal", "string", "utf8", "json"),
        *("jsondocument", "yson", "uuid", "date", "datetime", "timestamp", "interval", "date32", "datetime64"),
        *("timestamp64", "interval64"),
    )
)


def estimate_script(script: Script) -> Effort:
    """Return STREAMING, LINEAR or UNBOUNDED."""
    return estimate_tree(script.statements)


def estimate_tree(tree: object) -> Effort:
    """Return the effort of a node of syntax, or of a tuple of nodes, as of a script."""
    number = 0
    for number, node in enumerate(nodes(tree), 1):
        if number > MAX_NODES or node.__class__ not in _LINEAR_NODES or _is_unbounded(node):
            return Effort.UNBOUNDED
    return Effort.STREAMING if number <= STREAMING_NODES else Effort.LINEAR


def _is_unbounded(node: syntax.Syntax) -> bool:
    match node:
        case syntax.Binary(operator="||") | syntax.GroupBy(sets=tuple()):
            return True
        case syntax.FunctionCall():
            return node.over is not None or node.name.replace("_", "").lower() not in _LINEAR_FUNCTIONS
        case syntax.From():
            return bool(node.joins)
        case syntax.Source():
            # A name may stand for a query, which has another one within.
            return node.flatten is not None
    return False


def estimate_plan(of_script: Effort, plan: Plan) -> Effort:
    """Return the effort of a plan. `of_script`: that of its script."""
    if of_script is Effort.UNBOUNDED:
        return of_script
    relations = list(_relations(plan))
    if all(_reads_one_row(each) for each in relations if isinstance(each, Scan)):
        return Effort.SMALL
    if of_script is Effort.STREAMING and plan.read_only and all(map(_streams, relations)):
        return Effort.STREAMING
    return Effort.LINEAR


def _relations(plan: Plan) -> Iterator[Relation]:
    waiting: list[Relation] = []
    for step in plan.steps:
        waiting += () if step.relation is None else (step.relation,)
        waiting += () if step.action is None else step.action.inputs()
        waiting += (each.relation for each in step.subqueries)
    while waiting:
        relation = waiting.pop()
        yield relation
        waiting += relation.inputs()


def _streams(relation: Relation) -> bool:
    if isinstance(relation, GroupRows):
        # One group, of aggregates whose states have a fixed size.
        return not relation.keys and all(each.distinct is None for each in relation.aggregates)
    return isinstance(relation, (OneRow, Scan, FilterRows, ProjectRows, LimitRows))


def _reads_one_row(scan: Scan) -> bool:
    ranges = scan.ranges
    if scan.index is not None or not isinstance(ranges, KeyRanges):
        return False
    given = [any(each.kind == "eq" for each in group) for group in ranges.equal]
    return len(given) == len(ranges.columns) and all(given)
