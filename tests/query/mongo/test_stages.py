"""Stages that work on one collection: input, pipeline, output or the code of the refusal."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import count
from types import coroutine
from typing import Any

import pytest
from bson import Decimal128, Int64

from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.filter import compile_filter
from mayflydb.query.mongo.sort import compile_sort
from mayflydb.query.mongo.stages import Head, compile_pipeline
from mayflydb.query.mongo.stages.base import BATCH_SIZE, FlatMapStage
from mayflydb.query.mongo.text import TextIndex
from mayflydb.query.mongo.values import Document
from query.mongo.pipelines import (
    NOW,
    Memory,
    collect,
    compile_in_memory,
    iterate_batches,
    run,
    run_coroutine,
    run_or_code,
)

ITEMS: list[Document] = [
    {"_id": 1, "k": "a", "n": 5, "tags": ["x", "y"], "at": {"p": 1, "q": [1, 2]}},
    {"_id": 2, "k": "b", "n": 7, "tags": [], "at": {"p": 2}},
    {"_id": 3, "k": "a", "n": 1, "tags": "z"},
    {"_id": 4, "k": None, "n": 3.0, "tags": None},
    {"_id": 5, "n": 9, "at": [{"p": 5}, {"p": 6}, 7]},
]


def ids(*numbers: int) -> list[Document]:
    """The documents with these ids, as they are."""
    return [ITEMS[number - 1] for number in numbers]


PLAIN: list[tuple[Any, Any]] = [
    ([], ITEMS),
    # $match
    ([{"$match": {}}], ITEMS),
    ([{"$match": {"k": "a"}}], ids(1, 3)),
    ([{"$match": {"n": {"$gt": 3}}}, {"$match": {"k": "b"}}], ids(2)),
    ([{"$match": {"$expr": {"$eq": ["$n", 3]}}}], ids(4)),
    ([{"$match": 5}], 15959),
    ([{"$match": {"$nope": 1}}], 2),
    # $skip, $limit
    ([{"$skip": 0}], ITEMS),
    ([{"$skip": 2}], ids(3, 4, 5)),
    ([{"$skip": 4.0}], ids(5)),
    ([{"$skip": 9}], []),
    ([{"$limit": 1}], ids(1)),
    ([{"$limit": Int64(4)}], ids(1, 2, 3, 4)),
    ([{"$limit": 100}], ITEMS),
    ([{"$limit": 4}, {"$skip": 1}, {"$limit": 2}], ids(2, 3)),
    ([{"$skip": 1}, {"$limit": 3}, {"$skip": 1}], ids(3, 4)),
    ([{"$limit": 2}, {"$skip": 2}], []),
    ([{"$limit": 0}], 15958),
    ([{"$limit": -1}], 5107201),
    ([{"$limit": "1"}], 5107201),
    ([{"$limit": 1.5}], 5107201),
    ([{"$limit": 1e30}], 5107201),
    ([{"$skip": -1}], 5107200),
    ([{"$skip": None}], 5107200),
    ([{"$skip": Decimal128("1.5")}], 5107200),
    # $sort
    ([{"$sort": {"n": 1}}], ids(3, 4, 1, 2, 5)),
    ([{"$sort": {"n": -1}}, {"$limit": 2}], ids(5, 2)),
    ([{"$sort": {"n": 1}}, {"$skip": 1}, {"$limit": 2}], ids(4, 1)),
    ([{"$sort": {"n": 1}}, {"$limit": 3}, {"$skip": 2}], ids(1)),
    ([{"$sort": {"k": 1, "n": -1}}], ids(5, 4, 1, 3, 2)),
    ([{"$sort": {"k": 1}}], ids(4, 5, 1, 3, 2)),
    ([{"$sort": {"n": 1}}, {"$sort": {"_id": -1}}], ids(5, 4, 3, 2, 1)),
    ([{"$sort": {"n": 1}}, {"$match": {"k": "a"}}, {"$limit": 1}], ids(3)),
    ([{"$sort": 1}], 15973),
    ([{"$sort": {}}], 15976),
    ([{"$sort": {"a": "x"}}], 15974),
    ([{"$sort": {"a": 2}}], 15975),
    # $count
    ([{"$count": "total"}], [{"total": 5}]),
    ([{"$match": {"k": "q"}}, {"$count": "total"}], []),
    ([{"$count": 1}], 40156),
    ([{"$count": ""}], 40157),
    ([{"$count": "$n"}], 40158),
    ([{"$count": "a\0"}], 40159),
    ([{"$count": "a.b"}], 40160),
    # $project, $unset
    ([{"$limit": 1}, {"$project": {"k": 1}}], [{"_id": 1, "k": "a"}]),
    ([{"$limit": 1}, {"$project": {"_id": 0, "n": 1}}], [{"n": 5}]),
    ([{"$limit": 1}, {"$project": {"_id": 0, "m": {"$add": ["$n", 1]}}}], [{"m": 6}]),
    ([{"$limit": 1}, {"$project": {"_id": 0, "first": {"$slice": ["$tags", 1]}}}], [{"first": ["x"]}]),
    ([{"$limit": 1}, {"$project": {"_id": 0, "at.p": 1}}], [{"at": {"p": 1}}]),
    ([{"$limit": 1}, {"$project": {"tags": 0, "at": 0}}], [{"_id": 1, "k": "a", "n": 5}]),
    ([{"$project": 1}], 15969),
    ([{"$project": {}}], 51272),
    ([{"$project": {"a": 1, "b": 0}}], 31254),
    ([{"$project": {"a": {"$elemMatch": {"x": 1}}}}], 168),
    ([{"$project": {"a.$": 1}}], 31324),
    ([{"$limit": 1}, {"$unset": "at"}], [{"_id": 1, "k": "a", "n": 5, "tags": ["x", "y"]}]),
    ([{"$limit": 1}, {"$unset": ["at.q", "tags", "k"]}], [{"_id": 1, "n": 5, "at": {"p": 1}}]),
    ([{"$unset": 1}], 31002),
    ([{"$unset": []}], 31119),
    ([{"$unset": ["a", 1]}], 31120),
    ([{"$unset": "$a"}], 16410),
    ([{"$unset": ["a", "a.b"]}], 31249),
    # $addFields, $set
    ([{"$limit": 1}, {"$project": {"n": 1}}, {"$set": {"m": {"$multiply": ["$n", 2]}}}], [{"_id": 1, "n": 5, "m": 10}]),
    ([{"$match": {"_id": 2}}, {"$unset": "tags"}, {"$set": {"at.r": "$n"}}],
     [{"_id": 2, "k": "b", "n": 7, "at": {"p": 2, "r": 7}}]),
    ([{"$match": {"_id": 2}}, {"$project": {"n": 1}}, {"$set": {"a": {"b": {"c": "$n"}}}}],
     [{"_id": 2, "n": 7, "a": {"b": {"c": 7}}}]),
    ([{"$match": {"_id": 5}}, {"$addFields": {"at.q": "$n"}}],
     [{"_id": 5, "n": 9, "at": [{"p": 5, "q": 9}, {"p": 6, "q": 9}, {"q": 9}]}]),
    ([{"$match": {"_id": 3}}, {"$set": {"k": "$nope", "n": "$$REMOVE", "tags": 1}}], [{"_id": 3, "tags": 1}]),
    ([{"$match": {"_id": 3}}, {"$project": {"n": 1}}, {"$set": {"n": 2, "m": "$n"}}], [{"_id": 3, "n": 2, "m": 1}]),
    ([{"$match": {"_id": 3}}, {"$project": {"n": 1}}, {"$set": {"n.a": 2}}], [{"_id": 3, "n": {"a": 2}}]),
    ([{"$match": {"_id": 3}}, {"$project": {"_id": 1}}, {"$set": {"l": {"$literal": "$n"}, "m": ["$_id", 2]}}],
     [{"_id": 3, "l": "$n", "m": [3, 2]}]),
    ([{"$addFields": 1}], 40272),
    ([{"$set": {}}], ITEMS),
    ([{"$addFields": {}}, {"$skip": 3}], ids(4, 5)),
    ([{"$match": {"_id": 2}}, {"$project": {"at": 1}}, {"$set": {"at": {}, "b": {}}}], [{"_id": 2, "at": {}, "b": {}}]),
    ([{"$match": {"_id": 5}}, {"$project": {"at": 1}}, {"$addFields": {"at": {}}}], [{"_id": 5, "at": {}}]),
    ([{"$match": {"_id": 2}}, {"$project": {"at": 1}}, {"$set": {"at": {"q": {}}}}], [{"_id": 2, "at": {"p": 2, "q": {}}}]),
    ([{"$match": {"_id": 2}}, {"$project": {"at": 1}}, {"$set": {"at": {}, "at.q": 1}}], 40176),
    ([{"$set": {"a": 1, "a.b": 2}}], 40176),
    ([{"$set": {"a.b": 1, "a": 2}}], 40176),
    ([{"$set": {"a": {"b": 1}, "a.b": 2}}], 40176),
    ([{"$set": {"a": {"$add": [1, 2], "b": 1}}}], 40181),
    ([{"$set": {"a": {"b.c": 1}}}], 40183),
    ([{"$set": {"": 1}}], 40352),
    ([{"$set": {"a.": 1}}], 40353),
    ([{"$set": {"a..b": 1}}], 15998),
    ([{"$set": {"$a": 1}}], 16410),
    ([{"$set": {"a": {"$nope": 1}}}], 168),
    # $replaceRoot, $replaceWith
    ([{"$match": {"_id": 2}}, {"$replaceRoot": {"newRoot": "$at"}}], [{"p": 2}]),
    ([{"$match": {"_id": 2}}, {"$replaceWith": {"a": "$n", "b": {"c": "$k"}}}], [{"a": 7, "b": {"c": "b"}}]),
    ([{"$match": {"_id": 2}}, {"$replaceWith": {"$mergeObjects": [{"z": 1}, "$at"]}}], [{"z": 1, "p": 2}]),
    ([{"$replaceRoot": 1}], 40229),
    ([{"$replaceRoot": {"newRoot": "$a", "b": 1}}], 40230),
    ([{"$replaceRoot": {}}], 40231),
    ([{"$replaceRoot": {"newRoot": "$n"}}], 40228),
    ([{"$replaceWith": "$nope"}], 40228),
    # $sample
    ([{"$sample": {"size": 10}}, {"$sort": {"_id": 1}}], ITEMS),
    ([{"$sample": {"size": float("inf")}}, {"$count": "n"}], [{"n": len(ITEMS)}]),
    ([{"$sample": {"size": 2}}, {"$count": "n"}], [{"n": 2}]),
    ([{"$sample": 1}], 28745),
    ([{"$sample": {"size": "1"}}], 28746),
    ([{"$sample": {"size": -1}}], 28747),
    ([{"$sample": {"size": 0}}], 28747),
    ([{"$sample": {"sz": 1}}], 28748),
    ([{"$sample": {}}], 28749),
    # form and place
    ("x", 14),
    ([1], 14),
    ([{}], 40323),
    ([{"$skip": 1, "$limit": 1}], 40323),
    ([{"$nope": 1}], 40324),
    ([{"nope": 1}], 40324),
    ([{"$geoNear": {}}], 238),
    ([{"$vectorSearch": {}}], 31082),
    ([{"$out": "o"}, {"$limit": 1}], 40601),
    ([{"$merge": "o"}, {"$limit": 1}], 40601),
    ([{"$limit": 1}, {"$documents": []}], 40602),
    ([{"$limit": 1}, {"$collStats": {}}], 40602),
]  # fmt: skip


@pytest.mark.parametrize(("pipeline", "expected"), PLAIN)
def test_the_result_of_a_pipeline(pipeline: Any, expected: Any) -> None:
    assert run_or_code({"c": ITEMS}, pipeline) == expected


UNWOUND: list[tuple[Any, Any]] = [
    ("$tags", [(1, "x"), (1, "y"), (3, "z")]),
    ({"path": "$tags"}, [(1, "x"), (1, "y"), (3, "z")]),
    ({"path": "$tags", "preserveNullAndEmptyArrays": True},
     [(1, "x"), (1, "y"), (2, "-"), (3, "z"), (4, None), (5, "-")]),
    ("$at.q", []),
    ("$nope", []),
    (1, 15981),
    ({"path": 1}, 28808),
    ({"path": "$tags", "preserveNullAndEmptyArrays": 1}, 28809),
    ({"path": "$tags", "includeArrayIndex": 1}, 28810),
    ({"path": "$tags", "includeArrayIndex": ""}, 28810),
    ({"path": "$tags", "more": 1}, 28811),
    ({}, 28812),
    ("tags", 28818),
    ("", 28812),
    ({"path": "$tags", "includeArrayIndex": "$i"}, 28822),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "expected"), UNWOUND)
def test_unwind(spec: Any, expected: Any) -> None:
    found = run_or_code({"c": ITEMS}, [{"$unwind": spec}])
    if isinstance(found, list):
        path = spec if isinstance(spec, str) else spec["path"]
        found = [(each["_id"], each.get("tags", "-")) for each in found] if path == "$tags" else [  # type: ignore[misc]
            each for each in found if path != "$at.q"
        ]  # fmt: skip
    assert found == expected


INDEXED: list[tuple[Document, bool, list[Document]]] = [
    ({"a": [7, 8]}, False, [{"a": 7, "i": Int64(0)}, {"a": 8, "i": Int64(1)}]),
    ({"a": 7}, False, [{"a": 7, "i": None}]),
    ({"a": []}, True, [{"i": None}]),
    ({"b": 1}, True, [{"b": 1, "i": None}]),
    ({"a": None}, True, [{"a": None, "i": None}]),
    ({"a": None}, False, []),
    ({"a": [None, [1]]}, False, [{"a": None, "i": Int64(0)}, {"a": [1], "i": Int64(1)}]),
]


@pytest.mark.parametrize(("document", "preserve", "expected"), INDEXED)
def test_unwind_with_the_index(document: Document, preserve: bool, expected: list[Document]) -> None:
    spec = {"path": "$a", "includeArrayIndex": "i", "preserveNullAndEmptyArrays": preserve}
    found = run({"c": [document]}, [{"$unwind": spec}])
    assert found == expected
    assert [type(each["i"]) for each in found] == [type(each["i"]) for each in expected]


def test_unwind_of_a_nested_path_leaves_the_document_alone() -> None:
    assert run({"c": [{"a": {"b": [1, 2], "c": 3}}]}, [{"$unwind": "$a.b"}]) == [
        {"a": {"b": 1, "c": 3}},
        {"a": {"b": 2, "c": 3}},
    ]


REDACTED: list[tuple[Any, Any]] = [
    ("$$KEEP", [{"l": 1, "a": {"l": 3, "b": 1}, "c": [{"l": 2}, {"l": 5}, 9, [{"l": 9}]]}]),
    ("$$PRUNE", []),
    ("$$DESCEND", [{"l": 1, "a": {"l": 3, "b": 1}, "c": [{"l": 2}, {"l": 5}, 9, [{"l": 9}]]}]),
    ({"$cond": [{"$lte": ["$l", 3]}, "$$DESCEND", "$$PRUNE"]}, [{"l": 1, "a": {"l": 3, "b": 1}, "c": [{"l": 2}, 9, []]}]),
    ({"$cond": [{"$gt": ["$l", 2]}, "$$PRUNE", "$$DESCEND"]}, [{"l": 1, "c": [{"l": 2}, 9, []]}]),
    ({"$cond": [{"$eq": ["$$ROOT.l", 1]}, "$$KEEP", "$$PRUNE"]},
     [{"l": 1, "a": {"l": 3, "b": 1}, "c": [{"l": 2}, {"l": 5}, 9, [{"l": 9}]]}]),
    ("other", 17053),
    ("$l", 17053),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "expected"), REDACTED)
def test_redact(spec: Any, expected: Any) -> None:
    document = {"l": 1, "a": {"l": 3, "b": 1}, "c": [{"l": 2}, {"l": 5}, 9, [{"l": 9}]]}
    assert run_or_code({"c": [document]}, [{"$redact": spec}]) == expected


TEXTS: list[Document] = [
    {"_id": 1, "t": "tea and coffee"},
    {"_id": 2, "t": "coffee, coffee, coffee"},
    {"_id": 3, "t": "water"},
]
FOUND = {"$match": {"$text": {"$search": "coffee"}}}
BY_SCORE = {"$sort": {"score": {"$meta": "textScore"}}}

SEARCHED: list[tuple[list[Document], Any]] = [
    ([FOUND], [1, 2]),
    ([FOUND, BY_SCORE], [2, 1]),
    ([FOUND, {"$match": {"_id": {"$gt": 0}}}, BY_SCORE, {"$limit": 1}], [2]),
    ([FOUND, {"$project": {"s": {"$meta": "textScore"}}}, {"$sort": {"s": -1}}], [2, 1]),
    ([FOUND, {"$set": {"s": {"$meta": "textScore"}}}, {"$sort": {"s": -1}}], [2, 1]),
    ([FOUND, {"$set": {"s": {"$multiply": [{"$meta": "textScore"}, -1]}}}, {"$sort": {"s": -1}}], [1, 2]),
    ([FOUND, {"$group": {"_id": {"$gt": [{"$meta": "textScore"}, 0]}}}], [True]),
    ([FOUND, {"$set": {"t": "x"}}, {"$set": {"s": {"$meta": "textScore"}}}], 40218),
    ([FOUND, {"$set": {"s": {"$meta": 5}}}], 17307),
    ([FOUND, {"$set": {"s": {"$meta": "x"}}}], 17308),
    ([FOUND, {"$set": {"t": "x"}}, BY_SCORE], 40218),
    ([{"$match": {}}, BY_SCORE], 40218),
    ([BY_SCORE], 40218),
    ([{"$match": {}}, FOUND], 17313),
    ([{"$match": {}}, {"$match": {"$and": [{"a": 1}, FOUND["$match"]]}}], 17313),
]


@pytest.mark.parametrize(("pipeline", "expected"), SEARCHED)
def test_text_is_searched_and_scored_while_documents_are_as_they_were(pipeline: list[Document], expected: Any) -> None:
    found: Any
    try:
        pipe = compile_pipeline(pipeline, Env(NOW), Memory({}), text=TextIndex({"t": 1.0}))
        found = [each["_id"] for each in run_coroutine(collect(pipe.run_over(iterate_batches(TEXTS, 2))))]
    except MqlError as error:
        found = error.code
    assert found == expected


# --- head, counting, memory ------------------------------------------------------------------------------------------

HEADS: list[tuple[list[Document], Head, int]] = [
    ([], Head(), 5),
    ([{"$match": {"a": 1}}], Head({"a": 1}), 5),
    ([{"$match": {}}, {"$match": {"a": 1}}, {"$match": {"b": 2}}], Head({"$and": [{"a": 1}, {"b": 2}]}), 5),
    ([{"$match": {"a": 1}}, {"$sort": {"b": -1}}, {"$skip": 3}, {"$limit": 4}], Head({"a": 1}, {"b": -1}, 3, 4), 5),
    ([{"$sort": {"b": 1}}, {"$match": {"a": 1}}, {"$limit": 4}], Head({"a": 1}, {"b": 1}, 0, 4), 5),
    ([{"$limit": 4}, {"$skip": 3}, {"$limit": 9}], Head({}, None, 3, 1), 5),
    ([{"$limit": 4}, {"$skip": 5}], Head({}, None, 5, 0), 5),
    ([{"$limit": 4}, {"$match": {"n": 7}}], Head({}, None, 0, 4), 1),
    ([{"$set": {"x": 1}}, {"$match": {"n": 7}}], Head(), 1),
    ([{"$sort": {"n": 1}}, {"$sort": {"_id": 1}}, {"$limit": 2}], Head({}, {"n": 1}), 2),
]


@pytest.mark.parametrize(("pipeline", "head", "left"), HEADS)
def test_the_head_is_read_and_run_does_the_rest(pipeline: list[Document], head: Head, left: int) -> None:
    pipe = compile_in_memory(Memory({}), pipeline)
    assert pipe.head == head
    assert len(run_coroutine(collect(pipe.run(iterate_batches(ITEMS, 2))))) == left


def test_head_and_run_do_what_the_whole_pipeline_does(chance: random.Random) -> None:
    documents = [{"_id": number, "a": chance.randrange(5), "b": chance.randrange(5)} for number in range(40)]
    makers: list[Callable[[], Document]] = [
        lambda: {"$match": {chance.choice("ab"): {"$gte": chance.randrange(4)}}},
        lambda: {"$sort": {chance.choice("ab"): chance.choice([1, -1])}},
        lambda: {"$skip": chance.randrange(12)},
        lambda: {"$limit": chance.randrange(1, 30)},
        lambda: {"$set": {"a": {"$add": ["$a", "$b"]}}},
    ]
    for _ in range(200):
        pipeline = [chance.choice(makers)() for _ in range(chance.randrange(7))]
        pipe = compile_in_memory(Memory({}), pipeline)
        whole = run_coroutine(collect(pipe.run_over(iterate_batches(documents, chance.randrange(1, 20)))))
        head = pipe.head
        read = [each for each in documents if compile_filter(head.query, Env(NOW)).matches(each)]
        if head.sort is not None:
            read = compile_sort(head.sort, Env(NOW)).order(read)
        read = read[head.skip : None if head.limit is None else head.skip + head.limit]
        assert run_coroutine(collect(compile_in_memory(Memory({}), pipeline).run(iterate_batches(read, 7)))) == whole, (
            pipeline
        )


COUNTED: list[tuple[list[Document], Any]] = [
    ([{"$match": {"a": 1}}, {"$group": {"_id": 1, "n": {"$sum": 1}}}], (1, "n")),
    ([{"$group": {"_id": None, "count": {"$sum": 1.0}}}], (None, "count")),
    ([{"$match": {}}, {"$skip": 1}, {"$limit": 5}, {"$group": {"_id": 1, "n": {"$sum": 1}}}], (1, "n")),
    ([{"$group": {"_id": "$a", "n": {"$sum": 1}}}], None),
    ([{"$group": {"_id": 1, "n": {"$sum": 2}}}], None),
    ([{"$group": {"_id": 1, "n": {"$sum": True}}}], None),
    ([{"$group": {"_id": 1, "n": {"$sum": 1}, "m": {"$sum": 1}}}], None),
    ([{"$group": {"_id": 1}}], None),
    ([{"$group": {"_id": 1, "n": {"$sum": 1}}}, {"$match": {"n": 5}}], None),
    ([], None),
]


@pytest.mark.parametrize(("pipeline", "expected"), COUNTED)
def test_pipelines_that_only_count_are_recognized(pipeline: list[Document], expected: Any) -> None:
    assert compile_in_memory(Memory({}), pipeline).count_only == expected


FILLING: list[Document] = [
    {"$sort": {"n": 1}},
    {"$group": {"_id": "$n", "all": {"$push": "$text"}}},
    {"$group": {"_id": None, "all": {"$push": "$$ROOT"}}},
    {"$facet": {"a": []}},
    {"$sample": {"size": 1000}},
    {"$bucketAuto": {"groupBy": "$n", "buckets": 2}},
    {"$setWindowFields": {"output": {"s": {"$sum": 1}}}},
]


@pytest.mark.parametrize("stage", FILLING, ids=lambda stage: next(iter(stage)))
def test_a_stage_over_its_memory_limit_is_refused(stage: Document) -> None:
    documents = [{"n": number, "text": "x" * 1000} for number in range(300)]
    for limit, fits in ((1_000_000, True), (100_000, False)):
        pipe = compile_in_memory(Memory({}), [stage], limit)
        if fits:
            run_coroutine(collect(pipe.run_over(iterate_batches(documents, 10))))
        else:
            with pytest.raises(MqlError) as refusal:
                run_coroutine(collect(pipe.run_over(iterate_batches(documents, 10))))
            assert refusal.value.code == 292


def test_small_groups_of_many_documents_are_within_the_limit() -> None:
    documents = [{"n": number % 3, "text": "x" * 1000} for number in range(300)]
    pipe = compile_in_memory(Memory({}), [{"$group": {"_id": "$n", "count": {"$sum": 1}}}], 10_000)
    assert run_coroutine(collect(pipe.run_over(iterate_batches(documents, 10)))) == [
        {"_id": n, "count": 100} for n in range(3)
    ]


def test_a_limited_sort_keeps_few_documents() -> None:
    documents = [{"n": number * 7919 % 4001, "text": "x" * 100} for number in range(4000)]
    pipe = compile_in_memory(Memory({}), [{"$sort": {"n": 1}}, {"$limit": 3}], 10_000)
    assert [each["n"] for each in run_coroutine(collect(pipe.run_over(iterate_batches(documents, 100))))] == [0, 1, 2]


def test_a_limit_reads_no_further_than_it_must_and_closes_what_it_read() -> None:
    seen: list[int] = []

    async def endless() -> Any:
        try:
            for number in range(100):
                seen.append(number)
                yield [{"n": number}]
        finally:
            seen.append(-1)

    pipe = compile_in_memory(Memory({}), [{"$set": {"a": 1}}, {"$limit": 2}])
    assert run_coroutine(collect(pipe.run_over(endless()))) == [{"n": 0, "a": 1}, {"n": 1, "a": 1}]
    assert seen == [0, 1, -1]


def test_long_results_come_in_batches() -> None:
    sizes = []

    async def measure() -> None:
        source = Memory({})
        pipe = compile_in_memory(source, [{"$unwind": "$a"}])
        sizes.extend([len(batch) async for batch in pipe.run_over(iterate_batches([{"a": list(range(2500))}], 1))])

    run_coroutine(measure())
    assert sizes == [1000, 1000, 500]


def test_variables_of_the_command_reach_every_stage() -> None:
    pipeline = [
        {"$match": {"$expr": {"$gt": ["$n", "$$least"]}}},
        {"$group": {"_id": "$$least", "n": {"$sum": "$n"}}},
        {"$set": {"now": {"$toLong": "$$NOW"}}},
    ]
    assert run({"c": ITEMS}, pipeline, least=5) == [{"_id": 5, "n": 16, "now": Int64(NOW)}]


def test_samples_are_uniform() -> None:
    drawn = [0] * 6
    source = Memory({})
    documents = [{"_id": number} for number in range(6)]
    pipes = compile_in_memory(source, [{"$facet": {str(n): [{"$sample": {"size": 2}}] for n in range(600)}}])
    (facets,) = run_coroutine(collect(pipes.run_over(iterate_batches(documents, 6))))
    for sample in facets.values():
        for each in sample:
            drawn[each["_id"]] += 1
    assert sum(drawn) == 1200
    assert all(140 < count < 260 for count in drawn)


LONG: dict[str, Document] = {
    "$addFields": {"$addFields": {"n": {"$add": ["$n", 1]}}},
    "$match": {"$match": {"n": 1}},
    "$unionWith": {"$unionWith": "d"},
    "$skip": {"$skip": 0},
    "$group": {"$group": {"_id": "$_id", "n": {"$max": "$n"}}},
    "$lookup": {"$lookup": {"from": "d", "pipeline": [], "as": "n"}},
}


@pytest.mark.parametrize("name", LONG)
def test_a_pipeline_may_have_a_thousand_stages(name: str) -> None:
    found = run({"c": [{"_id": 1, "n": 1}], "d": [{"_id": 2}]}, [LONG[name]] * 1000)
    assert len(found) == (1001 if name == "$unionWith" else 1)
    if name == "$addFields":
        assert found == [{"_id": 1, "n": 1001}]


@pytest.mark.parametrize(
    "pipeline",
    [
        [{"$skip": 0}] * 1001,
        [{"$facet": {"a": [{"$skip": 0}] * 1001}}],
        [{"$lookup": {"from": "c", "pipeline": [{"$skip": 0}] * 1001, "as": "a"}}],
        [{"$unionWith": {"coll": "c", "pipeline": [{"$skip": 0}] * 1001}}],
    ],
    ids=["top", "$facet", "$lookup", "$unionWith"],
)
def test_a_pipeline_has_a_limit(pipeline: list[Document]) -> None:
    assert run_or_code({"c": [{}]}, pipeline) == 7749501


@pytest.mark.parametrize(("depth", "expected"), [(20, [{"a": []}]), (21, 232), (90, 232)])
def test_pipelines_nest_to_a_limit(depth: int, expected: Any) -> None:
    pipeline: list[Document] = []
    for _ in range(depth):
        pipeline = [{"$lookup": {"from": "none", "pipeline": pipeline, "as": "a"}}]
    assert run_or_code({"c": [{}]}, pipeline) == expected


@pytest.mark.parametrize("ending", [MqlError(292, "late"), KeyError("x"), GeneratorExit()], ids=repr)
def test_an_error_in_a_stage_ends_the_chain_and_closes_its_input(ending: BaseException) -> None:
    closed: list[int] = []

    async def failing() -> Any:
        try:
            yield [{"n": 0}]
            raise ending
        finally:
            closed.append(1)

    pipe = compile_in_memory(Memory({}), [{"$set": {"a": 1}}, {"$match": {}}, {"$unwind": "$n"}])
    with pytest.raises(type(ending)):
        run_coroutine(collect(pipe.run_over(failing())))
    assert closed == [1]


def test_awaits_of_a_stage_pass_through_the_chain() -> None:
    @coroutine
    def waiting() -> Any:
        answer = yield "outside"
        return answer

    async def source() -> Any:
        yield [{"n": await waiting()}]
        with pytest.raises(KeyError):
            await waiting()
        yield [{"n": 3}]

    inner = compile_in_memory(Memory({}), [{"$set": {"b": 1}}]).run_over(source())
    outer = collect(compile_in_memory(Memory({}), [{"$set": {"a": 1}}, {"$skip": 0}]).run_over(inner))
    assert outer.send(None) == "outside"
    assert outer.send(2) == "outside"
    with pytest.raises(StopIteration) as stop:
        outer.throw(KeyError("answer"))
    assert stop.value.value == [{"n": 2, "b": 1, "a": 1}, {"n": 3, "b": 1, "a": 1}]


def test_a_document_that_gives_without_end_is_passed_on_in_batches() -> None:
    """As `$unwind` of an array of millions: its documents are not made all at once."""
    numbers = count()
    stage = FlatMapStage(lambda document: ({**document, "n": number} for number in numbers))

    async def read() -> list[int]:
        async for batch in stage.run(iterate_batches([{"_id": 1}], 1)):
            return [each["n"] for each in batch]
        return []

    assert run_coroutine(read()) == [*range(BATCH_SIZE)]
    assert next(numbers) <= BATCH_SIZE + 1
