"""The reply of explain, stage by stage."""

from __future__ import annotations

import pytest
from bson import Int64

from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.indexes.explain import (
    ExplainedCommand,
    RunCounts,
    build_stages,
    execution_stats,
    explanation,
    format_query,
)
from mayflydb.query.mongo.indexes.planner import plan
from mayflydb.query.mongo.indexes.specs import parse_spec
from mayflydb.query.mongo.values import Document

A = parse_spec({"key": {"a": 1, "b": -1}, "name": "a_1_b_-1", "unique": True})
IXSCAN = {
    "stage": "IXSCAN",
    "keyPattern": {"a": 1, "b": -1},
    "indexName": "a_1_b_-1",
    "isMultiKey": False,
    "isUnique": True,
    "isSparse": False,
    "isPartial": False,
    "indexVersion": 2,
    "direction": "forward",
    "indexBounds": {"a": ["[1, 1]"], "b": ["[MaxKey, MinKey]"]},
}
FETCH = {"stage": "FETCH", "filter": {"a": {"$eq": 1}}, "inputStage": IXSCAN}


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (ExplainedCommand({}), {"stage": "COLLSCAN", "direction": "forward"}),
        (ExplainedCommand({"c": 1}), {"stage": "COLLSCAN", "filter": {"c": {"$eq": 1}}, "direction": "forward"}),
        (ExplainedCommand({"_id": 1}), {"stage": "IDHACK"}),
        (ExplainedCommand({"_id": {"$in": []}}), {"stage": "EOF"}),
        (ExplainedCommand({"a": 1}), FETCH),
        (ExplainedCommand({"a": 1}, "count"), {"stage": "COUNT", "inputStage": FETCH}),
        (ExplainedCommand({"a": 1}, "delete"), {"stage": "DELETE", "inputStage": FETCH}),
        (ExplainedCommand({"a": 1}, sort={"b": -1}), FETCH),
        (
            ExplainedCommand({"a": 1}, sort={"c": 1}, limit=5, skip=2),
            {
                "stage": "LIMIT",
                "limitAmount": Int64(5),
                "inputStage": {
                    "stage": "SKIP",
                    "skipAmount": Int64(2),
                    "inputStage": {
                        "stage": "SORT",
                        "sortPattern": {"c": 1},
                        "memLimit": 104857600,
                        "limitAmount": Int64(7),
                        "type": "simple",
                        "inputStage": FETCH,
                    },
                },
            },
        ),
        (
            ExplainedCommand({"a": 1}, projection={"a": 1}),
            {"stage": "PROJECTION_SIMPLE", "transformBy": {"a": 1}, "inputStage": FETCH},
        ),
        (
            ExplainedCommand({"a": 1}, projection={"a.b": 1}),
            {"stage": "PROJECTION_DEFAULT", "transformBy": {"a.b": 1}, "inputStage": FETCH},
        ),
    ],
)
def test_the_stages_of_a_plan(asked: ExplainedCommand, expected: Document) -> None:
    assert build_stages(plan(asked.query, asked.sort, None, [A], Env(0), ()), asked) == expected


def test_execution_stats_have_the_counts_of_the_run() -> None:
    asked = ExplainedCommand({"a": 1})
    found = execution_stats(plan(asked.query, None, None, [A], Env(0), ()), asked, RunCounts(2, 4, 3, 1, 7))
    assert [found[name] for name in ("nReturned", "totalKeysExamined", "totalDocsExamined", "hiddenByTtl")] == [
        2,
        4,
        3,
        1,
    ]
    fetch = found["executionStages"]
    assert (fetch["stage"], fetch["nReturned"], fetch["docsExamined"]) == ("FETCH", 2, 3)
    assert (fetch["inputStage"]["nReturned"], fetch["inputStage"]["keysExamined"]) == (3, 4)


def test_the_fields_of_the_reply_come_in_the_servers_order() -> None:
    asked = ExplainedCommand({})
    found = explanation(
        plan({}, None, None, [], Env(0)), asked, "db.c", {"find": "c"}, {"host": "h"}, RunCounts(0, 0, 0)
    )
    assert list(found) == ["explainVersion", "queryPlanner", "executionStats", "command", "serverInfo", "ok"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, {}),
        ({"a": 1}, {"a": {"$eq": 1}}),
        ({"a": {"$gt": 1, "$lt": 5}}, {"$and": [{"a": {"$gt": 1}}, {"a": {"$lt": 5}}]}),
        ({"a": {"$regex": "x", "$options": "i"}}, {"a": {"$regex": "x", "$options": "i"}}),
        (
            {"$or": [{"a": 1}, {"b": 2, "c": 3}]},
            {"$or": [{"a": {"$eq": 1}}, {"$and": [{"b": {"$eq": 2}}, {"c": {"$eq": 3}}]}]},
        ),
    ],
)
def test_a_query_as_parsed_query_prints_it(query: Document, expected: Document) -> None:
    assert format_query(query) == expected
