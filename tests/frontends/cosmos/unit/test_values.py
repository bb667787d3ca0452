"""Items from bodies: what is kept byte for byte, what is refused; and time to live, value by value."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayflydb.frontends.cosmos import values
from mayflydb.frontends.cosmos.values import (
    MISSING_ID,
    ItemLimits,
    item_id,
    own_ttl,
    parse_default_ttl,
    parse_item,
    parse_json,
)
from mayflydb.model.errors import BadRequest, TooLarge
from mayflydb.model.record import IGNORED, NEVER

LIMITS = ItemLimits()


def refused(body: bytes, says: str) -> None:
    with pytest.raises(BadRequest, match=says):
        parse_item(body, LIMITS)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b'{"id":"a"}', b'{"id":"a"}'), (b'{"id":"a"} \r\n', b'{"id":"a"}'), (b"{}", b"{}"), (b" { } ", b"{ }"),
        (b'{"id":"a","n":1.0,"m":5e0}', b'{"id":"a","n":1.0,"m":5e0}'), (b'{"a":{"_ts":1}}', b'{"a":{"_ts":1}}'),
        (b'{"n":123456789012345678901234567890}', b'{"n":123456789012345678901234567890}'),
        (b'{"a":1,"_ts":5,"_rid":"x","b":2}', b'{"a":1,"b":2}'), (b'{"_ts":5}', b"{}"),
        (b'{ "a" : 1.50 , "_etag" : "x", "b": [ 1E1 ] }', b'{"a":1.50,"b":[ 1E1 ]}'),
        (b'{"_self":1,"_attachments":2,"_lsn":3,"_other":4}', b'{"_other":4}'),
        (b'{"\\u005fts":5,"a":"\\u00e9"}', b'{"a":"\\u00e9"}'), ('{"a":"é"}'.encode(), '{"a":"é"}'.encode()),
        (b'{"a":"x:y","b":{"a":1},"c":[{"a":1},{"a":2}]} ', b'{"a":"x:y","b":{"a":1},"c":[{"a":1},{"a":2}]}'),
        (b'{"a":"\\"b\\":","c\\"":-0}', b'{"a":"\\"b\\":","c\\"":-0}'), (b'{"a":"\\ud83d\\ude00"}', b'{"a":"\\ud83d\\ude00"}'),
    ],
)  # fmt: skip
def test_text(body: bytes, text: bytes) -> None:
    item = parse_item(body, LIMITS)
    assert item.text == text and item.doc == json.loads(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
    max_leaves=20,
)  # fmt: skip


@given(doc=st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), JSON), indent=st.sampled_from([None, 1]))
def test_any_json_is_kept(doc: dict[str, Any], indent: int | None) -> None:
    doc = {"x" + name: value for name, value in doc.items()}  # No name of a system property.
    for ascii_only in (True, False):
        body = json.dumps(doc, indent=indent, ensure_ascii=ascii_only).encode()
        item = parse_item(body, LIMITS)
        assert item.text == body and json.dumps(item.doc) == json.dumps(doc)


@pytest.mark.parametrize("name", ["a", "\\u0061", "\\u005cn", ""])
@pytest.mark.parametrize(
    "where", ['{{"{0}":1,"{0}":1}}', '{{"x":{{"{0}":1,"y":{{}},"{0}":2}}}}', '{{"x":[{{"{0}":1,"{0}":":"}}]}}']
)
@pytest.mark.parametrize("tail", ["", " "])
def test_duplicate_names(name: str, where: str, tail: str) -> None:
    refused((where.format(name) + tail).encode(), "twice")


def test_duplicate_by_escape() -> None:
    refused(b'{"a":1,"\\u0061":2}', "twice")
    refused(b'{"a":"\\u003a","b":1,"b":2}', "twice")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "empty"), (b"  ", "empty"), (b"[]", "object"), (b"5", "object"), (b"null", "object"), (b'"a"', "object"),
        (b'{"a":NaN}', "invalid"), (b'{"a":Infinity}', "invalid"), (b'{"a":-Infinity}', "invalid"), (b'{"a":1e999}', "range"),
        (b'{"a":-1e999}', "range"), (b'{"a":' + b"1" * 100_000 + b"}", "range"), (b'{"a":' + b"9" * 400 + b"}", "range"),
        (b'{"a":' + b"9" * 309 + b"}", "range"), (b'{"a":"\\ud800 longer text"}', "invalid"), (b'{"a":"\\udc00"}', "invalid"),
        (b'{"a":"\xed\xa0\x80"}', "UTF-8"), (b'{"a":"\xff"}', "UTF-8"), (b'{"a":1} x', "invalid"), (b"{'a':1}", "invalid"),
        (b'{"a":1,}', "invalid"), (b'{"a":01}', "invalid"), (b"\xef\xbb\xbf{}", "invalid"), (b'{"a":"\x01"}', "invalid"),
        (b'{"a":' * 5000 + b"1" + b"}" * 5000, "nested"), (b"[" * 100_000, "nested|invalid"),
    ],
)  # fmt: skip
def test_refused(body: bytes, says: str) -> None:
    refused(body, says)


@pytest.mark.parametrize("digits", [308, 309, 310, 617])
def test_a_long_integer_is_found_wherever_it_lies(digits: int) -> None:
    for before in range(0, 640, 7):
        body = b'{"p":"' + b"x" * before + b'","a":' + b"9" * digits + b',"q":"' + b"y" * 400 + b'"}'
        if digits < 309:
            assert parse_item(body, LIMITS).text == body
        else:
            refused(body, "range")


def test_digits_in_strings_and_fractions() -> None:
    body = b'{"a":"' + b"1" * 400 + b'","b":0.' + b"3" * 400 + b',"c":' + b"1" * 300 + b"}"
    assert parse_item(body, LIMITS).text == body


@pytest.mark.parametrize("leaf", ["1", "[]", "{}"])
@pytest.mark.parametrize(("levels", "allowed"), [(127, True), (128, True), (129, False), (600, False)])
def test_nesting(levels: int, allowed: bool, leaf: str) -> None:
    arrays = levels - 1 - (leaf != "1")
    body = ('{"a":' + "[" * arrays + leaf + "]" * arrays + "}").encode()
    if allowed:
        assert parse_item(body, LIMITS).text == body
    else:
        refused(body, "nested")


@given(value=JSON, limit=st.integers(1, 12))
def test_nesting_is_exact(value: Any, limit: int) -> None:
    def depth(inner: Any) -> int:
        children = inner.values() if isinstance(inner, dict) else inner if isinstance(inner, list) else None
        return 0 if children is None else 1 + max(map(depth, children), default=0)

    # Only texts with more brackets than the limit are looked at closely, and only those of some length.
    doc = {"x": [value, [[]] * 6, "[" * 300, '\\"]' * 5]}
    body = json.dumps(doc).encode()
    if depth(doc) > limit:
        with pytest.raises(BadRequest, match="nested"):
            parse_item(body, ItemLimits(nesting=limit))
    else:
        parse_item(body, ItemLimits(nesting=limit))


def test_many_brackets_are_not_deep() -> None:
    body = b'{"a":[' + b",".join([b"[]"] * 5000) + b"]}"
    assert parse_item(body, LIMITS).text == body


@pytest.mark.parametrize(("extra", "allowed"), [(-1, True), (0, True), (1, False), (200_000, False)])
def test_size(extra: int, allowed: bool) -> None:
    body = b'{"id":"' + b"a" * (LIMITS.item_bytes + extra - 9) + b'"}'
    assert len(body) == LIMITS.item_bytes + extra
    if allowed:
        assert parse_item(body, LIMITS).text == body
    else:
        with pytest.raises(TooLarge, match=r"limit of 2[0-9]+ bytes"):
            parse_item(body, LIMITS)


@pytest.mark.parametrize(
    "id", ["a", " ", "é", "a" * 1022, "a" * 1023, "é" * 511, "😀", "a%b", "docs", "\x00", "a/b", "a\\b", "?", "#"]
)
def test_id(id: str) -> None:
    assert item_id({"id": id}, LIMITS) == id


@pytest.mark.parametrize("id", ["", "a" * 1024, "é" * 512, 5, None, True, [], {}])
def test_bad_id(id: object) -> None:
    with pytest.raises(BadRequest, match="id"):
        item_id({"id": id}, LIMITS)


def test_missing_id() -> None:
    with pytest.raises(BadRequest) as caught:
        item_id({}, LIMITS)
    assert caught.value.message == MISSING_ID


REFUSAL = (
    "The input {} '{}' is invalid. Ensure to provide a nonzero positive integer less than or equal to '2147483647', or "
    "'-1' which means never expire."
)


@pytest.mark.parametrize(
    ("text", "override"),
    [("{}", None), ('{"ttl":1}', 1), ('{"ttl":20}', 20), ('{"ttl":2147483647}', 2147483647), ('{"ttl":-1}', NEVER),
     ('{"ttl":5.0}', 5), ('{"ttl":5e0}', 5), ('{"ttl":-1.0}', NEVER), ('{"TTL":5}', None), ('{"_ttl":5}', None),
     ('{"a":{"ttl":5}}', None), ('{"ttl":2147483647.0}', 2147483647)],
)  # fmt: skip
def test_own_ttl(text: str, override: int | None) -> None:
    result, refusal = own_ttl(msgspec.json.decode(text))
    assert (result, refusal) == (override, None) and type(result) in (int, type(None))


INVALID = [
    ("0", "0"), ("-0", "0"), ("-0.0", "-0.0"), ("-2", "-2"), ("-10", "-10"), ("-2147483648", "-2147483648"),
    ("2147483648", "2147483648"), ("4294967296", "4294967296"), ("9007199254740993", "9007199254740993"),
    ("1" + "0" * 30, "1" + "0" * 30), ("1.5", "1.5"), ("0.1", "0.1"), ("-1.5", "-1.5"), ("2147483647.5", "2147483647.5"),
    ("null", "null"), ('"5"', "5"), ('"-1"', "-1"), ('""', ""), ('"PT5S"', "PT5S"), ("true", "true"), ("false", "false"),
    ("[]", "[]"), ("[5]", "[5]"), ("{}", "{}"), ('{"ttl": 5}', '{"ttl":5}'), ("1e300", "1e+300"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "shown"), INVALID)
def test_invalid_ttl(value: str, shown: str) -> None:
    assert own_ttl(msgspec.json.decode(f'{{"ttl":{value}}}')) == (IGNORED, REFUSAL.format("ttl", shown))


def test_long_invalid_ttl() -> None:
    _, refusal = own_ttl({"ttl": "x" * 100_000})
    assert refusal is not None and len(refusal) < 400


@pytest.mark.parametrize("on", ["create", "replace"])
@pytest.mark.parametrize(
    ("value", "result"), [("-1", -1), ("1", 1), ("1000", 1000), ("2147483647", 2147483647), ("5.0", 5)]
)
def test_default_ttl(value: str, result: int, on: Any) -> None:
    got = parse_default_ttl(msgspec.json.decode(value), on)
    assert got == result and type(got) is int


@pytest.mark.parametrize("on", ["create", "replace"])
@pytest.mark.parametrize(("value", "shown"), [row for row in INVALID if row[0] != "null"])
def test_invalid_default_ttl(value: str, shown: str, on: Any) -> None:
    with pytest.raises(BadRequest) as caught:
        parse_default_ttl(msgspec.json.decode(value), on)
    assert caught.value.message == REFUSAL.format("defaultTtl", shown)


def test_default_ttl_off() -> None:
    assert parse_default_ttl(msgspec.UNSET, "create") is None and parse_default_ttl(msgspec.UNSET, "replace") is None
    assert parse_default_ttl(None, "replace") is None
    with pytest.raises(BadRequest) as caught:
        parse_default_ttl(None, "create")
    assert caught.value.message == REFUSAL.format("defaultTtl", "null")


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bodies of any size are decoded part by part."""
    monkeypatch.setattr(values, "LARGE_BODY", 0)
    monkeypatch.setattr(values, "LARGE_PART", 8)


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize(
    "text",
    [
        '{"id": "1", "a": [[[[1.5, "x"]]], {"b": [1, 2, {"c": null}]}, []], "t": "a long text [ { "}', "[]", "5", '"{"',
        ' {"id" : [ 1 , [ 2 , 3 , 4 , 5 ] , "\\u00e9\\n" ] } ', '{"a": {"b": {"c": {"d": {"e": [1, 2, 3, 4, 5]}}}}}',
    ],
)  # fmt: skip
def test_a_large_body_is_decoded_as_any_other(text: str) -> None:
    assert parse_json(text.encode(), ItemLimits(), 10_000)[0] == json.loads(text)


@pytest.mark.parametrize(
    "text",
    [
        '{"id": [1, 2, 3, 4, 5,, 6]}', '{"id": [1, 2, 3, 4, 5}', '{"id": [1, 2, 3, 4, nul]}', '{"id": [1, 2, 3, 4, 5]} x',
        '{"id": [[1, 2, 3], [1, 2, "\\ud800"]]}', '{"id": [1, 2, 3, 4, 1e999]}', '{"a": {"a": 1, "b": 2, "a": 3}, "b": [1, 2]}',
        '{"id": "1", "long": [1, 2, 3, 4], "id": "2"}', "{[1, 2, 3, 4, 5, 6]: 1}",
    ],
)  # fmt: skip
def test_faults_of_a_large_body_are_worded_as_any_other(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    with pytest.raises(BadRequest) as whole:
        parse_json(text.encode(), ItemLimits(), 10_000)
    monkeypatch.setattr(values, "LARGE_BODY", 0)
    monkeypatch.setattr(values, "LARGE_PART", 8)
    with pytest.raises(BadRequest) as parts:
        parse_json(text.encode(), ItemLimits(), 10_000)
    assert parts.value.message == whole.value.message
