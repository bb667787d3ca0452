"""The reply of explain: the stages of a plan, nested, and the counts of its execution.
Shapes: https://www.mongodb.com/docs/manual/reference/explain-results/
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

import msgspec
from bson import Int64

from mayflydb.query.mongo.filter import is_operators
from mayflydb.query.mongo.indexes.planner import Plan
from mayflydb.query.mongo.indexes.specs import IndexSpec
from mayflydb.query.mongo.values import Document, Value, format_value, is_number, type_name

SORT_MEMORY: Final = 100 * 1024 * 1024
"""Bytes that a sort may hold, as the sort stage reports them."""

Verb: TypeAlias = Literal["find", "count", "distinct", "update", "delete"]


class ExplainedCommand(msgspec.Struct, frozen=True):
    """The explained command, as far as it determines stages. 0 stands for no skip and no limit."""

    query: Document
    verb: Verb = "find"
    sort: Document | None = None
    projection: Document | None = None
    skip: int = 0
    limit: int = 0


class RunCounts(msgspec.Struct, frozen=True):
    """Counts of one execution: documents returned, keys and documents examined, documents hidden by TTL, milliseconds."""

    returned: int
    keys: int
    documents: int
    hidden: int = 0
    milliseconds: int = 0


def query_planner(plan: Plan, explained: ExplainedCommand, namespace: str) -> Document:
    """Return `queryPlanner`."""
    return {
        "plannerVersion": 1,
        "namespace": namespace,
        "indexFilterSet": False,
        "parsedQuery": format_query(explained.query),
        "winningPlan": build_stages(plan, explained),
        "rejectedPlans": [],
    }


def execution_stats(plan: Plan, explained: ExplainedCommand, counts: RunCounts, everything: bool = False) -> Document:
    """Return `executionStats`. `everything`: add `allPlansExecution`."""
    result: Document = {
        "executionSuccess": True,
        "nReturned": counts.returned,
        "executionTimeMillis": counts.milliseconds,
        "totalKeysExamined": counts.keys,
        "totalDocsExamined": counts.documents,
        "hiddenByTtl": counts.hidden,
        "executionStages": _add_counts(build_stages(plan, explained), counts),
    }
    return result | {"allPlansExecution": []} if everything else result


def explanation(
    plan: Plan,
    explained: ExplainedCommand,
    namespace: str,
    command: Document,
    server: Document,
    counts: RunCounts | None = None,
) -> Document:
    """Return the whole reply. `server`: host, port, version, gitVersion. `counts`: for the verbosities that execute
    the command.
    """
    reply: Document = {"explainVersion": "1", "queryPlanner": query_planner(plan, explained, namespace)}
    if counts is not None:
        reply["executionStats"] = execution_stats(plan, explained, counts)
    return reply | {"command": command, "serverInfo": server, "ok": 1.0}


# --- stages --------------------------------------------------------------------------------------------------------------


def build_stages(plan: Plan, explained: ExplainedCommand) -> Document:
    """Return `winningPlan`: the last stage, with its input stages nested."""
    if plan.kind == "none":
        return {"stage": "EOF"}
    stage = _source_stage(plan, explained.query)
    if explained.sort and not plan.sorted:
        sort: Document = {"stage": "SORT", "sortPattern": explained.sort, "memLimit": SORT_MEMORY}
        if explained.limit:
            # The sort keeps what the skip behind it drops.
            sort["limitAmount"] = Int64(explained.limit + explained.skip)
        stage = sort | {"type": "simple", "inputStage": stage}
    if explained.skip:
        stage = {"stage": "SKIP", "skipAmount": Int64(explained.skip), "inputStage": stage}
    if explained.limit:
        stage = {"stage": "LIMIT", "limitAmount": Int64(explained.limit), "inputStage": stage}
    if explained.projection:
        kind = "PROJECTION_SIMPLE" if _is_simple(explained.projection) else "PROJECTION_DEFAULT"
        stage = {"stage": kind, "transformBy": explained.projection, "inputStage": stage}
    if explained.verb in ("count", "update", "delete"):
        stage = {"stage": explained.verb.upper(), "inputStage": stage}
    return stage


def _source_stage(plan: Plan, query: Document) -> Document:
    if plan.kind == "scan":
        filtered = {"filter": format_query(query)} if query else {}
        return {"stage": "COLLSCAN", **filtered, "direction": _scan_direction(plan)}
    if plan.kind == "ids" and len(plan.ids) == 1 and list(query) == ["_id"]:
        return {"stage": "IDHACK"}
    inner = _key_stage(plan)
    if plan.index is not None and plan.index.clustered:
        # The documents lie in the index itself.
        return {**inner, "filter": format_query(query)} if query else inner
    return {"stage": "FETCH", "filter": format_query(query), "inputStage": inner}


def _key_stage(plan: Plan) -> Document:
    if plan.kind == "either":
        return {"stage": "OR", "inputStages": [_key_stage(each) for each in plan.branches]}
    if plan.kind == "ids":
        bounds = {"_id": [f"[{format_value(each)}, {format_value(each)}]" for each in plan.ids]}
        return _index_scan({"_id": 1}, "_id_", {"isUnique": True}, bounds, "forward", 2)
    spec = plan.index
    assert spec is not None
    if spec.clustered:
        return _clustered_scan(spec, plan)
    options = {
        "isMultiKey": plan.multikey,
        "isUnique": spec.unique or spec.is_id,
        "isSparse": spec.sparse,
        "isPartial": spec.partial is not None,
    }
    return _index_scan(spec.pattern, spec.name, options, plan.bounds or {}, _scan_direction(plan), spec.v)


def _clustered_scan(spec: IndexSpec, plan: Plan) -> Document:
    return {
        "stage": "CLUSTERED_IXSCAN",
        "keyPattern": spec.pattern,
        "indexName": spec.name,
        "isUnique": True,
        "direction": _scan_direction(plan),
        "indexBounds": plan.bounds or {},
    }


def _index_scan(
    pattern: Document, name: str, options: Document, bounds: Document, direction: str, version: int
) -> Document:
    flags = {"isMultiKey": False, "isUnique": False, "isSparse": False, "isPartial": False} | options
    return {
        "stage": "IXSCAN",
        "keyPattern": pattern,
        "indexName": name,
        **flags,
        "indexVersion": version,
        "direction": direction,
        "indexBounds": bounds,
    }


def _scan_direction(plan: Plan) -> str:
    return "backward" if plan.descending else "forward"


def _is_simple(projection: Document) -> bool:
    """Return whether a projection only includes or excludes whole top-level fields."""
    return all("." not in path and (type(each) is bool or is_number(each)) for path, each in projection.items())


def _add_counts(stage: Document, counts: RunCounts) -> Document:
    """Return a stage and its input stages with the counts of the execution."""
    name = stage["stage"]
    numbers: dict[str, Any] = {"nReturned": counts.returned, "executionTimeMillisEstimate": counts.milliseconds}
    if name in ("FETCH", "COLLSCAN", "IDHACK", "CLUSTERED_IXSCAN"):
        numbers["docsExamined"] = counts.documents
    if name in ("IXSCAN", "IDHACK"):
        numbers["keysExamined"] = counts.keys
    if name in ("IXSCAN", "OR"):
        numbers["nReturned"] = counts.documents
    result = {"stage": name, **numbers, **{field: value for field, value in stage.items() if field != "stage"}}
    if "inputStage" in stage:
        result["inputStage"] = _add_counts(stage["inputStage"], counts)
    if "inputStages" in stage:
        # The counts are totals; branches have no counts of their own.
        result["inputStages"] = [dict(each) for each in stage["inputStages"]]
    return result


# --- queries -------------------------------------------------------------------------------------------------------------


def format_query(query: Document) -> Document:
    """Return a query as `parsedQuery` prints it: each condition with its operator, several under one `$and`."""
    parts = [part for field, value in query.items() for part in _format_condition(field, value)]
    if len(parts) == 1:
        return parts[0]
    return {"$and": parts} if parts else {}


def _format_condition(field: str, value: Value) -> list[Document]:
    if field in ("$and", "$or", "$nor"):
        return [{field: [format_query(each) for each in value]}]
    if field.startswith("$"):
        return [{field: value}]
    if is_operators(value):
        options = {"$options": value["$options"]} if "$options" in value else {}
        return [
            {field: {operator: operand} | (options if operator == "$regex" else {})}
            for operator, operand in value.items()
            if operator != "$options"
        ]
    return [{field: {"$regex" if type_name(value) == "regex" else "$eq": value}}]
