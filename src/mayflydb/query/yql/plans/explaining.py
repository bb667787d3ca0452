"""EXPLAIN: a plan as YDB's JSON.

Source of names and shape: https://ydb.tech/docs/en/dev/query-execution-optimization/query-plans-optimization
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mayflydb.query.yql.plans.access import KeyRanges
from mayflydb.query.yql.plans.compounds import AppendRows, MatchRows
from mayflydb.query.yql.plans.constraints import Constraint
from mayflydb.query.yql.plans.grouping import GroupRows
from mayflydb.query.yql.plans.join_execution import JoinRows, LookupRows
from mayflydb.query.yql.plans.plan import Plan, Relation
from mayflydb.query.yql.plans.relations import (
    DistinctRows,
    FilterRows,
    LimitRows,
    ListRows,
    ProjectRows,
    Scan,
    SortRows,
)
from mayflydb.query.yql.plans.writes import Change

Json = dict[str, Any]


def explain(plan: Plan) -> Json:
    """Return the plan as YDB's JSON: a tree of operators, and the reads and writes of each table."""
    tables: dict[str, Json] = {}
    queries = []
    for step in plan.steps:
        roots = [each.relation for each in step.subqueries]
        if step.relation is not None:
            roots.append(step.relation)
        plans = [_build_node(each, tables) for each in roots]
        kind = "ResultSet"
        if isinstance(step.action, Change):
            plans.append(_write_node(step.action, tables))
            kind = "Sink"
        queries.append({"Node Type": kind, "PlanNodeType": kind, "Plans": plans})
    root = {"Node Type": "Query", "PlanNodeType": "Query", "Plans": queries}
    return {
        "Plan": _number_nodes(root),
        "meta": {"type": "query", "version": "0.2"},
        "tables": [tables[name] for name in sorted(tables)],
    }


def _number_nodes(root: Json) -> Json:
    # Numbers in the order of reading, a node before its inputs.
    number = 0
    left = [root]
    while left:
        node = left.pop()
        node["PlanNodeId"] = number
        number += 1
        left.extend(reversed(node.get("Plans", ())))
    return root


def _table(tables: dict[str, Json], path: str) -> Json:
    return tables.setdefault(path, {"name": path})


def _write_node(change: Change, tables: dict[str, Json]) -> Json:
    name = {"DELETE": "Delete", "INSERT": "Insert", "UPDATE": "Update"}.get(change.verb, change.verb.capitalize())
    kind = "MultiErase" if change.verb == "DELETE" else f"Multi{name}"
    _table(tables, change.table).setdefault("writes", []).append({"type": kind, "columns": list(change.columns)})
    operator = {"Name": name, "Table": _table_name(change.table), "Path": change.table}
    return _build_stage(name, operator, [_build_node(change.source, tables)], change.table)


def _table_name(path: str) -> str:
    return path.rsplit("/", 1)[-1]


def _build_stage(name: str, operator: Json, plans: list[Json], table: str | None = None) -> Json:
    node: Json = {"Node Type": name, "Operators": [operator]}
    if table is not None:
        node["Tables"] = [_table_name(table)]
    if plans:
        node["Plans"] = plans
    return node


def _build_node(relation: Relation, tables: dict[str, Json]) -> Json:
    if isinstance(relation, Scan):
        return _scan(relation, tables)
    if isinstance(relation, LookupRows):
        scan = relation.right.relation
        assert isinstance(scan, Scan)
        entry = {"type": "Lookup", "lookup_by": list(relation.names), "columns": list(scan.columns)}
        _table(tables, scan.table).setdefault("reads", []).append(entry)
        operator = {
            "Name": f"{_join_name(relation.kind)} (Lookup)",
            "Table": _table_name(scan.table),
            "Path": scan.table,
        }
        operator["LookupKeyColumns"] = list(relation.names)  # type: ignore[assignment]  # Any JSON value.
        return _build_stage("TableLookupJoin", operator, [_build_node(relation.left.relation, tables)], scan.table)
    name, operator = _operator_of(relation)
    return _build_stage(name, operator, [_build_node(each, tables) for each in relation.inputs()])


def _join_name(kind: str) -> str:
    return "".join(word.capitalize() for word in kind.split()) + "Join"


def _sort_operator(sort: SortRows) -> tuple[str, Json]:
    name = "Sort" if sort.limit is None else "TopSort"
    return name, {"Name": name}


def _set_operator(each: MatchRows) -> tuple[str, Json]:
    name = "Intersect" if each.keep else "Except"
    return name, {"Name": name}


_NAMES: dict[type, Callable[[Any], tuple[str, Json]]] = {
    FilterRows: lambda each: ("Filter", {"Name": "Filter"}),
    SortRows: _sort_operator,
    LimitRows: lambda each: ("Limit", {"Name": "Limit"}),
    GroupRows: lambda each: ("Aggregate", {"Name": "Aggregate"}),
    DistinctRows: lambda each: ("Aggregate", {"Name": "Aggregate", "Phase": "Final"}),
    JoinRows: lambda each: (_join_name(each.kind), {"Name": f"{_join_name(each.kind)} (MapJoin)"}),
    AppendRows: lambda each: ("UnionAll", {"Name": "UnionAll"}),
    MatchRows: _set_operator,
    ProjectRows: lambda each: ("Stage", {"Name": "Map"}),
    ListRows: lambda each: ("ConstantExpr", {"Name": "Iterator"}),
}


def _operator_of(relation: Relation) -> tuple[str, Json]:
    known = _NAMES.get(relation.__class__)
    if known is None:
        # The name of the class is a part of the answer: do not rename these relations.
        return "ConstantExpr", {"Name": relation.__class__.__name__}
    return known(relation)


def _scan(scan: Scan, tables: dict[str, Json]) -> Json:
    path = scan.table if scan.index is None else f"{scan.table}/{scan.index}/indexImplTable"
    operator: Json = {"Name": "TableFullScan", "Table": _table_name(scan.table), "Path": path}
    entry: Json = {"type": "FullScan", "columns": list(scan.columns)}
    if isinstance(scan.ranges, KeyRanges):
        bounds = format_ranges(scan.ranges)
        whole = len(scan.ranges.equal) == len(scan.ranges.columns)
        operator["Name"] = "TablePointLookup" if whole else "TableRangeScan"
        operator["ReadRange"] = bounds
        entry = {"type": "Lookup" if whole else "Scan", "lookup_by" if whole else "scan_by": bounds, **entry}
        entry["type"] = "Lookup" if whole else "Scan"
    elif scan.ranges is not None:
        operator["Name"] = "TableRangeScan"
        operator["ReadRange"] = ["expr"]
        entry = {**entry, "type": "Scan", "scan_by": ["expr"]}
    operator["ReadColumns"] = list(scan.columns)
    if scan.index is not None:
        operator["Index"] = entry["index"] = scan.index
    if scan.descending:
        operator["Reverse"] = entry["reverse"] = True
    if scan.limit is not None:
        operator["ReadLimit"] = entry["limit"] = "pushed down"
    _table(tables, scan.table).setdefault("reads", []).append(entry)
    return _build_stage(operator["Name"], operator, [], scan.table)


def format_ranges(ranges: KeyRanges) -> list[str]:
    """Format ranges as `id (1)` and `n [5, +∞)`, column by column."""
    texts = []
    for column, group in zip(ranges.columns, ranges.equal, strict=False):
        texts.append(f"{column.name} ({' AND '.join(each.text for each in group)})")
    if ranges.bounds:
        column = ranges.columns[len(ranges.equal)]
        low = _find_bound(ranges.bounds, ">")
        high = _find_bound(ranges.bounds, "<")
        left = "(-∞" if low is None else ("[" if low.operator == ">=" else "(") + low.text
        right = "+∞)" if high is None else high.text + ("]" if high.operator == "<=" else ")")
        texts.append(f"{column.name} {left}, {right}")
    return texts


def _find_bound(bounds: tuple[Constraint, ...], side: str) -> Constraint | None:
    return next((each for each in bounds if each.operator[0] == side), None)
