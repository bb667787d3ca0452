"""Stages that read other collections, begin pipelines or write their result."""

from __future__ import annotations

from typing import Any

import pytest
from bson import Int64, Regex

from mayflydb.query.mongo.stages import Merge, Out
from mayflydb.query.mongo.values import Document
from query.mongo.pipelines import Memory, collect, compile_in_memory, iterate_batches, run, run_coroutine, run_or_code

# --- $lookup by equal values -----------------------------------------------------------------------------------------

F: list[Document] = [
    {"_id": 1, "k": "a"},
    {"_id": 2, "k": "b"},
    {"_id": 3, "k": ["a", "c"]},
    {"_id": 4, "k": None},
    {"_id": 5},
    {"_id": 6, "k": 1.0},
    {"_id": 7, "k": [1, 2]},
    {"_id": 8, "k": [[1, 2]]},
    {"_id": 9, "k": Regex("^a", "")},
]

EQUAL: list[tuple[Any, list[int]]] = [
    ({"l": "a"}, [1, 3]),
    ({"l": "c"}, [3]),
    ({"l": "z"}, []),
    ({"l": ["b", "c"]}, [2, 3]),
    ({"l": ["a", "a"]}, [1, 3]),
    ({"l": []}, []),
    ({"l": None}, [4, 5]),
    ({}, [4, 5]),
    ({"l": [None]}, [4, 5]),
    ({"l": 1}, [6, 7]),
    ({"l": Int64(2)}, [7]),
    ({"l": [[1, 2]]}, [7, 8]),
    ({"l": Regex("^a", "")}, [9]),
    ({"l": {"a": 1}}, []),
]


@pytest.mark.parametrize(("document", "expected"), EQUAL)
def test_lookup_by_equal_values(document: Document, expected: list[int]) -> None:
    spec = {"from": "f", "localField": "l", "foreignField": "k", "as": "r"}
    (found,) = run({"c": [document], "f": F}, [{"$lookup": spec}])
    assert [each["_id"] for each in found["r"]] == expected
    assert found == {**document, "r": found["r"]}


NESTED: list[tuple[Document, str, str, list[int]]] = [
    ({"a": {"b": "a"}}, "a.b", "k", [1, 3]),
    ({"a": [{"b": "b"}, {"b": "c"}]}, "a.b", "k", [2, 3]),
    ({"a": [{"b": ["b", 2]}]}, "a.b", "k", [2, 7]),
    ({"a": 5}, "a.b", "k", [4, 5]),
    ({"a": 2}, "a", "_id", [2]),
    ({"a": "a"}, "a", "k.x", []),
]


@pytest.mark.parametrize(("document", "local", "foreign", "expected"), NESTED)
def test_lookup_through_nested_paths(document: Document, local: str, foreign: str, expected: list[int]) -> None:
    spec = {"from": "f", "localField": local, "foreignField": foreign, "as": "r"}
    (found,) = run({"c": [document], "f": F}, [{"$lookup": spec}])
    assert [each["_id"] for each in found["r"]] == expected


def test_lookup_reads_once_for_a_batch() -> None:
    source = Memory({"f": F})
    pipe = compile_in_memory(source, [{"$lookup": {"from": "f", "localField": "l", "foreignField": "k", "as": "r"}}])
    documents: list[Document] = [{"l": "a"}, {"l": "b"}, {"l": ["a", 1]}, {"l": 1.0}]
    run_coroutine(collect(pipe.run_over(iterate_batches(documents, 4))))
    assert source.found == [("f", {"k": {"$in": ["a", "b", 1.0]}})]


def test_lookup_writes_to_the_path_of_as() -> None:
    spec = {"from": "f", "localField": "l", "foreignField": "_id", "as": "x.y"}
    assert run({"c": [{"l": 2, "x": {"z": 1}}], "f": F}, [{"$lookup": spec}]) == [
        {"l": 2, "x": {"z": 1, "y": [{"_id": 2, "k": "b"}]}}
    ]
    assert run({"c": [{"l": 2}]}, [{"$lookup": spec}]) == [{"l": 2, "x": {"y": []}}]


# --- $lookup by pipelines --------------------------------------------------------------------------------------------

ORDERS: list[Document] = [
    {"_id": 1, "item": "a", "n": 2},
    {"_id": 2, "item": "b", "n": 9},
    {"_id": 3, "item": "a", "n": 7},
]
STOCK: list[Document] = [
    {"_id": 1, "item": "a", "left": 5},
    {"_id": 2, "item": "b", "left": 5},
    {"_id": 3, "item": "a", "left": 8},
    {"_id": 4, "left": 1},
]
ENOUGH = {"$expr": {"$and": [{"$eq": ["$item", "$$item"]}, {"$gte": ["$left", "$$n"]}]}}

PIPED: list[tuple[Document, Any]] = [
    ({"from": "s", "let": {"item": "$item", "n": "$n"}, "pipeline": [{"$match": ENOUGH}]}, [[1, 3], [], [3]]),
    ({"from": "s", "pipeline": [{"$match": {"left": {"$gt": 4}}}, {"$limit": 2}]}, [[1, 2]] * 3),
    ({"from": "s", "pipeline": []}, [[1, 2, 3, 4]] * 3),
    ({"from": "none", "pipeline": []}, [[], [], []]),
    ({"from": "s", "localField": "item", "foreignField": "item", "pipeline": [{"$sort": {"left": -1}}]}, [[3, 1], [2], [3, 1]]),
    ({"from": "s", "localField": "item", "foreignField": "item", "let": {"n": "$n"},
      "pipeline": [{"$match": {"$expr": {"$gte": ["$left", "$$n"]}}}]}, [[1, 3], [], [3]]),
    ({"from": "s", "let": {"x": "$nope"}, "pipeline": [{"$match": {"$expr": {"$eq": ["$item", "$$x"]}}}]}, [[4]] * 3),
    ({"from": "s", "let": {"n": "$n"}, "pipeline": [{"$match": {"_id": 1}}, {"$project": {"_id": "$$n"}}]}, [[2], [9], [7]]),
    ({"from": "s", "let": {"n": "$n"}, "pipeline": [
        {"$limit": 1}, {"$lookup": {"from": "s", "let": {"m": "$left"}, "as": "t", "pipeline": [
            {"$match": {"_id": 3}}, {"$project": {"_id": {"$add": ["$$n", "$$m"]}}}]}},
        {"$unwind": "$t"}, {"$replaceWith": "$t"}]}, [[7], [14], [12]]),
    ({"let": {"n": "$n"}, "pipeline": [{"$documents": [{"_id": "$$n"}, {"_id": 0}]}]}, [[2, 0], [9, 0], [7, 0]]),
    ({"from": "s", "pipeline": [{"$group": {"_id": "$item", "n": {"$sum": 1}}}, {"$match": {"n": 2}}]}, [["a"]] * 3),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "expected"), PIPED)
def test_lookup_by_a_pipeline(spec: Document, expected: Any) -> None:
    found = run({"c": ORDERS, "s": STOCK}, [{"$lookup": {**spec, "as": "r"}}])
    assert [[each["_id"] for each in document["r"]] for document in found] == expected


READS: list[tuple[Document, Document, list[Document]]] = [
    ({}, {"left": 5}, [{"left": 5}]),
    ({"item": "$item"}, {"$expr": {"$eq": ["$item", "$$item"]}}, [{"item": {"$eq": "a"}}, {"item": {"$eq": "b"}}]),
    ({"item": "$item"}, {"left": 5, "$expr": {"$eq": ["$$item", "$item"]}},
     [{"$and": [{"left": 5}, {"item": {"$eq": "a"}}]}, {"$and": [{"left": 5}, {"item": {"$eq": "b"}}]}]),
    ({"item": "$item", "n": "$n"}, ENOUGH, [{"item": {"$eq": "a"}}, {"item": {"$eq": "b"}}, {"item": {"$eq": "a"}}]),
    ({"n": "$n"}, {"$expr": {"$gt": ["$left", "$$n"]}}, [{}, {}, {}]),
    ({"x": "$nope"}, {"$expr": {"$eq": ["$item", "$$x"]}}, [{}]),
    ({"item": "$item"}, {"$expr": {"$eq": ["$a.0", "$$item"]}}, [{}, {}]),
    ({"item": "$item"}, {"$or": [{"left": 5}, {"$expr": {"$eq": ["$item", "$$item"]}}]}, [{}, {}]),
]  # fmt: skip


@pytest.mark.parametrize(("let", "query", "reads"), READS)
def test_the_read_behind_a_pipeline_is_narrowed_and_not_repeated_for_equal_variables(
    let: Document, query: Document, reads: list[Document]
) -> None:
    source = Memory({"s": STOCK})
    spec = {"from": "s", "let": let, "pipeline": [{"$match": query}], "as": "r"}
    run_coroutine(collect(compile_in_memory(source, [{"$lookup": spec}]).run_over(iterate_batches(ORDERS, 3))))
    assert [query for _, query in source.found] == reads


REFUSED: list[tuple[str, Any, int]] = [
    ("$lookup", 1, 9),
    ("$lookup", {"from": "f", "pipeline": []}, 40414),
    ("$lookup", {"from": "f", "pipeline": [], "as": None}, 40414),
    ("$lookup", {"from": "f", "as": "r"}, 9),
    ("$lookup", {"from": "f", "as": "r", "localField": "a"}, 9),
    ("$lookup", {"from": "f", "as": "r", "foreignField": "a", "pipeline": []}, 9),
    ("$lookup", {"from": 1, "as": "r", "pipeline": []}, 9),
    ("$lookup", {"from": {"db": "x", "coll": "y"}, "as": "r", "pipeline": []}, 9),
    ("$lookup", {"from": "f", "as": 1, "pipeline": []}, 14),
    ("$lookup", {"from": "f", "as": "r", "pipeline": {}}, 14),
    ("$lookup", {"from": "f", "as": "r", "pipeline": [], "let": 1}, 14),
    ("$lookup", {"from": "f", "as": "r", "localField": 1, "foreignField": "b"}, 14),
    ("$lookup", {"from": "f", "as": "r", "localField": "", "foreignField": "b"}, 9),
    ("$lookup", {"from": "f", "as": "r", "localField": "a", "foreignField": ".".join("a" * 201)}, 15),
    ("$lookup", {"from": "f", "as": "r", "pipeline": [], "let": {"A": 1}}, 9),
    ("$lookup", {"from": "f", "as": "r", "localField": "a", "foreignField": "b", "let": {}}, 9),
    ("$lookup", {"from": "f", "as": "r", "pipeline": [], "more": 1}, 40415),
    ("$lookup", {"as": "r", "pipeline": []}, 9),
    ("$lookup", {"from": "f", "as": "$r", "pipeline": []}, 16410),
    ("$lookup", {"from": "f", "as": "r", "localField": "$a", "foreignField": "b"}, 16410),
    ("$lookup", {"from": "f", "as": "r", "pipeline": [{"$nope": 1}]}, 40324),
    ("$lookup", {"from": "f", "as": "r", "pipeline": [{"$out": "o"}]}, 51047),
    ("$lookup", {"from": "f", "as": "r", "pipeline": [{"$collStats": {}}]}, 238),
    ("$lookup", {"from": "f", "as": "r", "pipeline": [{"$match": {"$expr": "$$nope"}}]}, 17276),
    ("$graphLookup", 1, 40327),
    ("$graphLookup", {}, 40105),
    ("$graphLookup", {"from": 1}, 40103),
    ("$graphLookup", {"maxDepth": "1"}, 40100),
    ("$graphLookup", {"maxDepth": -1}, 40101),
    ("$graphLookup", {"maxDepth": 1.5}, 40102),
    ("$graphLookup", {"restrictSearchWithMatch": 1}, 40185),
    ("$graphLookup", {"more": 1}, 40104),
    ("$unionWith", 1, 9),
    ("$unionWith", {}, 9),
    ("$unionWith", {"coll": 1}, 14),
    ("$unionWith", {"coll": "f", "more": 1}, 40415),
    ("$unionWith", {"coll": "f", "pipeline": [{"$merge": "o"}]}, 31441),
    ("$unionWith", {"coll": "f", "pipeline": 1}, 14),
    ("$facet", 1, 40169),
    ("$facet", {}, 40169),
    ("$facet", {"a": 1}, 40170),
    ("$facet", {"a": [1]}, 40171),
    ("$facet", {"a": [{"$facet": {"b": []}}]}, 40600),
    ("$facet", {"a": [{"$out": "o"}]}, 40600),
    ("$facet", {"a": [{"$documents": []}]}, 40600),
    ("$facet", {"a": [{"$collStats": {}}]}, 40600),
    ("$facet", {"a": [{"$nope": 1}]}, 40324),
    ("$facet", {"a.b": []}, 16412),
    ("$facet", {"$a": []}, 16410),
    ("$documents", 1, 5858203),
    ("$documents", [1], 40228),
    ("$collStats", 1, 5447000),
    ("$out", 1, 16990),
    ("$out", {"db": "d"}, 40414),
    ("$out", {"db": "d", "coll": "c", "x": 1}, 40415),
    ("$out", {"db": "d", "coll": 1}, 14),
    ("$out", "", 73),
    ("$out", "a$b", 20),
    ("$out", "a" * 254, 20),
    ("$out", "system.x", 17385),
    ("$out", {"db": "admin", "coll": "c"}, 31321),
    ("$out", {"db": None, "coll": "c"}, 40414),
    ("$merge", {"into": "system.x"}, 31319),
    ("$merge", {"into": {"db": "admin", "coll": "c"}}, 31320),
    ("$merge", {"into": {"db": "d", "coll": None}}, 5786801),
    ("$merge", {"into": "o", "whenNotMatched": 1}, 14),
    ("$merge", 1, 14),
    ("$merge", {}, 40414),
    ("$merge", {"into": 1}, 51178),
    ("$merge", {"into": "o", "more": 1}, 40415),
    ("$merge", {"into": {"db": "d"}}, 40414),
    ("$merge", {"into": "o", "whenMatched": 1}, 51191),
    ("$merge", {"into": "o", "whenMatched": "nope"}, 2),
    ("$merge", {"into": "o", "whenMatched": [1]}, 14),
    ("$merge", {"into": "o", "whenNotMatched": "nope"}, 2),
    ("$merge", {"into": "o", "whenMatched": "keepExisting", "whenNotMatched": "discard"}, 51181),
    ("$merge", {"into": "o", "whenMatched": "fail", "whenNotMatched": "fail"}, 51181),
    ("$merge", {"into": "o", "let": {"a": 1}}, 51199),
    ("$merge", {"into": "o", "let": None, "whenMatched": 1}, 51191),
    ("$merge", {"into": "o", "whenMatched": [], "let": {"new": 1}}, 51273),
    ("$merge", {"into": "o", "on": 1}, 51186),
    ("$merge", {"into": "o", "on": []}, 51187),
    ("$merge", {"into": "o", "on": [1]}, 51134),
    ("$merge", {"into": "o", "on": ["a", "a"]}, 31465),
]


@pytest.mark.parametrize(("name", "spec", "code"), REFUSED)
def test_a_stage_is_refused(name: str, spec: Any, code: int) -> None:
    assert run_or_code({"c": [{"_id": 1}]}, [{name: spec}]) == code


# --- $graphLookup ----------------------------------------------------------------------------------------------------

PEOPLE: list[Document] = [
    {"_id": "dev", "boss": None, "team": 1},
    {"_id": "eliot", "boss": "dev", "team": 1},
    {"_id": "ron", "boss": "eliot", "team": 2},
    {"_id": "andrew", "boss": "eliot", "team": 1},
    {"_id": "asya", "boss": ["ron", "andrew"], "team": 1},
    {"_id": "loop", "boss": "loop", "team": 3},
]

GRAPHS: list[tuple[str, Document, list[Any]]] = [
    ("asya", {}, ["andrew", "dev", "eliot", "ron"]),
    ("asya", {"maxDepth": 0}, ["andrew", "ron"]),
    ("asya", {"maxDepth": Int64(1)}, ["andrew", "eliot", "ron"]),
    ("asya", {"restrictSearchWithMatch": {"team": 1}}, ["andrew", "dev", "eliot"]),
    ("dev", {}, []),
    ("loop", {}, ["loop"]),
    ("eliot", {"connectFromField": "_id", "connectToField": "boss", "startWith": "$_id"}, ["andrew", "asya", "ron"]),
    ("dev", {"startWith": ["ron", "loop"]}, ["dev", "eliot", "loop", "ron"]),
    ("dev", {"startWith": "nobody"}, []),
    ("dev", {"startWith": "$nope", "connectToField": "boss"}, ["dev"]),
]


@pytest.mark.parametrize(("start", "changes", "expected"), GRAPHS)
def test_graph_lookup(start: str, changes: Document, expected: list[Any]) -> None:
    spec = {
        "from": "c",
        "startWith": "$boss",
        "connectFromField": "boss",
        "connectToField": "_id",
        "as": "r",
        **changes,
    }
    (found,) = run({"c": PEOPLE}, [{"$match": {"_id": start}}, {"$graphLookup": spec}])
    assert sorted(each["_id"] for each in found["r"]) == expected


def test_graph_lookup_writes_the_depth() -> None:
    spec = {
        "from": "c",
        "startWith": "$boss",
        "connectFromField": "boss",
        "connectToField": "_id",
        "as": "r",
        "depthField": "d",
    }
    (found,) = run({"c": PEOPLE}, [{"$match": {"_id": "asya"}}, {"$graphLookup": spec}])
    assert {each["_id"]: each["d"] for each in found["r"]} == {"ron": 0, "andrew": 0, "eliot": 1, "dev": 2}
    assert all(type(each["d"]) is Int64 for each in found["r"])


def test_graph_lookup_reads_once_for_a_level_and_caches() -> None:
    source = Memory({"c": PEOPLE})
    spec = {"from": "c", "startWith": "$boss", "connectFromField": "boss", "connectToField": "_id", "as": "r"}
    run_coroutine(
        collect(
            compile_in_memory(source, [{"$graphLookup": spec}]).run_over(
                iterate_batches([PEOPLE[4], PEOPLE[3], PEOPLE[2]], 3)
            )
        )
    )
    asked = [set(query["_id"]["$in"]) for _, query in source.found]
    assert asked == [{"ron", "andrew"}, {"eliot"}, {"dev"}, {None}]


# --- beginnings, unions, facets --------------------------------------------------------------------------------------

COMBINED: list[tuple[list[Document], Any]] = [
    ([{"$unionWith": "d"}], [{"a": 1}, {"a": 2}, {"a": 3}]),
    ([{"$unionWith": {"coll": "d"}}, {"$match": {"a": {"$gt": 1}}}], [{"a": 2}, {"a": 3}]),
    ([{"$unionWith": {"coll": "d", "pipeline": [{"$set": {"b": 1}}]}}], [{"a": 1}, {"a": 2}, {"a": 3, "b": 1}]),
    ([{"$unionWith": {"pipeline": [{"$documents": [{"z": 1}]}]}}], [{"a": 1}, {"a": 2}, {"z": 1}]),
    ([{"$unionWith": "none"}], [{"a": 1}, {"a": 2}]),
    ([{"$unionWith": {"coll": "d", "pipeline": [{"$unionWith": "d"}]}}], [{"a": 1}, {"a": 2}, {"a": 3}, {"a": 3}]),
    ([{"$documents": [{"x": 1}, {"x": {"$add": [1, 1]}}]}, {"$match": {"x": 2}}], [{"x": 2}]),
    ([{"$documents": []}], []),
    ([{"$documents": {"$map": {"input": [1, 2], "in": {"n": "$$this"}}}}], [{"n": 1}, {"n": 2}]),
    ([{"$facet": {"n": [{"$count": "n"}], "all": [], "top": [{"$sort": {"a": -1}}, {"$limit": 1}]}}],
     [{"n": [{"n": 2}], "all": [{"a": 1}, {"a": 2}], "top": [{"a": 2}]}]),
    ([{"$match": {"a": 9}}, {"$facet": {"n": [{"$count": "n"}]}}], [{"n": []}]),
    ([{"$facet": {"l": [{"$lookup": {"from": "d", "pipeline": [], "as": "d"}}, {"$limit": 1}]}}],
     [{"l": [{"a": 1, "d": [{"a": 3}]}]}]),
    ([{"$collStats": {"count": {}}}, {"$set": {"x": 1}}], [{"stage": "$collStats", "spec": {"count": {}}, "x": 1}]),
    ([{"$indexStats": {}}], [{"stage": "$indexStats", "spec": {}}]),
]  # fmt: skip


@pytest.mark.parametrize(("pipeline", "expected"), COMBINED)
def test_pipelines_combine(pipeline: list[Document], expected: Any) -> None:
    assert run_or_code({"c": [{"a": 1}, {"a": 2}], "d": [{"a": 3}]}, pipeline) == expected


def test_pipelines_that_read_no_collection() -> None:
    source = Memory({})
    assert compile_in_memory(source, [{"$changeStream": {}}, {"$match": {}}]).has_own_source
    assert compile_in_memory(source, [{"$documents": []}]).has_own_source
    assert not compile_in_memory(source, [{"$match": {}}]).has_own_source


# --- $out, $merge ----------------------------------------------------------------------------------------------------

TARGETS: list[tuple[Document, Any]] = [
    ({"$out": "o"}, Out(("db", "o"))),
    ({"$out": {"db": "x", "coll": "o"}}, Out(("x", "o"))),
    ({"$merge": "o"}, Merge(("db", "o"), ("_id",), "merge", "insert")),
    ({"$merge": {"into": {"db": "x", "coll": "o"}, "on": ["a", "b.c"], "whenMatched": "replace", "whenNotMatched": "fail"}},
     Merge(("x", "o"), ("a", "b.c"), "replace", "fail")),
    ({"$merge": {"into": {"coll": "o"}, "on": "a", "whenMatched": [{"$set": {"a": "$$new.a"}}]}},
     Merge(("db", "o"), ("a",), [{"$set": {"a": "$$new.a"}}], "insert")),
    ({"$merge": {"into": "o", "whenMatched": "keepExisting"}}, Merge(("db", "o"), ("_id",), "keepExisting", "insert")),
    ({"$merge": {"into": "o", "whenNotMatched": None}}, Merge(("db", "o"), ("_id",), "merge", "insert")),
]  # fmt: skip


@pytest.mark.parametrize(("stage", "target"), TARGETS)
def test_the_target_of_out_and_merge(stage: Document, target: Any) -> None:
    assert compile_in_memory(Memory({}), [{"$match": {}}, stage]).target == target


def test_a_final_out_passes_its_documents_on() -> None:
    pipe = compile_in_memory(Memory({}), [{"$set": {"b": 1}}, {"$out": "o"}])
    assert pipe.writer is not None
    passed = run_coroutine(collect(pipe.run_over(iterate_batches([{"_id": 1}, {"_id": 2}], 1))))
    assert passed == [{"_id": 1, "b": 1}, {"_id": 2, "b": 1}]


def test_merge_builds_rows_with_their_variables() -> None:
    stage = {"$merge": {"into": "o", "whenMatched": [{"$set": {"n": "$$m"}}], "let": {"m": "$n", "gone": "$nope"}}}
    writer = compile_in_memory(Memory({}), [stage]).writer
    assert writer is not None and writer.computes
    rows = [(row.document, row.variables) for row in writer.build_rows([{"n": 1}, {"n": 2}])]
    assert rows == [({"n": 1}, {"m": 1, "new": {"n": 1}}), ({"n": 2}, {"m": 2, "new": {"n": 2}})]
    plain = compile_in_memory(Memory({}), [{"$merge": {"into": "o"}}]).writer
    assert plain is not None and not plain.computes


@pytest.mark.parametrize(
    "after",
    [
        [{"$set": {"r": {"$slice": ["$r", 1]}}}],
        [{"$unwind": "$r"}, {"$set": {"r.n": 9}}],
        [{"$set": {"r.n": 7}}],
        [{"$set": {"r": {"$sortArray": {"input": "$r", "sortBy": {"n": 1}}}}}],
        [{"$unset": "r.n"}],
    ],
)
def test_documents_that_join_the_same_values_do_not_change_each_other(after: list[Any]) -> None:
    # They share one list of what was found.
    foreign = [{"_id": n, "k": 1, "n": -n} for n in range(3)]
    stages = [{"$lookup": {"from": "f", "localField": "l", "foreignField": "k", "as": "r"}}, *after]
    local = [{"_id": n, "l": 1} for n in range(2)]
    alone = [found for document in local for found in run({"c": [document], "f": foreign}, stages)]
    assert run({"c": local, "f": foreign}, stages) == alone
