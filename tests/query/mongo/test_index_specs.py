"""Index specifications: accepted and refused by createIndexes, collMod and dropIndexes, with the texts of the refusals."""

from __future__ import annotations

from typing import Any

import pytest
from bson import Binary, DatetimeMS, Decimal128, Int64, MinKey, Regex

from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.indexes.changes import indexes_to_drop, modify_index, resolve_target
from mayflydb.query.mongo.indexes.specs import (
    ID,
    IndexSpec,
    Profile,
    check_against_existing,
    compare_with_existing,
    parse_spec,
)
from mayflydb.query.mongo.values import Document

INT32_MIN, INT32_MAX = -(1 << 31), (1 << 31) - 1
INFINITY, NAN = float("inf"), float("nan")


def ttl(seconds: Any, key: Document | None = None, **options: Any) -> Document:
    return {"key": key or {"t": 1}, "name": "t_1", "expireAfterSeconds": seconds, **options}


def refusal(document: Document, profile: Profile = "both", custom_path: bool = False) -> tuple[int, str]:
    with pytest.raises(MqlError) as refused:
        parse_spec(document, profile, custom_path=custom_path)
    return refused.value.code, str(refused.value)


# --- createIndexes: expireAfterSeconds -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "stored"),
    [
        # MO1
        *((kind(n), n) for n in (0, 3600, INT32_MAX) for kind in (int, Int64, float, lambda n: Decimal128(str(n)))),
        (-0.0, 0),
        (Decimal128("-0"), 0),
        # MO2
        (3600.5, 3600),
        (Decimal128("3600.5"), 3600),
        (Decimal128("51.5"), 51),
        # MO4
        (-0.9, 0),
        (-0.5, 0),
    ],
)
def test_seconds_are_stored_as_int32(sent: Any, stored: int) -> None:
    spec = parse_spec(ttl(sent))
    assert (spec.expire_after, type(spec.expire_after)) == (stored, int)
    assert spec.to_document() == {"v": 2, "key": {"t": 1}, "name": "t_1", "expireAfterSeconds": stored}
    assert list(spec.to_document()) == ["v", "key", "name", "expireAfterSeconds"]


NEGATIVE = "TTL index 'expireAfterSeconds' option cannot be less than 0"
RANGE = "TTL index 'expireAfterSeconds' must be within the range of a 32-bit integer"
NOT_A_NUMBER = "TTL index 'expireAfterSeconds' option must not be NaN"


def not_numeric(name: str) -> str:
    return f"TTL index 'expireAfterSeconds' option must be numeric, but received a type of '{name}'"


@pytest.mark.parametrize(
    ("sent", "printed", "reason"),
    [
        # MO3
        (-1, "-1", NEGATIVE),
        (INT32_MIN, "-2147483648", NEGATIVE),
        (-1.5, "-1.5", NEGATIVE),
        (-INFINITY, "-inf", RANGE),
        # MO5
        (Int64(1 << 31), "2147483648", RANGE),
        (Int64((1 << 63) - 1), "9223372036854775807", RANGE),
        (INFINITY, "inf", RANGE),
        (Decimal128("1E+6144"), 'NumberDecimal("1.000000000000000000000000000000000E+6144")', RANGE),
        # MO6
        (NAN, "nan", NOT_A_NUMBER),
        (Decimal128("NaN"), 'NumberDecimal("NaN")', NOT_A_NUMBER),
        # MO7
        ("10", '"10"', not_numeric("string")),
        (True, "true", not_numeric("bool")),
        ([1], "[ 1 ]", not_numeric("array")),
        ({"a": 1}, "{ a: 1 }", not_numeric("object")),
        (DatetimeMS(5), "new Date(5)", not_numeric("date")),
        (Binary(b"\x01"), "BinData(0, 01)", not_numeric("binData")),
        (MinKey(), "MinKey", not_numeric("minKey")),
        # MO8
        (None, "null", not_numeric("null")),
    ],
)
def test_seconds_that_are_refused(sent: Any, printed: str, reason: str) -> None:
    code, message = refusal(ttl(sent))
    shown = f'{{ key: {{ t: 1 }}, name: "t_1", expireAfterSeconds: {printed} }}'
    if not isinstance(sent, Decimal128):
        assert message == f". Index spec: {shown} :: caused by :: {reason}"
    assert code == 67 and message.endswith(reason)


def test_keys_that_cannot_expire() -> None:
    # MO9
    shown = '{ key: { t: 1, u: 1 }, name: "t_1", expireAfterSeconds: 5 }'
    compound = "TTL indexes are single-field indexes, compound indexes do not support TTL. Index spec: " + shown
    assert refusal(ttl(5, {"t": 1, "u": 1})) == (67, compound)
    assert refusal(ttl(5, {"$**": 1})) == (67, "Index type 'wildcard' cannot be a TTL index")
    shown = '{ key: { _id: 1 }, name: "t_1", expireAfterSeconds: 5 }'
    message = f"The field 'expireAfterSeconds' is not valid for an _id index specification. Specification: {shown}"
    assert refusal(ttl(5, {"_id": 1})) == (197, message)
    for way in ("text", "hashed"):
        spec = parse_spec(ttl(5, {"t": way}))
        assert spec.expire_after == 5 and not spec.expires_by_date("both")


def test_expire_after_seconds_within_the_key_is_a_path() -> None:
    spec = parse_spec({"key": {"t": 1, "expireAfterSeconds": 5}, "name": "x"})
    assert spec.expire_after is None and spec.key == (("t", 1), ("expireAfterSeconds", 1))


def test_options_combine_with_expiry() -> None:
    sent = ttl(5, unique=True, hidden=True, partialFilterExpression={"a": 1}, collation={"locale": "en", "strength": 2})
    spec = parse_spec(sent)
    assert spec.expires_by_date("both") and spec.unique and spec.hidden and spec.partial == {"a": 1}
    assert spec.collation is not None and spec.collation["strength"] == 2


# --- `_ts` -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", ["both", "cosmos"])
@pytest.mark.parametrize(("sent", "stored"), [(-1, -1), (-1.0, -1), (Int64(1), 1), (INT32_MAX, INT32_MAX)])
def test_seconds_of_cosmos_ttl_indexes(profile: Profile, sent: Any, stored: int) -> None:
    spec = parse_spec(ttl(sent, {"_ts": -1}), profile)
    assert spec.expire_after == stored and spec.is_cosmos_ttl(profile) and not spec.expires_by_date(profile)


def test_cosmos_prints_a_version_and_the_namespace() -> None:
    printed = parse_spec({"key": {"_ts": 1}, "name": "_ts_1", "expireAfterSeconds": 10}).to_document("db.coll")
    assert list(printed.items()) == [
        ("v", 1),
        ("key", {"_ts": 1}),
        ("name", "_ts_1"),
        ("ns", "db.coll"),
        ("expireAfterSeconds", 10),
    ]


@pytest.mark.parametrize(
    ("document", "code"),
    [
        (ttl(0, {"_ts": 1}), 67),
        (ttl(-2, {"_ts": 1}), 67),
        (ttl(10, {"_ts": 1}, unique=True), 67),
        (ttl(10, {"_ts": 1}, sparse=True), 67),
        (ttl(10, {"_ts": 1}, partialFilterExpression={"a": 1}), 67),
        (ttl(10, {"_ts": "hashed"}), 67),
        (ttl(10, {"_ts": 1, "a": 1}), 67),
    ],
)
def test_cosmos_ttl_indexes_that_are_refused(document: Document, code: int) -> None:
    assert refusal(document)[0] == code == refusal(document, "cosmos")[0]


def test_the_profile_decides_the_meaning_of_ts() -> None:
    assert parse_spec(ttl(0, {"_ts": 1}), "native").expires_by_date("native")
    assert refusal(ttl(-1, {"_ts": 1}), "native")[0] == 67
    text = "The 'expireAfterSeconds' option is supported on '_ts' field only."
    assert refusal(ttl(5), "cosmos") == (2, text)
    assert not parse_spec({"key": {"_ts": 1}, "name": "x"}, "cosmos").is_cosmos_ttl("cosmos")
    custom = parse_spec(ttl(5), "cosmos", custom_path=True)
    with pytest.raises(MqlError):
        check_against_existing(
            parse_spec(ttl(5, {"_ts": 1}), "cosmos"), [ID, custom], "db.c", "cosmos", custom_path=True
        )


# --- createIndexes: the rest -----------------------------------------------------------------------------------------------


def index(key: Any, **options: Any) -> Document:
    return {"key": key, "name": "x", **options}


@pytest.mark.parametrize(
    ("document", "code", "message"),
    [
        ({"key": {"a": 1}}, 9, "The 'name' field is a required property of an index specification"),
        ({"name": "x"}, 9, "The 'key' field is a required property of an index specification"),
        (
            index({"a": 1}, expireAfter=5),
            197,
            (
                "The field 'expireAfter' is not valid for an index specification. "
                'Specification: { key: { a: 1 }, name: "x", expireAfter: 5 }'
            ),
        ),
        (index({}), 67, "Index keys cannot be empty."),
        (index({"": 1}), 67, "Index keys cannot be an empty field."),
        (index({"a..b": 1}), 67, "Index keys cannot contain an empty field."),
        (index({"a.$b": 1}), 67, "Index key contains an illegal field name: field name starts with '$'."),
        (index({"a": 0}), 67, "Values in the index key pattern cannot be 0."),
        (index({"a": NAN}), 67, "Values in the index key pattern cannot be NaN."),
        (
            index({"a": True}),
            67,
            "Values in v:2 index key pattern cannot be of type bool. Only numbers > 0, numbers < 0, and strings are allowed.",
        ),
        (index({"a": "2dsphere"}), 67, "Index type '2dsphere' is not supported"),
        (index({"a": "bogus"}), 67, "Unknown index plugin 'bogus'"),
        (index({"a": "hashed", "b": "text"}), 67, "Can't use more than one index plugin for a single index."),
        (index({f"f{n}": 1 for n in range(33)}), 13103, "too many compound keys"),
        (index({"$**": 1, "a": 1}), 67, "wildcard indexes do not allow compounding"),
        (index({"$**": 1}, unique=True), 67, "Index type 'wildcard' does not support the unique option"),
        (
            index({"a": "hashed"}, unique=True),
            16764,
            "Currently hashed indexes cannot guarantee uniqueness. Use a regular index.",
        ),
        (
            index({"a": 1}, sparse=True, partialFilterExpression={"b": 1}),
            67,
            'cannot mix "partialFilterExpression" and "sparse" options',
        ),
        (
            index({"a": 1}, partialFilterExpression=5),
            14,
            "The field 'partialFilterExpression' must be an object, but got int",
        ),
        (
            index({"a": 1}, partialFilterExpression={"b": {"$ne": 1}}),
            67,
            "Expression not supported in partial index: { b: { $ne: 1 } }",
        ),
        (
            index({"a": 1}, partialFilterExpression={"$or": [{"b": {"$exists": False}}]}),
            67,
            "Expression not supported in partial index: { b: { $exists: false } }",
        ),
        (
            index({"a": 1}, partialFilterExpression={"b": Regex("x")}),
            67,
            "Expression not supported in partial index: { b: /x/ }",
        ),
        (
            index({"a": "text"}, default_language="klingon"),
            67,
            'unsupported language: "klingon" for text index version 3',
        ),
        (index({"_id": 1}, unique=True), 197, None),
        (index({"_id": -1}), 2, "The field 'key' for an _id index must be {_id: 1}, but got { _id: -1 }"),
        ({"key": {"a": 1}, "name": "*"}, 2, "The index name '*' is not valid."),
        ({"key": {"a": 1}, "name": "_id_"}, 2, None),
        (
            index({"a": 1}, wildcardProjection={"a": 1}),
            2,
            "The field 'wildcardProjection' is only allowed in 'wildcard' indexes",
        ),
        (index({"$**": 1}, wildcardProjection={"a": 1, "b": 0}), 31254, None),
        (index({"a": 1}, weights={"a": 1}), 67, None),
        (index({"a": 1}, unique="x"), 14, 'The field \'unique has value unique: "x", which is not convertible to bool'),
        (index({"a": 1}, collation={"locale": "xx"}), 2, None),
        (index({"a": 1}, v=3), 67, None),
    ],
)
def test_specifications_that_are_refused(document: Document, code: int, message: str | None) -> None:
    assert refusal(document) == (code, message or refusal(document)[1])


@pytest.mark.parametrize(
    "document",
    [
        index({"a": 1, "b.c": -1}, unique=True, sparse=True, hidden=True),
        index({"a.$id": 1, "b": "hashed"}, background=True, ns="db.c"),
        index({"$**": 1}, wildcardProjection={"a": 1, "b.c": 1, "_id": 0}),
        index({"a.$**": 1}),
        index({"p": 1, "b": "text", "a": "text", "q": -1}, weights={"b": 5, "z": 2}),
        index({"$**": "text"}),
        index({"_fts": "text", "_ftsx": 1}, weights={"a": 1, "b": 2}, textIndexVersion=3, language_override="l"),
        index(
            {"a": 1}, partialFilterExpression={"$and": [{"a": {"$type": "date", "$gt": 5}}, {"b": {"$exists": True}}]}
        ),
        index({"a": 1}, collation={"locale": "en", "strength": 1}, storageEngine={}),
        {"key": {"_id": 1}, "name": "whatever"},
    ],
)
def test_specifications_come_back_as_they_were_stored(document: Document) -> None:
    spec = parse_spec(document)
    printed = spec.to_document()
    assert IndexSpec.from_document(printed) == spec
    assert parse_spec(printed) == spec
    assert compare_with_existing(spec, [ID, spec] if not spec.is_id else [ID]) == "same"


def test_text_indexes_print_their_internal_key() -> None:
    printed = parse_spec(index({"p": 1, "b": "text", "a": "text"}, weights={"b": 5})).to_document()
    assert list(printed["key"].items()) == [("p", 1), ("_fts", "text"), ("_ftsx", 1)]
    assert printed["weights"] == {"a": 1, "b": 5}


def test_the_collection_s_collation_is_inherited() -> None:
    english = parse_spec(index({"a": 1}, collation={"locale": "en"})).collation
    assert parse_spec(index({"a": 1}), default_collation=english).collation == english
    assert parse_spec(index({"a": 1}, collation={"locale": "simple"}), default_collation=english).collation is None


def test_a_collection_has_at_most_64_indexes() -> None:
    many = [ID, *(parse_spec({"key": {f"f{n}": 1}, "name": f"f{n}"}) for n in range(63))]
    spec = parse_spec(index({"a": 1}))
    check_against_existing(spec, many[:-1], "db.c")
    with pytest.raises(MqlError, match=r"add index fails, too many indexes for db.c key:{ a: 1 }") as refused:
        check_against_existing(spec, many, "db.c")
    assert refused.value.code == 67


# --- beside what is there -------------------------------------------------------------------------------------------------

EXISTING = parse_spec(ttl(100))


@pytest.mark.parametrize(
    ("document", "code", "message"),
    [
        # MO10
        (
            ttl(5),
            85,
            (
                "An equivalent index already exists with the same name but different options. "
                'Requested index: { v: 2, key: { t: 1 }, name: "t_1", expireAfterSeconds: 5 }, '
                'existing index: { v: 2, key: { t: 1 }, name: "t_1", expireAfterSeconds: 100 }'
            ),
        ),
        (
            {"key": {"t": 1}, "name": "t_1"},
            85,
            (
                "An equivalent index already exists with the same name but different options. "
                'Requested index: { v: 2, key: { t: 1 }, name: "t_1" }, '
                'existing index: { v: 2, key: { t: 1 }, name: "t_1", expireAfterSeconds: 100 }'
            ),
        ),
        (ttl(100) | {"name": "other"}, 85, "Index already exists with a different name: t_1"),
        (
            ttl(5) | {"name": "other"},
            85,
            (
                "An equivalent index already exists with a different name and options. "
                'Requested index: { v: 2, key: { t: 1 }, name: "other", expireAfterSeconds: 5 }, '
                'existing index: { v: 2, key: { t: 1 }, name: "t_1", expireAfterSeconds: 100 }'
            ),
        ),
        (
            {"key": {"u": 1}, "name": "t_1"},
            86,
            (
                "An existing index has the same name as the requested index. When index names are not specified, they are auto "
                "generated and can cause conflicts. Please refer to our documentation. "
                'Requested index: { v: 2, key: { u: 1 }, name: "t_1" }, '
                'existing index: { v: 2, key: { t: 1 }, name: "t_1", expireAfterSeconds: 100 }'
            ),
        ),
        (ttl(100, collation={"locale": "en"}), 86, None),
        (ttl(100, partialFilterExpression={"a": 1}), 86, None),
        (ttl(100, unique=True), 86, None),
    ],
)
def test_indexes_that_conflict_with_existing_ones(document: Document, code: int, message: str | None) -> None:
    with pytest.raises(MqlError) as refused:
        compare_with_existing(parse_spec(document), [ID, EXISTING])
    assert refused.value.code == code
    assert message in (None, str(refused.value))


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (ttl(100), "same"),
        (ttl(100.5, hidden=True), "same"),
        ({"key": {"_id": 1}, "name": "x"}, "same"),
        ({"key": {"t": -1}, "name": "t_-1"}, "new"),
        ({"key": {"t": 1}, "name": "u", "unique": True}, "new"),
        ({"key": {"t": 1}, "name": "u", "collation": {"locale": "en"}}, "new"),
    ],
)
def test_indexes_that_exist_already_or_are_new(document: Document, expected: str) -> None:
    assert compare_with_existing(parse_spec(document), [ID, EXISTING]) == expected


# --- collMod -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "stored"),
    [
        *((kind(n), n) for n in (0, 3600, INT32_MAX) for kind in (int, Int64, float, lambda n: Decimal128(str(n)))),
        (-0.0, 0),
        (3600.5, 3600),
        (Decimal128("3600.5"), 3600),
        (Decimal128("50.5"), 50),
        (Decimal128("51.5"), 52),
        (-0.9, 0),
        (Int64(1 << 31), INT32_MAX),
        (Int64((1 << 63) - 1), INT32_MAX),
        (INFINITY, INT32_MAX),
        (Decimal128("1E+6144"), INT32_MAX),
    ],
)
def test_coll_mod_changes_seconds(sent: Any, stored: int) -> None:
    spec, reply = modify_index(EXISTING, {"name": "t_1", "expireAfterSeconds": sent})
    assert spec.expire_after == stored
    assert reply == {"expireAfterSeconds_old": Int64(100), "expireAfterSeconds_new": Int64(stored)}
    assert all(type(each) is Int64 for each in reply.values())


NOTHING = "no expireAfterSeconds, hidden, unique, or prepareUnique field"


def wrong_type(name: str) -> str:
    return (
        f"BSON field 'collMod.index.expireAfterSeconds' is the wrong type '{name}', "
        "expected types '[long, int, decimal, double]'"
    )


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        *(({"expireAfterSeconds": each}, 72, NEGATIVE) for each in (-1, INT32_MIN, -1.5, -INFINITY, Decimal128("-1"))),
        ({"expireAfterSeconds": NAN}, 72, NOT_A_NUMBER),
        ({"expireAfterSeconds": Decimal128("NaN")}, 72, NOT_A_NUMBER),
        ({"expireAfterSeconds": "10"}, 14, wrong_type("string")),
        ({"expireAfterSeconds": True}, 14, wrong_type("bool")),
        ({"expireAfterSeconds": MinKey()}, 14, wrong_type("minKey")),
        ({"expireAfterSeconds": None}, 72, NOTHING),
        ({}, 72, NOTHING),
        ({"unique": True}, 72, None),
    ],
)
def test_changes_that_coll_mod_refuses(change: Document, code: int, message: str | None) -> None:
    with pytest.raises(MqlError) as refused:
        modify_index(EXISTING, change)
    assert refused.value.code == code
    assert message in (None, str(refused.value))


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ({"a": 1, "b": 1}, "TTL indexes are single-field indexes, compound indexes do not support TTL"),
        ({"a": "text"}, "TTL indexes are single-field indexes, compound indexes do not support TTL"),
        ({"_id": 1}, "the _id field does not support TTL indexes"),
        ({"$**": 1}, "wildcard indexes do not support TTL"),
    ],
)
def test_indexes_that_coll_mod_cannot_make_expire(key: Document, message: str) -> None:
    with pytest.raises(MqlError) as refused:
        modify_index(parse_spec(index(key)), {"expireAfterSeconds": 5})
    assert (refused.value.code, str(refused.value)) == (72, message)


def test_coll_mod_replies_with_what_it_changed() -> None:
    for key in ({"a": 1}, {"a": "hashed"}):
        spec, reply = modify_index(parse_spec(index(key)), {"expireAfterSeconds": 5, "hidden": True})
        assert spec.hidden and reply == {"expireAfterSeconds_new": 5, "hidden_old": False, "hidden_new": True}
    prepared, reply = modify_index(parse_spec(index({"a": 1})), {"prepareUnique": True})
    assert reply == {"prepareUnique_old": False, "prepareUnique_new": True}
    unique, reply = modify_index(prepared, {"unique": True})
    assert unique.unique and reply == {"unique_new": True}


def test_coll_mod_keeps_the_rules_of_cosmos_ttl_indexes() -> None:
    spec = parse_spec(ttl(10, {"_ts": 1}))
    assert modify_index(spec, {"expireAfterSeconds": -1})[0].expire_after == -1
    for seconds, code in ((0, 72), (-2, 72)):
        with pytest.raises(MqlError) as refused:
            modify_index(spec, {"expireAfterSeconds": seconds})
        assert refused.value.code == code


TWICE = parse_spec({"key": {"t": 1}, "name": "twice", "unique": True})


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        ({"name": "t_1", "keyPattern": {"t": 1}}, 72, "Cannot specify both key pattern and name."),
        ({"hidden": True}, 72, "Must specify either index name or key pattern."),
        ({"name": "no"}, 27, "cannot find index no for ns db.c"),
        ({"keyPattern": {"no": 1}}, 27, "cannot find index { no: 1 } for ns db.c"),
        ({"keyPattern": {"t": 1}}, 181, None),
        ({"name": "t_1", "expire": 5}, 40415, "BSON field 'collMod.index.expire' is an unknown field."),
    ],
)
def test_indexes_that_coll_mod_does_not_find(change: Document, code: int, message: str | None) -> None:
    with pytest.raises(MqlError) as refused:
        resolve_target(change, [ID, EXISTING, TWICE], "db.c")
    assert refused.value.code == code
    assert message in (None, str(refused.value))


def test_indexes_that_coll_mod_finds() -> None:
    assert resolve_target({"name": "twice"}, [ID, EXISTING, TWICE], "db.c") == TWICE
    assert resolve_target({"keyPattern": {"t": 1.0}}, [ID, EXISTING], "db.c") == EXISTING


# --- dropIndexes ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("which", "names"),
    [("*", ["t_1", "b"]), ("t_1", ["t_1"]), ({"b": -1}, ["b"]), (["b", "t_1"], ["b", "t_1"]), ([], [])],
)
def test_indexes_to_drop(which: Any, names: list[str]) -> None:
    other = parse_spec({"key": {"b": -1}, "name": "b"})
    assert [each.name for each in indexes_to_drop(which, [ID, EXISTING, other])] == names


@pytest.mark.parametrize(
    ("which", "code", "message"),
    [
        ("_id_", 72, "cannot drop _id index"),
        ({"_id": 1}, 72, "cannot drop _id index"),
        (["t_1", "_id_"], 72, "cannot drop _id index"),
        ("no", 27, "index not found with name [no]"),
        ({"no": 1}, 27, "can't find index with key: { no: 1 }"),
        (5, 14, None),
        ({"t": 1}, 181, None),
    ],
)
def test_indexes_that_cannot_be_dropped(which: Any, code: int, message: str | None) -> None:
    with pytest.raises(MqlError) as refused:
        indexes_to_drop(which, [ID, EXISTING, TWICE])
    assert refused.value.code == code
    assert message in (None, str(refused.value))
