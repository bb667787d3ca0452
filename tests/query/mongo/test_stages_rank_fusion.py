"""`$rankFusion`: ranks, weights, scores, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from bson import Decimal128, Int64

from query.mongo.pipelines import run, run_or_code

DOCUMENTS: list[dict[str, Any]] = [
    {"_id": 1, "a": 30, "b": 10},
    {"_id": 2, "a": 20, "b": 30},
    {"_id": 3, "a": 10, "b": 20},
    {"_id": 4},
]
SCORE = {"$project": {"s": {"$meta": "score"}}}
BY_A, BY_B = {"$sort": {"a": -1}}, {"$sort": {"b": -1}}


def fuse(weights: Any = None, details: Any = None, **pipelines: Any) -> dict[str, Any]:
    spec: dict[str, Any] = {"input": {"pipelines": pipelines}}
    if weights is not None:
        spec["combination"] = {"weights": weights}
    return {"$rankFusion": {**spec, "scoreDetails": details} if details is not None else spec}


def part(*ranks: int) -> float:
    return sum(1 / (60 + rank) for rank in ranks)


FUSED: list[tuple[dict[str, Any], list[tuple[int, float]]]] = [
    (fuse(p=[BY_A]), [(1, part(1)), (2, part(2)), (3, part(3)), (4, part(4))]),
    (fuse(p=[BY_A], q=[BY_B]), [(2, part(2, 1)), (1, part(1, 3)), (3, part(3, 2)), (4, part(4, 4))]),
    # What one pipeline leaves out has no share of it.
    (fuse(p=[BY_A, {"$limit": 1}], q=[BY_B, {"$limit": 2}]), [(1, part(1)), (2, part(1)), (3, part(2))]),
    (fuse(p=[BY_A, {"$skip": 1}, {"$limit": 1}]), [(2, part(1))]),
    (fuse(p=[{"$match": {"a": {"$lt": 25}}}, BY_A]), [(2, part(1)), (3, part(2))]),
    # The last sort ranks; equal keys share a rank, null and a missing value among them.
    (fuse(p=[BY_A, BY_B, {"$limit": 2}]), [(2, part(1)), (3, part(2))]),
    (fuse(p=[{"$sort": {"none": 1}}]), [(n, part(1)) for n in (1, 2, 3, 4)]),
    (fuse({"q": 0}, p=[BY_A, {"$limit": 1}], q=[BY_B, {"$limit": 1}]), [(1, part(1)), (2, 0.0)]),
    (fuse({"p": Decimal128("2"), "q": Int64(1)}, p=[BY_A, {"$limit": 1}], q=[BY_B, {"$limit": 1}]),
     [(1, 2 * part(1)), (2, part(1))]),
]  # fmt: skip


@pytest.mark.parametrize(("stage", "expected"), FUSED)
def test_ranks_are_fused(stage: dict[str, Any], expected: list[tuple[int, float]]) -> None:
    found = [(each["_id"], each["s"]) for each in run({"c": DOCUMENTS}, [stage, SCORE])]
    assert found == [(id, pytest.approx(score)) for id, score in expected]


def test_documents_are_put_out_as_they_are() -> None:
    assert run({"c": DOCUMENTS}, [fuse(p=[BY_A, {"$limit": 2}])]) == DOCUMENTS[:2]
    assert run({"c": []}, [fuse(p=[BY_A])]) == []


def test_scores_outlast_stages_that_change_no_document() -> None:
    stages = [fuse(p=[BY_A]), {"$match": {"_id": {"$gt": 1}}}, {"$sort": {"_id": -1}}, {"$limit": 1}, SCORE]
    assert run({"c": DOCUMENTS}, stages) == [{"_id": 4, "s": pytest.approx(part(4))}]


def test_details_tell_of_each_pipeline() -> None:
    stages = [fuse(details=True, p=[BY_A, {"$limit": 1}], q=[BY_B]), {"$limit": 1}]
    (found,) = run({"c": DOCUMENTS}, [*stages, {"$project": {"d": {"$meta": "scoreDetails"}}}])
    details: Any = found["d"]
    assert details["value"] == pytest.approx(part(1, 3))
    assert details["details"] == [
        {"inputPipelineName": "p", "rank": 1, "weight": 1.0, "details": []},
        {"inputPipelineName": "q", "rank": 3, "weight": 1.0, "details": []},
    ]
    (last,) = run({"c": DOCUMENTS}, [stages[0], {"$skip": 3}, {"$project": {"d": {"$meta": "scoreDetails"}}}])
    assert last["d"]["details"][0] == {"inputPipelineName": "p", "rank": "NA"}


def spec(**more: Any) -> dict[str, Any]:
    return {"$rankFusion": {"input": {"pipelines": {"p": [BY_A]}}, **more}}


REFUSED: list[tuple[list[Any], int]] = [
    ([{"$rankFusion": 1}], 9),
    ([{"$rankFusion": {}}], 40414),
    ([{"$rankFusion": {"input": None}}], 40414),
    ([{"$rankFusion": {"input": 1}}], 14),
    ([{"$rankFusion": {"input": {}}}], 40414),
    ([{"$rankFusion": {"input": {"pipelines": []}}}], 14),
    ([{"$rankFusion": {"input": {"pipelines": {}}}}], 2),
    ([{"$rankFusion": {"input": {"pipelines": {"p": [BY_A]}, "more": 1}}}], 40415),
    ([spec(more=1)], 40415),
    ([spec(scoreDetails=1)], 14),
    ([spec(combination=1)], 14),
    ([spec(combination={})], 40414),
    ([spec(combination={"weights": 1})], 14),
    ([spec(combination={"weights": {"p": "1"}})], 13118),
    ([spec(combination={"weights": {"p": -1}})], 9460300),
    ([spec(combination={"weights": {"q": 1}})], 9967500),
    ([spec(combination={"weights": {"p": 1, "q": 1}})], 9460301),
    ([fuse(p=1)], 14),
    ([fuse(p=[])], 9834300),
    ([fuse(p=[1])], 14),
    ([fuse(**{"": [BY_A]})], 15998),
    ([fuse(**{"$p": [BY_A]})], 16410),
    ([fuse(**{"a.b": [BY_A]})], 16412),
    ([fuse(p=[{"$match": {}}])], 9191100),
    ([fuse(p=[{"$limit": 1}])], 9191100),
    ([fuse(p=[BY_A, {"$project": {"a": 1}}])], 9191103),
    ([fuse(p=[BY_A, {"$out": "o"}])], 9191103),
    ([fuse(p=[BY_A, {"$nope": 1}])], 40324),
    ([fuse(p=[{}])], 40323),
    ([fuse(p=[spec()])], 10473002),
    ([fuse(p=[BY_A, spec()])], 10170100),
    ([fuse(p=[{"$sort": {}}])], 15976),
    ([{"$match": {}}, spec()], 10170100),
    ([spec(), {"$project": {"d": {"$meta": "scoreDetails"}}}], 40218),
    ([{"$project": {"d": {"$meta": "score"}}}], 40218),
]


@pytest.mark.parametrize(("stages", "code"), REFUSED)
def test_a_fusion_is_refused(stages: list[Any], code: int) -> None:
    assert run_or_code({"c": DOCUMENTS}, stages) == code


def test_metadata_of_searches_is_missing() -> None:
    stages = [fuse(p=[BY_A, {"$limit": 1}]), {"$project": {"m": {"$meta": "searchScore"}}}]
    assert run({"c": DOCUMENTS}, stages) == [{"_id": 1}]
