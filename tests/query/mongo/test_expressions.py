"""Expressions: paths, variables, comparisons, logic, conditionals, documents, and refusals."""

from __future__ import annotations

from typing import Any

import pytest
from bson import Binary, DatetimeMS, Decimal128, Int64, MinKey, ObjectId, Regex

from evaluating import ENV, NOW, check, refused
from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.expressions import Constant, arrays, compile_expression, core, depends_on, frame_of
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.values import MISSING

PATHS = [
    ("$a", 5),
    ("$none", MISSING),
    ("$n", None),
    ("$n.b", MISSING),
    ("$o.b", 1),
    ("$o.c.d", 2),
    ("$o.none.d", MISSING),
    ("$a.b", MISSING),
    ("$docs.x", [1, 2]),
    ("$docs.y.z", [1]),
    ("$docs.none", []),
    ("$l.0", []),
    ("$docs.0.x", []),
    ("$$ROOT.a", 5),
    ("$$CURRENT.a", 5),
    ("$$ROOT.docs.x", [1, 2]),
    ("$$limit", 3),
    ("$$who.name", "Ann"),
    ("$$who.tags.k", [1, 2]),
    ("$$who.none", MISSING),
    ("$$NOW", DatetimeMS(NOW)),
    ("$$REMOVE", MISSING),
    ("text", "text"),
    (7, 7),
    (Int64(7), Int64(7)),
    (7.5, 7.5),
    (None, None),
    (True, True),
    ([1, "$a", "$none"], [1, 5, None]),
    ({}, {}),
    ({"x": "$a", "y": {"z": "$s"}}, {"x": 5, "y": {"z": "text"}}),
    ({"x": "$none", "y": 1}, {"y": 1}),
    ({"x": "$$REMOVE"}, {}),
    ("$", refused(16872)),
    ("$a.", refused(40353)),
    ("$a..b", refused(15998)),
    ("$a.$b", refused(16410)),
    ("$$", refused(9)),
    ("$$nobody", refused(17276)),
    ("$$nobody.a", refused(17276)),
    ("$$CLUSTER_TIME", refused(51144)),
    ({"$frob": 1}, refused(168)),
    ({"a": 1, "$add": [1]}, refused(16410)),
    ({"$add": [1], "a": 1}, refused(15983)),
    ({"$add": [1], "$subtract": [1, 2]}, refused(15983)),
    ({"a.b": 1}, refused(16412)),
    ({"$function": {"body": "f", "args": [], "lang": "js"}}, refused(238)),
    ({"$accumulator": {}}, refused(238)),
    ({"$literal": "$a"}, "$a"),
    ({"$literal": {"$add": [1, 2]}}, {"$add": [1, 2]}),
    ({"$const": 1}, 1),
]

COMPARISONS = [
    ({"$lt": ["$missing", "$$NOW"]}, True),
    ({"$lt": ["$expireAt", "$$NOW"]}, True),
    ({"$gte": ["$expireAt", "$$NOW"]}, False),
    ({"$lt": ["$missing", None]}, True),
    ({"$eq": ["$missing", None]}, False),
    ({"$eq": ["$missing", "$absent"]}, True),
    ({"$gt": ["$missing", MinKey()]}, True),
    ({"$eq": [1, 1.0]}, True),
    ({"$eq": [1, Decimal128("1.0")]}, True),
    ({"$eq": [Int64(1), 1]}, True),
    ({"$eq": ["a", "A"]}, False),
    ({"$eq": [True, 1]}, False),
    ({"$eq": [float("nan"), float("nan")]}, True),
    ({"$lt": [float("nan"), -1e300]}, True),
    ({"$eq": [0.0, -0.0]}, True),
    ({"$eq": [9007199254740993, 9007199254740992.0]}, False),
    ({"$gt": ["a", 5]}, True),
    ({"$gt": [{}, "a"]}, True),
    ({"$gt": [[], {}]}, True),
    ({"$gt": [True, [1]]}, True),
    ({"$gt": [DatetimeMS(0), True]}, True),
    ({"$eq": [{"a": 1, "b": 2}, {"b": 2, "a": 1}]}, False),
    ({"$eq": [[1, 2], [1, 2.0]]}, True),
    ({"$lt": [[1, 2], [1, 3]]}, True),
    ({"$ne": [1, 2]}, True),
    ({"$lte": [2, 2]}, True),
    ({"$cmp": [1, 2]}, -1),
    ({"$cmp": [2, 2]}, 0),
    ({"$cmp": ["a", 2]}, 1),
    ({"$eq": [1]}, refused(16020)),
    ({"$eq": [1, 2, 3]}, refused(16020)),
    ({"$eq": 1}, refused(16020)),
    ({"$and": []}, True),
    ({"$and": [1, "a", [], {}]}, True),
    ({"$and": [1, 0]}, False),
    ({"$and": [1, None]}, False),
    ({"$and": ["$missing"]}, False),
    ({"$and": [False, {"$divide": [1, 0]}]}, False),
    ({"$or": []}, False),
    ({"$or": [0, 0.0, Decimal128("0"), Int64(0), None, False]}, False),
    ({"$or": [0, "$a"]}, True),
    ({"$or": [True, {"$divide": ["$a", 0]}]}, True),
    ({"$not": [0]}, True),
    ({"$not": ["$a"]}, False),
    ({"$not": "$missing"}, True),
    ({"$not": [float("nan")]}, False),
    ({"$not": [1, 2]}, refused(16020)),
]

CONDITIONALS = [
    ({"$cond": [True, 1, 2]}, 1),
    ({"$cond": ["$missing", 1, 2]}, 2),
    ({"$cond": {"if": "$a", "then": "$s", "else": 0}}, "text"),
    ({"$cond": [True, 1, {"$divide": [1, 0]}]}, 1),
    ({"$cond": [True, "$missing", 1]}, MISSING),
    ({"$cond": [True, 1]}, refused(16020)),
    ({"$cond": {"then": 1, "else": 2}}, refused(17080)),
    ({"$cond": {"if": 1, "else": 2}}, refused(17081)),
    ({"$cond": {"if": 1, "then": 2}}, refused(17082)),
    ({"$cond": {"if": 1, "then": 2, "else": 3, "x": 4}}, refused(17083)),
    ({"$ifNull": ["$missing", 1]}, 1),
    ({"$ifNull": ["$n", "$missing", 2]}, 2),
    ({"$ifNull": ["$a", 1]}, 5),
    ({"$ifNull": ["$n", "$missing"]}, MISSING),
    ({"$ifNull": [0, 1]}, 0),
    ({"$ifNull": [1]}, refused(1257300)),
    ({"$switch": {"branches": [{"case": 0, "then": 1}, {"case": "$a", "then": 2}], "default": 3}}, 2),
    ({"$switch": {"branches": [{"case": 0, "then": 1}], "default": 3}}, 3),
    ({"$switch": {"branches": [{"case": 0, "then": 1}]}}, refused(40066)),
    ({"$switch": {"branches": []}}, refused(40068)),
    ({"$switch": {}}, refused(40068)),
    ({"$switch": 1}, refused(40060)),
    ({"$switch": {"branches": 1}}, refused(40061)),
    ({"$switch": {"branches": [1]}}, refused(40062)),
    ({"$switch": {"branches": [{"case": 1, "then": 1, "x": 1}]}}, refused(40063)),
    ({"$switch": {"branches": [{"then": 1}]}}, refused(40064)),
    ({"$switch": {"branches": [{"case": 1}]}}, refused(40065)),
    ({"$switch": {"x": 1}}, refused(40067)),
]

VARIABLES = [
    ({"$let": {"vars": {"x": 1, "y": "$a"}, "in": {"$add": ["$$x", "$$y"]}}}, 6),
    ({"$let": {"vars": {"x": "$missing"}, "in": "$$x"}}, MISSING),
    ({"$let": {"vars": {"d": "$o"}, "in": "$$d.c.d"}}, 2),
    ({"$let": {"vars": {"x": 1}, "in": {"$let": {"vars": {"x": 2, "y": "$$x"}, "in": ["$$x", "$$y"]}}}}, [2, 1]),
    ({"$let": {"vars": {"limit": 9}, "in": "$$limit"}}, 9),
    ({"$let": {"vars": {"CURRENT": "$o"}, "in": "$c.d"}}, 2),
    ({"$let": {"vars": {"CURRENT": "$o"}, "in": "$$ROOT.a"}}, 5),
    ({"$let": {"vars": {"x": 1}, "in": "$$z"}}, refused(17276)),
    ({"$let": {"vars": {"X": 1}, "in": 1}}, refused(9)),
    ({"$let": {"vars": {"a-b": 1}, "in": 1}}, refused(9)),
    ({"$let": {"vars": {"ROOT": 1}, "in": 1}}, refused(9)),
    ({"$let": {"in": 1}}, refused(16876)),
    ({"$let": {"vars": {}}}, refused(16877)),
    ({"$let": {"vars": {}, "in": 1, "x": 1}}, refused(16875)),
    ({"$let": 1}, refused(16874)),
    ({"$map": {"input": "$l", "as": "e", "in": {"$add": ["$$e", "$a"]}}}, [6, 7, 8]),
    ({"$map": {"input": "$l", "in": {"$multiply": ["$$this", 2]}}}, [2, 4, 6]),
    ({"$map": {"input": "$docs", "in": "$$this.x"}}, [1, 2, None, [3]]),
    (
        {"$map": {"input": [[1], [2]], "as": "o", "in": {"$map": {"input": "$$o", "in": ["$$this", "$$o"]}}}},
        [[[1, [1]]], [[2, [2]]]],
    ),
    ({"$map": {"input": "$missing", "in": 1}}, None),
    ({"$map": {"input": "$a", "in": 1}}, refused(16883)),
    ({"$map": {"in": 1}}, refused(16880)),
    ({"$map": {"input": []}}, refused(16882)),
    ({"$map": {"input": [], "in": 1, "x": 1}}, refused(16879)),
    ({"$map": 1}, refused(16878)),
    ({"$filter": {"input": "$l", "cond": {"$gt": ["$$this", 1]}}}, [2, 3]),
    ({"$filter": {"input": "$l", "as": "e", "cond": {"$gt": ["$$e", 1]}, "limit": 1}}, [2]),
    ({"$filter": {"input": "$l", "cond": True, "limit": None}}, [1, 2, 3]),
    ({"$filter": {"input": "$l", "cond": True, "limit": 0}}, refused(327392)),
    ({"$filter": {"input": "$l", "cond": True, "limit": 1.5}}, refused(327391)),
    ({"$filter": {"input": "$n", "cond": True}}, None),
    ({"$filter": {"input": "$a", "cond": True}}, refused(28651)),
    ({"$filter": {"cond": True}}, refused(28648)),
    ({"$filter": {"input": []}}, refused(28650)),
    ({"$filter": 1}, refused(28646)),
    ({"$filter": {"input": [], "cond": 1, "x": 1}}, refused(28647)),
    ({"$reduce": {"input": "$l", "initialValue": 0, "in": {"$add": ["$$value", "$$this"]}}}, 6),
    ({"$reduce": {"input": [], "initialValue": 7, "in": "$$this"}}, 7),
    ({"$reduce": {"input": ["a", "b"], "initialValue": "", "in": {"$concat": ["$$value", "$$this"]}}}, "ab"),
    ({"$reduce": {"input": "$missing", "initialValue": 0, "in": 1}}, None),
    ({"$reduce": {"input": "$a", "initialValue": 0, "in": 1}}, refused(40080)),
    ({"$reduce": 1}, refused(40075)),
    ({"$reduce": {"input": [], "initialValue": 0, "in": 1, "x": 1}}, refused(40076)),
    ({"$reduce": {"initialValue": 0, "in": 1}}, refused(40077)),
    ({"$reduce": {"input": [], "in": 1}}, refused(40078)),
    ({"$reduce": {"input": [], "initialValue": 0}}, refused(40079)),
]

OBJECTS = [
    ({"$mergeObjects": ["$o", {"b": 2, "e": 3}]}, {"b": 2, "c": {"d": 2}, "e": 3}),
    ({"$mergeObjects": ["$n", "$missing"]}, {}),
    ({"$mergeObjects": "$o.c"}, {"d": 2}),
    ({"$mergeObjects": [1]}, refused(40400)),
    ({"$objectToArray": "$o.c"}, [{"k": "d", "v": 2}]),
    ({"$objectToArray": "$missing"}, None),
    ({"$objectToArray": 1}, refused(40390)),
    ({"$arrayToObject": [[["a", 1], ["b", 2]]]}, {"a": 1, "b": 2}),
    ({"$arrayToObject": [[{"k": "a", "v": 1}]]}, {"a": 1}),
    ({"$arrayToObject": [[]]}, {}),
    ({"$arrayToObject": "$n"}, None),
    ({"$arrayToObject": 1}, refused(40386)),
    ({"$arrayToObject": [[1]]}, refused(40398)),
    ({"$arrayToObject": [[["a", 1], {"k": "b", "v": 1}]]}, refused(40396)),
    ({"$arrayToObject": [[{"k": "b", "v": 1}, ["a", 1]]]}, refused(40391)),
    ({"$arrayToObject": [[["a"]]]}, refused(40397)),
    ({"$arrayToObject": [[[1, 1]]]}, refused(40395)),
    ({"$arrayToObject": [[{"k": "a"}]]}, refused(40392)),
    ({"$arrayToObject": [[{"k": "a", "x": 1}]]}, refused(40393)),
    ({"$arrayToObject": [[{"k": 1, "v": 1}]]}, refused(40394)),
    ({"$getField": "a"}, 5),
    ({"$getField": {"field": "b", "input": "$o"}}, 1),
    ({"$getField": {"field": "$$who.name", "input": {"Ann": 4}}}, 4),
    ({"$getField": {"field": {"$literal": "$x"}, "input": {"$literal": {"$x": 4}}}}, 4),
    ({"$getField": {"field": "b", "input": "$a"}}, MISSING),
    ({"$getField": {"field": "b", "input": None}}, None),
    ({"$getField": {"field": "b"}}, refused(3041703)),
    ({"$getField": {"input": {}}}, refused(3041702)),
    ({"$getField": 5}, refused(3041704)),
    ({"$getField": {"k": 1}}, refused(3041701)),
    ({"$rand": "x"}, refused(10065)),
    ({"$rand": {"k": 1}}, refused(3040501)),
    ({"$getField": "$a"}, refused(3041704)),
    ({"$setField": {"field": "b", "input": "$o", "value": 9}}, {"b": 9, "c": {"d": 2}}),
    ({"$setField": {"field": "x.y", "input": {}, "value": 9}}, {"x.y": 9}),
    ({"$setField": {"field": "b", "input": "$o.c", "value": "$$REMOVE"}}, {"d": 2}),
    ({"$setField": {"field": "b", "input": None, "value": 9}}, None),
    ({"$setField": {"field": "b", "input": 1, "value": 9}}, refused(4161105)),
    ({"$setField": {"field": "$s", "input": {}, "value": 9}}, refused(4161106)),
    ({"$setField": {"field": 1, "input": {}, "value": 9}}, refused(4161107)),
    ({"$setField": {"field": "b", "input": {}}}, refused(4161103)),
    ({"$unsetField": {"field": "b", "input": "$o"}}, {"c": {"d": 2}}),
    ({"$unsetField": {"field": "none", "input": "$o.c"}}, {"d": 2}),
    ({"$bsonSize": {"a": 1}}, 12),
    ({"$bsonSize": "$missing"}, None),
    ({"$bsonSize": 1}, refused(31393)),
    ({"$binarySize": "é"}, 2),
    ({"$binarySize": b"abc"}, 3),
    ({"$binarySize": None}, None),
    ({"$binarySize": 1}, refused(51276)),
]

TYPES = [
    (5, "int"),
    (Int64(5), "long"),
    (5.0, "double"),
    (Decimal128("5"), "decimal"),
    ("x", "string"),
    ({}, "object"),
    ([[]], "array"),
    (b"", "binData"),
    (ObjectId("0" * 24), "objectId"),
    (True, "bool"),
    (DatetimeMS(0), "date"),
    (None, "null"),
    (Regex("a"), "regex"),
    ("$missing", "missing"),
    (Binary(b"x", 4), "binData"),
]


@pytest.mark.parametrize(("spec", "expected"), PATHS + COMPARISONS + CONDITIONALS + VARIABLES + OBJECTS)
def test_an_expression_yields(spec: Any, expected: Any) -> None:
    check(spec, expected)


@pytest.mark.parametrize(("value", "name"), TYPES)
def test_types_have_names(value: Any, name: str) -> None:
    check({"$type": value}, name)


def test_wrong_numbers_of_operands_are_refused() -> None:
    with pytest.raises(MqlError, match=r"^Expression \$eq takes exactly 2 arguments\. 3 were passed in\.$"):
        compile_expression({"$eq": [1, 2, 3]}, ENV)
    with pytest.raises(
        MqlError, match=r"^Expression \$slice takes at least 2 arguments, and at most 3, but 1 were passed in\.$"
    ):
        compile_expression({"$slice": [[1]]}, ENV)
    with pytest.raises(MqlError, match=r"^Unrecognized expression '\$frob'$"):
        compile_expression({"$frob": 1}, ENV)


def test_frames_bind_the_variables_they_are_compiled_for() -> None:
    expression = compile_expression({"$add": ["$$mine", "$a"]}, ENV, ["mine"])
    frame = frame_of({"a": 2}, ENV)
    frame.variables = {"mine": 40}
    assert expression(frame) == 42


def test_constant_expressions_are_folded() -> None:
    expression = compile_expression({"$add": [1, {"$multiply": ["$$limit", 2]}]}, ENV)
    assert type(expression) is Constant and expression.value == 7


def test_a_constant_that_fails_fails_at_evaluation() -> None:
    expression = compile_expression({"$divide": [1, 0]}, ENV)
    with pytest.raises(MqlError, match=r"^can't \$divide by zero$"):
        expression(frame_of({}, ENV))


def test_random_numbers_come_from_the_environment() -> None:
    drawn = iter([0.25, 0.75, 0.25, 0.75])
    env = Env(now=0, random=lambda: next(drawn))
    rand = compile_expression({"$rand": {}}, env)
    sample = compile_expression({"$sampleRate": 0.5}, env)
    frame = frame_of({}, env)
    assert [rand(frame), rand(frame), sample(frame), sample(frame)] == [0.25, 0.75, True, False]


READS = [
    (1, set()),
    ("$a.b", {"a"}),
    ("$$ROOT.a.b", {"a"}),
    ("$$ROOT", None),
    ("$$CURRENT", None),
    ("$$this.a", set()),
    ({"$add": ["$a", {"$size": "$b.c"}]}, {"a", "b"}),
    ({"x": "$a", "y": ["$b"]}, {"a", "b"}),
    ({"$literal": "$a"}, set()),
    ({"$getField": "a"}, {"a"}),
    ({"$getField": "$a"}, None),
    ({"$getField": {"field": "x", "input": "$b"}}, {"b"}),
    ({"$let": {"vars": {"CURRENT": "$a"}, "in": "$b"}}, None),
    ({"$filter": {"input": "$l", "as": "e", "cond": {"$gt": ["$$e.x", "$m"]}}}, {"l", "m"}),
]


@pytest.mark.parametrize(("spec", "fields"), READS)
def test_the_fields_that_an_expression_reads(spec: Any, fields: set[str] | None) -> None:
    assert depends_on(spec) == fields


def doubling(levels: int) -> Any:
    spec: Any = "$$x"
    for _ in range(levels):
        spec = {"$let": {"vars": {"x": {"$concat": ["$$x", "$$x"]}}, "in": spec}}
    return {"$let": {"vars": {"x": "ab"}, "in": spec}}


def nested(levels: int) -> Any:
    spec: Any = "$a"
    for _ in range(levels):
        spec = {"$abs": spec}
    return spec


LIMITS = [
    (doubling(30), 16493),
    ({"$replaceAll": {"input": {"$concat": ["$long"] * 9}, "find": "x", "replacement": "$long"}}, 13548),
    (
        {"$reduce": {"input": {"$range": [0, 99]}, "initialValue": "ab", "in": {"$concat": ["$$value", "$$value"]}}},
        31392,
    ),
    ({"$reduce": {"input": {"$range": [0, 99]}, "initialValue": [], "in": ["$$value", "$$value"]}}, 31392),
    ({"$reduce": {"input": {"$range": [0, 999]}, "initialValue": [], "in": ["$$value"]}}, 31392),
    ({"$reduce": {"input": {"$range": [0, 999]}, "initialValue": {}, "in": {"a": "$$value", "b": "$$value"}}}, 31392),
    (nested(2000), 15),
]


@pytest.mark.parametrize(("spec", "code"), LIMITS)
def test_huge_results_are_refused(spec: Any, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "MAX_DOCUMENT_SIZE", 100_000)
    with pytest.raises(MqlError) as refusal:
        compile_expression(spec, ENV)(frame_of({"a": 1, "long": "x" * 10_000}, ENV))
    assert refusal.value.code == code


LONGEST = (1 << 24) - 1
"""Bytes of the longest text."""
AT = "a" * (LONGEST + 1)
BELOW = AT[1:]
HALF = AT[: 1 << 23]
LONG_TEXTS: dict[str, tuple[Any, int | None]] = {
    "literal": ({"$literal": BELOW}, LONGEST),
    "literal at": ({"$literal": AT}, None),
    "two bytes": ("é" * (1 << 23), None),
    "four bytes": ("😀" * ((1 << 22) - 1) + "abc", LONGEST),
    "four bytes at": ("😀" * (1 << 22), None),
    "concat": ({"$concat": [HALF, HALF[1:]]}, LONGEST),
    "concat at": ({"$concat": [HALF, HALF]}, None),
    "concat of fields at": ({"$concat": ["$half", "$half"]}, None),
    "concat in two bytes": ({"$concat": ["é" * (1 << 22), "$half"]}, None),
    "concat with null": ({"$concat": [HALF, None, HALF]}, 0),
    "concat within": ({"$strLenCP": {"$concat": [{"$concat": [HALF]}, HALF]}}, None),
    "reduce": (
        {"$reduce": {"input": {"$range": [0, 24]}, "initialValue": "a", "in": {"$concat": ["$$value", "$$value"]}}},
        None,
    ),
    "toUpper": ({"$toUpper": BELOW}, LONGEST),
    "toUpper at": ({"$toUpper": AT}, None),
    "toLower at": ({"$toLower": AT}, None),
    "toString": ({"$toString": BELOW}, LONGEST),
    "toString at": ({"$toString": AT}, None),
    "convert at": ({"$convert": {"input": AT, "to": "int", "onError": 1}}, None),
    "strLenBytes at": ({"$strLenBytes": AT}, None),
    "substrBytes at": ({"$substrBytes": [AT, 0, 1]}, None),
    "indexOfCP at": ({"$indexOfCP": ["a", AT]}, None),
    "split at": ({"$split": ["hello", AT]}, None),
    "trim": ({"$trim": {"input": BELOW}}, LONGEST),
    "trim at": ({"$trim": {"input": AT, "chars": "a"}}, None),
    "strcasecmp at": ({"$strcasecmp": ["a", AT]}, None),
    "regexMatch at": ({"$regexMatch": {"input": AT, "regex": "b"}}, None),
    "replaceAll": ({"$replaceAll": {"input": HALF[1:], "find": "a", "replacement": "bb"}}, LONGEST - 1),
    "replaceAll at": ({"$replaceAll": {"input": HALF, "find": "a", "replacement": "bb"}}, None),
    "replaceAll makes short": ({"$replaceAll": {"input": BELOW, "find": "aa", "replacement": "b"}}, 1 << 23),
    "replaceOne": ({"$replaceOne": {"input": HALF, "find": "a", "replacement": HALF}}, LONGEST),
    "replaceOne at": ({"$replaceOne": {"input": HALF, "find": "a", "replacement": HALF + "b"}}, None),
    "replaceOne of nothing": ({"$replaceOne": {"input": HALF, "find": "c", "replacement": BELOW}}, 1 << 23),
    "dateToString": ({"$dateToString": {"date": DatetimeMS(0), "format": HALF[1:] + "%Y"}}, (1 << 23) + 3),
    "dateToString at": ({"$dateToString": {"date": DatetimeMS(0), "format": "%Y" * (1 << 22)}}, None),
}


@pytest.mark.parametrize("name", LONG_TEXTS)
def test_texts_are_shorter_than_16_mb(name: str) -> None:
    spec, size = LONG_TEXTS[name]
    if size is None:
        with pytest.raises(MqlError, match="Tried to create string longer than 16MB") as refusal:
            compile_expression(spec, ENV)(frame_of({"half": HALF}, ENV))
        assert refusal.value.code == 16493
    else:
        text = compile_expression(spec, ENV)(frame_of({"half": HALF}, ENV))
        assert size == len((text or "").encode())


def test_nesting_within_the_limit_of_documents_is_accepted() -> None:
    assert compile_expression(nested(90), ENV)(frame_of({"a": -1}, ENV)) == 1


def test_a_large_range_is_not_made_when_it_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[range] = []

    def list_numbers(places: range) -> list[int]:
        made.append(places)
        return [*places]

    monkeypatch.setattr(arrays, "_list_numbers", list_numbers)
    compiled = compile_expression({"$slice": [{"$range": [0, 2500, 2]}, -2]}, ENV)
    assert not made
    assert compiled(frame_of({}, ENV)) == [2496, 2498]
    assert made == [range(0, 2500, 2)]
