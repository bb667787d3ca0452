"""Keys of documents in indexes, and the dates of TTL indexes."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
from bson import DatetimeMS, Decimal128, Int64, ObjectId, Regex, Timestamp

from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.indexes.key_bytes import EMPTY_ARRAY, encode_descending, encode_text, encode_value
from mayflydb.query.mongo.indexes.keys import (
    EARLIEST,
    LATEST,
    MAX_KEY_SIZE,
    compile_keys,
    hash_value,
    keys_of,
    truncated_prefix,
)
from mayflydb.query.mongo.indexes.specs import IndexSpec, parse_spec
from mayflydb.query.mongo.values import Document, order_key


def spec(key: Document, **options: Any) -> IndexSpec:
    return parse_spec({"key": key, "name": "x", **options})


EMPTY = object()


def one(value: Any) -> bytes:
    return EMPTY_ARRAY if value is EMPTY else encode_value(value)


@pytest.mark.parametrize(
    ("path", "document", "values"),
    [
        ("a", {"a": 1}, [1]),
        ("a", {}, [None]),
        ("a", {"a": None}, [None]),
        ("a", {"a": [1, 2, 1.0]}, [1, 2]),
        ("a", {"a": []}, [EMPTY]),
        ("a", {"a": [[1, 2], []]}, [[1, 2], []]),
        ("a", {"a": {"b": 1}}, [{"b": 1}]),
        ("a.b", {"a": {"b": 1}}, [1]),
        ("a.b", {"a": 1}, [None]),
        ("a.b", {"a": [{"b": 1}, {"b": [2, 3]}]}, [1, 2, 3]),
        ("a.b", {"a": [{"b": 1}, {}]}, [1, None]),
        ("a.b", {"a": [{"b": 1}, 5]}, [None, 1]),
        ("a.b", {"a": [5]}, [None]),
        ("a.b", {"a": []}, [None]),
        ("a.b", {"a": [[{"b": 1}]]}, [None]),
        ("a.b", {"a": [5, {"b": 1}, []]}, [None, 1]),
        ("a.b.c", {"a": [{"b": [7]}, {"b": {"c": 1}}]}, [None, 1]),
        ("a.0", {"a": [7, 8]}, [7]),
        ("a.0", {"a": [[7, 8], 9]}, [7, 8]),
        ("a.5", {"a": [7, 8]}, [None]),
        ("a.0.b", {"a": [{"b": 7}, {"b": 8}]}, [7]),
        ("a.0", {"a": {"0": 7}}, [7]),
    ],
)
def test_keys_at_a_path(path: str, document: Document, values: list[Any]) -> None:
    assert keys_of(spec({path: 1}), document) == sorted(map(one, values))
    assert keys_of(spec({path: -1}), document) == sorted(encode_descending(one(value)) for value in values)


@pytest.mark.parametrize(
    ("key", "document", "rows"),
    [
        ({"a": 1, "b": 1}, {"a": 1, "b": 2}, [(1, 2)]),
        ({"a": 1, "b": 1}, {"a": [1, 2], "b": 3}, [(1, 3), (2, 3)]),
        ({"a.b": 1, "a.c": 1}, {"a": [{"b": 1, "c": 2}, {"b": 3}]}, [(1, 2), (3, None)]),
        ({"a.b": 1, "a.c": 1}, {"a": [{"b": [1, 2], "c": 3}]}, [(1, 3), (2, 3)]),
        ({"a": 1, "a.b": 1}, {"a": [{"b": 1}, 5]}, [({"b": 1}, 1), (5, None)]),
        ({"a": 1, "b": 1}, {}, [(None, None)]),
    ],
)
def test_rows_of_several_paths(key: Document, document: Document, rows: list[tuple[Any, ...]]) -> None:
    assert keys_of(spec(key), document) == sorted(b"".join(map(one, row)) for row in rows)


@pytest.mark.parametrize(
    ("key", "document", "code", "message"),
    [
        ({"a": 1, "b": 1}, {"a": [1], "b": [2]}, 171, "cannot index parallel arrays [b] [a]"),
        ({"a.b": 1, "a.c": 1}, {"a": [{"b": [1], "c": [2]}]}, 171, "cannot index parallel arrays [c] [b]"),
        (
            {"a": "hashed"},
            {"a": [1]},
            16766,
            "hashed indexes do not currently support array values. Found array at path: a",
        ),
        ({"a.0": 1}, {"a": [{"0": 1}]}, 16746, None),
    ],
)
def test_documents_that_cannot_be_indexed(key: Document, document: Document, code: int, message: str | None) -> None:
    with pytest.raises(MqlError) as refused:
        keys_of(spec(key), document)
    assert refused.value.code == code
    assert message in (None, str(refused.value))


@pytest.mark.parametrize(
    ("document", "count"),
    [({}, 0), ({"a": None}, 1), ({"b": 1}, 1), ({"a": []}, 1), ({"c": 1}, 0)],
)
def test_sparse_indexes_leave_out_documents_without_any_path(document: Document, count: int) -> None:
    assert len(keys_of(spec({"a": 1, "b": 1}, sparse=True), document)) == count


def test_partial_indexes_hold_documents_that_match_the_filter() -> None:
    partial = compile_keys(spec({"a": 1}, partialFilterExpression={"b": {"$gt": 5}}))
    assert [len(partial.document_keys({"a": 1, "b": b})) for b in (5, 6, "6", [1, 9])] == [0, 1, 0, 1]


def test_unique_keys_are_equal_for_equal_values() -> None:
    unique = compile_keys(spec({"a": 1}, unique=True))
    assert (
        len({key for value in (5, 5.0, Int64(5), Decimal128("5.0")) for key in unique.document_keys({"a": value})}) == 1
    )
    assert unique.document_keys({}) == unique.document_keys({"a": None})


def test_strings_that_a_collation_holds_equal_have_one_key() -> None:
    english = compile_keys(spec({"a": 1}, collation={"locale": "en", "strength": 1}))
    assert (
        english.document_keys({"a": "Ébène"})
        == english.document_keys({"a": "ebene"})
        < english.document_keys({"a": "ebenf"})
    )
    assert english.document_keys({"a": {"b": ["X"]}}) == english.document_keys({"a": {"b": ["x"]}})
    assert english.document_keys({"a": ObjectId("0" * 24)}) == [encode_value(ObjectId("0" * 24))]


def test_hashed_keys() -> None:
    assert keys_of(spec({"a": "hashed", "b": 1}), {"b": 2}) == [hash_value(None) + encode_value(2)]
    assert hash_value(5) == hash_value(5.0) != hash_value(5.5)


@pytest.mark.parametrize(
    ("key", "projection", "paths"),
    [
        ({"$**": 1}, None, ["a.b", "a.c", "a.c.d", "e", "f"]),
        ({"a.$**": 1}, None, ["a.b", "a.c", "a.c.d"]),
        ({"$**": 1}, {"a.c": 1}, ["a.c", "a.c.d"]),
        ({"$**": 1}, {"a": 0}, ["e", "f"]),
        ({"$**": 1}, {"a": 0, "_id": 1}, ["_id", "e", "f"]),
    ],
)
def test_wildcards_hold_every_leaf(key: Document, projection: Document | None, paths: list[str]) -> None:
    document = {"_id": 1, "a": {"b": 1, "c": [2, {"d": 3}, [4]]}, "e": {}, "f": []}
    options = {} if projection is None else {"wildcardProjection": projection}
    found = {
        path for path in paths for each in keys_of(spec(key, **options), document) if each.startswith(encode_text(path))
    }
    assert found == set(paths)
    assert all(
        any(each.startswith(encode_text(path)) for path in paths) for each in keys_of(spec(key, **options), document)
    )


def test_text_indexes_hold_words() -> None:
    keys = keys_of(spec({"p": 1, "a": "text"}), {"p": 5, "a": ["Two words", "two"], "b": "not"})
    assert keys == sorted(encode_text(word) + encode_value(5) for word in ("two", "word"))


@pytest.mark.parametrize(
    ("options", "document", "expected"),
    [
        ({}, {"a": "The Running dogs"}, ["dog", "run"]),
        ({"default_language": "none"}, {"a": "The Running dogs"}, ["dogs", "running", "the"]),
        ({"default_language": "spanish"}, {"a": "corriendo"}, ["corr"]),
        ({"default_language": "fr"}, {"a": "Les élèves"}, ["elev", "le"]),
        ({}, {"a": "corriendo", "language": "spanish"}, ["corr"]),
        ({}, {"a": "corriendo", "language": "none"}, ["corriendo"]),
        ({}, {"a": "corriendo", "l": "es"}, ["corriendo"]),
        ({"language_override": "l"}, {"a": "corriendo", "l": "es", "language": "x"}, ["corr"]),
        ({"default_language": "none"}, {"a": "dogs", "language": "klingon"}, ["dogs"]),
        ({}, {"a": "dogs", "language": "klingon"}, 17262),
        ({}, {"a": "dogs", "language": 5}, 17261),
        ({"key": {"$**": "text"}}, {"x": {"y": "corriendo", "language": "es"}, "z": ["dogs"]}, ["corr", "dog", "es"]),
        ({"key": {"x.y": "text"}}, {"x": [{"y": "corriendo", "language": "es"}, {"y": ["dogs"]}]}, ["corr", "dog"]),
        ({}, {"a": "x" * 100 + "ing"}, ["x" * 100 + "ing"]),
    ],
    ids=str,
)
def test_text_indexes_hold_stems_by_language(options: dict[str, Any], document: dict[str, Any], expected: Any) -> None:
    index = parse_spec({"key": {"a": "text"}, "name": "t", **options})
    found: Any
    try:
        found = keys_of(index, document)
    except MqlError as refusal:
        found = refusal.code
    assert found == (expected if type(expected) is int else sorted(encode_text(word) for word in expected))


def test_long_keys_are_cut_and_stay_different() -> None:
    index = compile_keys(spec({"a": 1, "b": 1}))
    long = ["x" * 600, "x" * 599 + "y", "x" * 10_000]
    keys = [key for value in long for key in index.document_keys({"a": value, "b": 1})]
    assert {len(key) for key in keys} == {MAX_KEY_SIZE} and len(set(keys)) == 3
    assert {truncated_prefix(key) for key in keys} == {keys[0][:488]}
    assert truncated_prefix(index.document_keys({"a": "x" * 300})[0]) is None
    low, high = index.document_keys({"a": "w" * 600}), index.document_keys({"a": "y"})
    assert low < keys[:1] < high


def test_keys_sort_as_values_except_those_with_one_prefix(chance: random.Random) -> None:
    values = [1, None, "", "a", "x" * 490, "x" * 700, "x" * 700 + "y", {"a": "z" * 600}, ["q"], True, Regex("a")]
    for ways in itertools.product((1, -1), repeat=2):
        index = compile_keys(spec({"a": ways[0], "b": ways[1]}))
        rows = [(chance.choice(values), chance.choice(values)) for _ in range(20)]
        rows = [row for row in rows if list not in map(type, row)]
        for left, right in itertools.combinations(rows, 2):
            (a,), (b,) = (
                index.document_keys({"a": left[0], "b": left[1]}),
                index.document_keys({"a": right[0], "b": right[1]}),
            )
            expected = 0
            for way, x, y in zip(ways, left, right, strict=True):
                expected = expected or way * ((order_key(x) > order_key(y)) - (order_key(x) < order_key(y)))
            assert (a == b) == (expected == 0)
            if truncated_prefix(a) is None or truncated_prefix(a) != truncated_prefix(b):
                assert (a > b) - (a < b) == expected


# --- dates -----------------------------------------------------------------------------------------------------------------

TTL = compile_keys(parse_spec({"key": {"t": 1}, "name": "x", "expireAfterSeconds": 3600}))
T, LATER = DatetimeMS(1_000), DatetimeMS(9_000)


@pytest.mark.parametrize(
    ("value", "instant"),
    [
        (T, 1_000_000),
        (DatetimeMS(-1), -1_000),
        (DatetimeMS(-(1 << 63)), EARLIEST),
        (DatetimeMS(253402300799000), 253402300799000000),
        (DatetimeMS((1 << 63) - 1), LATEST),
        ([LATER, T], 1_000_000),
        ([T, "x", None], 1_000_000),
        *(
            (value, None)
            for value in ([], ["x"], [[T]], None, True, 5, Int64(5), 5.0, Decimal128("5"), "1970-01-01T00:00:00Z")
        ),
        *((value, None) for value in (Timestamp(1, 1), ObjectId("0" * 24), Regex("x"), {"t": T})),
    ],
)
def test_the_earliest_date_counts(value: Any, instant: int | None) -> None:
    assert TTL.earliest_date({"t": value}) == instant


@pytest.mark.parametrize(
    ("key", "options", "document", "instant"),
    [
        ({"t": 1}, {}, {}, None),
        ({"t": -1}, {}, {"t": T}, 1_000_000),
        ({"a.t": 1}, {}, {"a": [{"t": LATER}, {"t": T}, {}, 5]}, 1_000_000),
        ({"t": 1}, {"sparse": True, "unique": True, "hidden": True}, {"t": T}, 1_000_000),
        ({"t": 1}, {"collation": {"locale": "en"}}, {"t": T}, 1_000_000),
        ({"t": 1}, {"partialFilterExpression": {"a": 1}}, {"t": T, "a": 1}, 1_000_000),
        ({"t": 1}, {"partialFilterExpression": {"a": 1}}, {"t": T}, None),
        ({"t": "hashed"}, {}, {"t": T}, None),
        ({"t": "text"}, {}, {"t": T}, None),
    ],
)
def test_options_of_ttl_indexes(key: Document, options: Document, document: Document, instant: int | None) -> None:
    assert compile_keys(spec(key, expireAfterSeconds=3600, **options)).earliest_date(document) == instant


def test_an_index_without_expiry_has_no_dates() -> None:
    assert compile_keys(spec({"t": 1})).earliest_date({"t": T}) is None


@pytest.mark.parametrize(
    ("value", "instant"),
    [
        (5, 5_000),
        (Int64(5), 5_000),
        (5.9, 5_000),
        (float("nan"), None),
        ([T, 5], 5_000),
        (Decimal128("5"), None),
        (True, None),
    ],
)
def test_numbers_are_dates_on_custom_paths(value: Any, instant: int | None) -> None:
    assert TTL.earliest_date({"t": value}, numbers=True) == instant
