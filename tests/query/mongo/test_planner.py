"""Plans: the plan of a query; and of random queries, that no plan misses or repeats a document or breaks the order."""

from __future__ import annotations

import random
from typing import Any

import pytest
from bson import DatetimeMS, Int64, MaxKey, MinKey, Regex

from mayflydb.query.mongo.collation import SIMPLE, Collation
from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.filter import compile_filter
from mayflydb.query.mongo.indexes.key_bytes import id_key
from mayflydb.query.mongo.indexes.keys import compile_keys, truncated_prefix
from mayflydb.query.mongo.indexes.planner import Plan, plan
from mayflydb.query.mongo.indexes.specs import ID, IndexSpec, parse_spec
from mayflydb.query.mongo.sort import compile_sort
from mayflydb.query.mongo.values import Document

ENV = Env(0)
ENGLISH = Collation("en", 2)


def spec(key: Document, **options: Any) -> IndexSpec:
    return parse_spec({"key": key, "name": "_".join(map(str, sum(key.items(), ()))), **options})


# --- which plan --------------------------------------------------------------------------------------------------------

A, AB, BA = spec({"a": 1}), spec({"a": 1, "b": -1}), spec({"b": 1, "a": 1})
SPARSE, HIDDEN = spec({"a": 1}, sparse=True), spec({"a": 1}, hidden=True)
PARTIAL = spec({"a": 1}, partialFilterExpression={"a": {"$gt": 5}})
TYPED = spec({"a": 1}, partialFilterExpression={"b": {"$exists": True}, "$or": [{"c": 1}, {"c": {"$in": [2, 3]}}]})
COLLATED = spec({"a": 1}, collation={"locale": "en", "strength": 2})
HASHED, WILD, TEXT = spec({"a": "hashed"}), spec({"$**": 1}), spec({"a": "text"})

FULL = ["[MinKey, MaxKey]"]


@pytest.mark.parametrize(
    ("query", "sort", "specs", "expected"),
    [
        ({}, None, [A], ("scan", None)),
        ({"_id": 5}, None, [A], ("ids", None)),
        ({"$and": [{"a": 1}, {"_id": {"$in": [1, 2]}}]}, None, [A], ("ids", None)),
        ({"_id": {"$in": []}}, None, [], ("none", None)),
        ({"_id": {"$gt": 5}}, None, [ID], ("seek", {"_id": ["(5, inf)"]})),
        ({"a": 5}, None, [A], ("seek", {"a": ["[5, 5]"]})),
        ({"a": {"$in": [2, 1]}}, None, [A], ("seek", {"a": ["[1, 1]", "[2, 2]"]})),
        ({"a": {"$gte": 1, "$lt": 5}}, None, [A], ("seek", {"a": ["[1, 5)"]})),
        ({"a": {"$gt": 5, "$lt": 1}}, None, [A], ("none", None)),
        ({"a": {"$elemMatch": {"$gte": 1, "$lt": 5}}}, None, [A], ("seek", {"a": ["[1, 5)"]})),
        ({"a": {"$lt": float("-inf")}}, None, [A], ("none", None)),
        ({"a": {"$lt": {}}}, None, [spec({"a": -1})], ("none", None)),
        ({"$or": [{"a": {"$in": []}}, {"_id": {"$in": []}}]}, None, [A], ("none", None)),
        ({"a": 1, "b": {"$gt": 3}}, None, [AB], ("seek", {"a": ["[1, 1]"], "b": ["(inf, 3)"]})),
        ({"b": 3}, None, [AB], ("scan", None)),
        ({"a": 1, "b": 3}, None, [A, AB], ("seek", {"a": ["[1, 1]"], "b": ["[3, 3]"]})),
        ({"a": None}, None, [A], ("seek", {"a": ["[null, null]"]})),
        ({"a": {"$exists": False}}, None, [A], ("seek", {"a": ["[null, null]"]})),
        ({"a": {"$ne": 1}}, None, [A], ("scan", None)),
        ({"a": Regex("^ab\\.c?")}, None, [A], ("seek", {"a": ['["ab.", "ab/")', "[/^ab\\.c?/, /^ab\\.c?/]"]})),
        ({"a": {"$regex": "^ab", "$options": "i"}}, None, [A], ("seek", {"a": ['["", {})', "[/^ab/i, /^ab/i]"]})),
        ({"$or": [{"a": 1}, {"b": 2}]}, None, [A, BA], ("either", None)),
        ({"$or": [{"a": 1}, {"c": 2}]}, None, [A, BA], ("scan", None)),
        ({"$or": [{"a": 1}]}, None, [A], ("seek", {"a": ["[1, 1]"]})),
        ({}, {"a": 1}, [A], ("walk", {"a": FULL})),
        ({}, {"a": -1}, [A], ("walk", {"a": FULL})),
        ({}, {"a": 1, "b": 1}, [AB], ("scan", None)),
        ({"a": 7}, {"b": 1}, [AB], ("walk", {"a": ["[7, 7]"], "b": ["[MaxKey, MinKey]"]})),
        ({"a": 7}, None, [HIDDEN], ("scan", None)),
        ({"a": 7}, None, [SPARSE], ("seek", {"a": ["[7, 7]"]})),
        ({"a": {"$exists": True}}, None, [SPARSE], ("seek", {"a": FULL})),
        ({"a": None}, None, [SPARSE], ("scan", None)),
        ({}, {"a": 1}, [SPARSE], ("scan", None)),
        ({"a": 7}, None, [PARTIAL], ("seek", {"a": ["[7, 7]"]})),
        ({"a": 5}, None, [PARTIAL], ("scan", None)),
        ({"a": float("nan")}, None, [PARTIAL], ("scan", None)),
        ({"a": {"$gte": 6, "$lt": 9}}, None, [PARTIAL], ("seek", {"a": ["[6, 9)"]})),
        ({"a": 1, "b": 2, "c": 3}, None, [TYPED], ("seek", {"a": ["[1, 1]"]})),
        ({"a": 1, "b": 2, "c": 4}, None, [TYPED], ("scan", None)),
        ({"a": 1, "b": None, "c": 3}, None, [TYPED], ("scan", None)),
        ({"a": 1}, None, [COLLATED], ("seek", {"a": ["[1, 1]"]})),
        ({"a": "x"}, None, [COLLATED], ("seek", {"a": ['["", {})']})),
        ({"a": 5}, None, [HASHED], ("seek", None)),
        ({"a": {"$gt": 5}}, None, [HASHED], ("scan", None)),
        ({"a.b": 5}, None, [WILD], ("seek", {"$_path": ['["a.b", "a.b"]'], "a.b": ["[5, 5]"]})),
        ({"a.b": None}, None, [WILD], ("scan", None)),
        ({"a": {"b": 1}}, None, [WILD], ("scan", None)),
        (
            {"$text": {"$search": "Two words"}},
            None,
            [TEXT],
            ("seek", {"_fts": ['["two", "two"]', '["word", "word"]']}),
        ),
        ({}, {"$natural": -1}, [A], ("scan", None)),
    ],
)
def test_the_plan_of_a_query(query: Document, sort: Any, specs: list[IndexSpec], expected: tuple[str, Any]) -> None:
    found = plan(query, sort, None, specs, ENV, multikey=())
    assert found.kind == expected[0]
    if expected[1] is not None:
        assert found.bounds == expected[1]
    assert found.sorted == (not sort or found.kind == "walk" or "$natural" in sort)
    assert found.descending == (found.kind in ("walk", "scan") and sort in ({"a": -1}, {"b": 1}, {"$natural": -1}))


@pytest.mark.parametrize(
    ("query", "key", "bounds"),
    [
        ({"a": {"$gte": 1, "$lt": 5}}, {"a": 1}, {"a": ["[1, inf)"]}),
        ({"a.b": 1, "a.c": 2}, {"a.b": 1, "a.c": 1}, {"a.b": ["[1, 1]"], "a.c": FULL}),
        ({"a": {"$elemMatch": {"b": 1, "c": 2}}}, {"a.b": 1, "a.c": 1}, {"a.b": ["[1, 1]"], "a.c": ["[2, 2]"]}),
        ({"a.b": 1, "d": 2}, {"a.b": 1, "d": 1}, {"a.b": ["[1, 1]"], "d": ["[2, 2]"]}),
        ({"a": {"$all": [1, 2]}}, {"a": 1}, {"a": ["[1, 1]"]}),
        ({"a": [1, 2]}, {"a": 1}, {"a": ["[1, 1]", "[[ 1, 2 ], [ 1, 2 ]]"]}),
        # A reference is a value, whatever else the document has.
        (
            {"a": {"$gt": 1, "$ref": "c", "$id": 5}},
            {"a": 1},
            {"a": ['[{ $gt: 1, $ref: "c", $id: 5 }, { $gt: 1, $ref: "c", $id: 5 }]']},
        ),
    ],
)
def test_a_multikey_index_binds_one_condition_to_an_element(query: Document, key: Document, bounds: Document) -> None:
    found = plan(query, None, None, [spec(key)], ENV)
    assert found.bounds == bounds and found.multikey


def test_a_collation_bounds_strings_if_the_query_has_the_same() -> None:
    found = plan({"a": "x"}, {"a": 1}, None, [COLLATED], Env(0, collation=ENGLISH), multikey=())
    assert (found.kind, found.bounds) == ("walk", {"a": ['["x", "x"]']})
    assert plan({"_id": "x"}, None, None, [], Env(0, collation=ENGLISH)).kind == "scan"
    assert plan({"_id": 1}, None, None, [], Env(0, collation=ENGLISH)).kind == "ids"


@pytest.mark.parametrize(
    ("hint", "kind", "name"),
    [
        ("a_1", "walk", "a_1"),
        ({"a": 1}, "walk", "a_1"),
        ({"b": 1, "a": 1}, "walk", "b_1_a_1"),
        ("_id_", "scan", None),
        ({"$natural": 1}, "scan", None),
    ],
)
def test_a_hint_is_followed(hint: Any, kind: str, name: str | None) -> None:
    found = plan({"c": 1}, None, hint, [A, BA], ENV)
    assert (found.kind, found.index.name if found.index else None) == (kind, name)


def test_a_hint_gives_the_order_of_its_index_unless_another_is_asked_for() -> None:
    assert not plan({}, None, {"a": 1}, [A], ENV).descending
    assert plan({}, {"a": -1}, {"a": 1}, [A], ENV).descending
    assert plan({"a": 5}, {"c": 1}, {"a": 1}, [A], ENV).kind == "seek"


@pytest.mark.parametrize("hint", ["x", {"a": -1}, {"x": 1}])
def test_a_hint_must_name_an_index(hint: Any) -> None:
    with pytest.raises(
        MqlError, match=r"^error processing query: .*planner returned error :: caused by :: hint"
    ) as refusal:
        plan({}, None, hint, [A, HIDDEN], ENV, namespace="db.c")
    assert refusal.value.code == 2
    assert str(refusal.value).endswith("hint provided does not correspond to an existing index")


def test_text_needs_its_index() -> None:
    with pytest.raises(MqlError, match="text index required for \\$text query") as refusal:
        plan({"$text": {"$search": "x"}}, None, None, [A], ENV)
    assert refusal.value.code == 27


# --- by chance -----------------------------------------------------------------------------------------------------------

LONG = "x" * 600
SCALARS: list[Any] = [
    *(None, 0, 1, 1.0, 2, Int64(3), float("nan"), float("inf"), -1.5, "", "a", "ab", "B", "b", LONG, LONG + "y", True),
    *(DatetimeMS(0), DatetimeMS(5), MinKey(), MaxKey(), Regex("^a"), {"b": 1}, {}, b"x"),
]
PATHS = ["a", "b", "a.b", "a.c", "a.0", "a.0.b", "a.b.c", "_id"]
KEYS: list[Document] = [
    *({"a": 1}, {"a": -1}, {"a.b": 1}, {"a": 1, "b": 1}, {"b": -1, "a": 1}, {"a.b": 1, "a.c": -1}, {"b": 1, "a.b": 1}),
    *({"a.0": 1}, {"a.0.b": 1}, {"a.b.c": 1, "b": 1}, {"_id": 1}, {"a": "hashed"}, {"b": 1, "a": "hashed"}),
    *({"$**": 1}, {"a.$**": 1}),
]


def random_value(chance: random.Random, depth: int) -> Any:
    draw = chance.random()
    if depth and draw < 0.25:
        return [random_value(chance, depth - 1) for _ in range(chance.randrange(3))]
    if depth and draw < 0.5:
        return {name: random_value(chance, depth - 1) for name in ("b", "c") if chance.random() < 0.7}
    return chance.choice(SCALARS)


def random_document(chance: random.Random, n: int) -> Document:
    return {"_id": n} | {name: random_value(chance, 3) for name in ("a", "b") if chance.random() < 0.8}


def random_operand(chance: random.Random) -> Any:
    return random_value(chance, 1) if chance.random() < 0.2 else chance.choice(SCALARS)


def random_condition(chance: random.Random, element: bool = False) -> Any:
    conditions: Document = {}
    for _ in range(chance.choice([1, 1, 2])):
        operator = chance.choice(
            ["$eq", "$gt", "$gte", "$lt", "$lte", "$in", "$exists", "$elemMatch", "$all", "$ne", "$regex"]
        )
        if operator in ("$in", "$all"):
            conditions[operator] = [random_operand(chance) for _ in range(chance.randrange(3))]
        elif operator == "$exists":
            conditions[operator] = chance.random() < 0.5
        elif operator == "$regex":
            conditions[operator] = chance.choice(["^a", "b", "^x*", "^(a|b)", "^B"])
        elif operator != "$elemMatch":
            operand = random_operand(chance)
            conditions[operator] = 1 if type(operand) is Regex and operator != "$eq" else operand
        elif not element:
            draw = chance.random() < 0.5
            conditions[operator] = (
                random_condition(chance, True) if draw else random_query(chance, ["b", "c", "0"], True)
            )
    return conditions or {"$gt": 0}


def random_query(chance: random.Random, paths: list[str], element: bool = False) -> Document:
    query: Document = {}
    for _ in range(chance.choice([1, 1, 2, 3])):
        path = chance.choice(paths)
        query[path] = random_condition(chance, element) if chance.random() < 0.7 else random_operand(chance)
    if not element and chance.random() < 0.2:
        query["$or"] = [random_query(chance, paths) for _ in range(2)]
    if not element and chance.random() < 0.1:
        query["$and"] = [random_query(chance, paths) for _ in range(2)]
    return query


def random_index(chance: random.Random) -> IndexSpec:
    key, options = chance.choice(KEYS), dict[str, Any]()
    if key not in ({"_id": 1}, {"$**": 1}, {"a.$**": 1}):
        if chance.random() < 0.2:
            options["sparse"] = True
        elif chance.random() < 0.3:
            field = chance.choice(["a", "b", "a.b"])
            operand = chance.choice([1, "a", {"$gt": 0}, {"$lte": 2}, {"$exists": True}, {"$in": [1, None, "b"]}])
            options["partialFilterExpression"] = {field: operand}
        if chance.random() < 0.2:
            options["collation"] = {"locale": "en", "strength": 2}
    return spec(key, **options)


def run_plan(found: Plan, documents: list[Document], held: dict[str, list[tuple[bytes, int]]]) -> list[int]:
    """The places of the documents a plan finds, in the order in which an engine would find them."""
    if found.kind == "scan":
        return [*range(len(documents))]
    if found.kind == "ids":
        wanted = {id_key(each) for each in found.ids}
        return [n for n, each in enumerate(documents) if id_key(each["_id"]) in wanted]
    if found.kind == "either":
        return [n for branch in found.branches for n in run_plan(branch, documents, held)]
    if found.kind == "none":
        return []
    assert found.index is not None
    assert all(lower < upper for lower, upper in found.ranges)
    assert all(one[1] < other[0] for one, other in zip(found.ranges, found.ranges[1:], strict=False))
    entries = [
        (key, n)
        for key, n in held[found.index.name]
        # The hash of a partition follows the key in an entry.
        if any(lower <= key + b"\xff" * 8 < upper and lower <= key + b"\0" * 8 for lower, upper in found.ranges)
    ]
    places = [n for _, n in sorted(entries, reverse=found.descending)]
    return places if found.kind == "walk" else sorted(set(places))


def collection(
    chance: random.Random,
) -> tuple[list[Document], IndexSpec, dict[str, list[tuple[bytes, int]]], list[str]]:
    index = random_index(chance)
    keys, documents, entries, multikey = compile_keys(index), list[Document](), list[tuple[bytes, int]](), False
    for n in range(25):
        document = random_document(chance, n)
        try:
            found = keys.document_keys(document)
        except MqlError:
            continue
        multikey = multikey or len(found) > 1
        entries += [(key, len(documents)) for key in found]
        documents.append(document)
    return documents, index, {index.name: entries}, [index.name] if multikey else []


def test_no_plan_misses_a_document(chance: random.Random) -> None:
    kinds = dict[str, int]()
    for _ in range(150):
        documents, index, held, multikey = collection(chance)
        for _ in range(12):
            query = random_query(chance, PATHS)
            env = Env(0, collation=chance.choice([SIMPLE, SIMPLE, ENGLISH]))
            wanted = compile_filter(query, env)
            found = plan(query, None, None, [index], env, chance.choice([multikey, None]))
            kinds[found.kind] = kinds.get(found.kind, 0) + 1
            places = run_plan(found, documents, held)
            missed = [each for n, each in enumerate(documents) if n not in places and wanted.matches(each)]
            assert not missed, (query, index, found, missed, env.collation.locale)
            assert found.duplicates or len(places) == len(set(places))
    assert {"scan", "ids", "seek", "either"} <= kinds.keys()


def test_walks_give_the_order_that_is_asked_for(chance: random.Random) -> None:
    walks = 0
    for _ in range(300):
        documents, index, held, multikey = collection(chance)
        env = Env(0, collation=index.collator)
        way = chance.choice([1, -1])
        sort = {path: each * way for path, each in index.key if isinstance(each, int) and "$" not in path}
        sort = dict([*sort.items()][chance.randrange(2) :][: chance.choice([1, 2])])
        query = random_query(chance, PATHS[:3]) if chance.random() < 0.5 else {}
        found = plan(query, sort, None, [index], env, chance.choice([multikey, None]))
        if found.kind != "walk":
            continue
        walks += 1
        keys, wanted = compile_sort(sort, env), compile_filter(query, env)
        long = {n for key, n in held[index.name] if truncated_prefix(key) is not None}
        places = [n for n in dict.fromkeys(run_plan(found, documents, held)) if wanted.matches(documents[n])]
        assert len(places) == sum(map(wanted.matches, documents))
        order = [keys.key(documents[n]) for n in places if n not in long]
        places = [n for n in places if n not in long]
        assert order == sorted(order), (query, sort, index.name, multikey, [documents[n] for n in places])
    assert walks
