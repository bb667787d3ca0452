"""Extended JSON: every type of BSON survives the way to a text and back, and texts of the shell mean what they say."""

from __future__ import annotations

import random
from typing import Any

import bson
import pytest
from bson import Binary, Code, DatetimeMS, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp, json_util
from bson.codec_options import CodecOptions, DatetimeConversion

from mayflydb.query.mongo.extended_json import (
    MAX_TEXT_DEPTH,
    encode_pairs,
    fields_of,
    format_document,
    format_value,
    is_exact,
    parse_json,
)
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.shell_json import parse_array, parse_document, parse_shell

EVERY_TYPE: dict[str, Any] = {
    "_id": ObjectId("0123456789abcdef01234567"),
    "double": 1.5, "whole double": 5.0, "minus zero": -0.0, "nan": float("nan"), "infinite": float("-inf"),
    "large double": 1e300, "string": 'a"\n\u2028é\0\\', "object": {"a": {"b": {}}}, "array": [1, [2, {}], []],
    "binary": b"abc", "binary 2": Binary(b"xyz", 2), "uuid": Binary(b"0" * 16, 4), "true": True, "false": False,
    "date": DatetimeMS(1_577_840_461_123), "date before 1970": DatetimeMS(-5), "date of int64": DatetimeMS(2**63 - 1),
    "date 9999": DatetimeMS(253_402_300_799_999), "null": None, "regex": Regex("a/b\\d", "ix"), "code": Code("f()"),
    "scope": Code("g", {"x": Int64(1)}), "int32": -5, "int64": Int64(5), "large int64": Int64(2**40),
    "timestamp": Timestamp(2**32 - 1, 7), "decimal": Decimal128("1.00E+5"), "decimal nan": Decimal128("NaN"),
    "min": MinKey(), "max": MaxKey(), "reference": {"$ref": "c", "$id": 5}, "": 1, "a.b": 2, "$price": 3,
}  # fmt: skip


def with_old_types() -> bytes:
    """The types that the library cannot write: undefined, symbol, dbPointer; and a field twice."""
    old = b"\x06und\0\x0esym\0\x03\0\0\0ab\0\x0cptr\0\x02\0\0\0c\0" + b"\x01" * 12
    old += b"\x02twice\0\x02\0\0\0a\0\x02twice\0\x02\0\0\0b\0"
    data = bson.encode(EVERY_TYPE)[4:-1] + old
    return (len(data) + 5).to_bytes(4, "little") + data + b"\0"


@pytest.mark.parametrize("canonical", [True, False])
@pytest.mark.parametrize("indent", [True, False])
def test_every_type_survives(canonical: bool, indent: bool) -> None:
    document = with_old_types()
    text = format_document(document, canonical, indent)
    assert parse_json(text).data == document
    assert parse_document(f"/* a comment */ {text}", "It") == document


@pytest.mark.parametrize("mode", [json_util.CANONICAL_JSON_OPTIONS, json_util.RELAXED_JSON_OPTIONS])
def test_texts_of_the_driver_are_read_as_the_driver_reads_them(mode: Any) -> None:
    text = json_util.dumps(EVERY_TYPE, json_options=mode)
    options = mode.with_options(datetime_conversion=DatetimeConversion.DATETIME_MS)
    assert parse_json(text).data == bson.encode(json_util.loads(text, json_options=options))


def random_value(chance: random.Random, depth: int = 0) -> Any:
    simple = [EVERY_TYPE[name] for name in EVERY_TYPE if name not in ("object", "array", "reference")]
    kind = chance.random()
    if depth < 4 and kind < 0.2:
        return {f"f{chance.randrange(9)}": random_value(chance, depth + 1) for _ in range(chance.randrange(4))}
    if depth < 4 and kind < 0.4:
        return [random_value(chance, depth + 1) for _ in range(chance.randrange(4))]
    numbers = [chance.randrange(-(2**31), 2**31), Int64(chance.randrange(-(2**63), 2**63)), chance.gauss(0, 1e9)]
    return chance.choice([*simple, *numbers, chance.randbytes(chance.randrange(9)), DatetimeMS(chance.getrandbits(45))])


def test_random_documents_survive() -> None:
    chance = random.Random(17)
    for _ in range(300):
        document = bson.encode({f"k{n}": random_value(chance) for n in range(chance.randrange(6))})
        for canonical in (True, False):
            assert is_exact(document, format_document(document, canonical, chance.random() < 0.5)), document


@pytest.mark.parametrize(
    "document",
    [
        bson.encode({"a": {"$oid": "0123456789abcdef01234567"}}),
        bson.encode({"a": {"$date": "2030-01-01"}}),
        b"\x0e\0\0\0\x02a\0\x02\0\0\0\xff\0\0",
    ],
)
def test_a_document_that_no_text_stands_for_is_known(document: bytes) -> None:
    assert not is_exact(document, format_document(document))


SHELL = """
{ // names without quotes, single quotes, commas at the end
  a: 1, 'b.c': ObjectId("0123456789abcdef01234567"),
  $or: [{d: new Date("2020-01-01")}, {d: ISODate('2020-01-01T00:00:00+02:00')}],
  e: /ab+c[/]\\/d/xi, f: [NumberLong(5), NumberLong("-6"), NumberInt(7), 5.0, -1e3, .5, 9007199254740993, NaN, -Infinity,],
  g: Timestamp(1, 2), h: MinKey, i: MaxKey(), j: UUID("12345678-1234-1234-1234-123456789012"), k: BinData(0, "YWJj"),
  l: NumberDecimal("1.10"), m: 'it\\'s', n: undefined, o: null, p: true, q: {$oid: "0123456789abcdef01234567"}, r: Double(3),
}
"""


def test_a_text_of_the_shell() -> None:
    found: dict[str, Any] = bson.decode(
        parse_document(SHELL, "It"), CodecOptions(datetime_conversion=DatetimeConversion.DATETIME_MS)
    )
    id = ObjectId("0123456789abcdef01234567")
    assert found["b.c"] == found["q"] == id
    assert [int(each["d"]) for each in found["$or"]] == [1_577_836_800_000, 1_577_829_600_000]
    assert (found["e"].pattern, found["f"][:7], found["f"][8]) == (
        "ab+c[/]/d", [5, -6, 7, 5.0, -1000.0, 0.5, 9007199254740993], float("-inf"),
    )  # fmt: skip
    assert [type(each) for each in found["f"][:4]] == [Int64, Int64, int, float]
    assert (found["g"], found["h"], found["i"]) == (Timestamp(1, 2), MinKey(), MaxKey())
    assert (found["k"], found["l"], found["m"], found["r"]) == (b"abc", Decimal128("1.10"), "it's", 3.0)
    assert list(found)[-5:] == ["n", "o", "p", "q", "r"] and found["o"] is None and found["p"] is True


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{a:}", "It: line 1, column 4: a value is expected"),
        ("{a: 1", "It: line 1, column 6: , is expected"),
        ("[1]", "It: it must be a document in braces"),
        ("{\n a: foo}", "It: line 2, column 5: foo is no value: texts stand in quotes"),
        ("{a: ObjectId('x')}", "It: line 1, column 5: ObjectId does not take these arguments"),
        ('{"a": {"$oid": "zz"}}', "It: $oid has a value that is no Extended JSON"),
        ('{"a": {"$numberInt": "2147483648"}}', "It: $numberInt has a value that is no"),
        ("{a: 1} b", "It: line 1, column 8: 'b' follows the end"),
        ("@", "It: line 1, column 1: '@' has no meaning"),
        ('{"a\\u0000b": 1}', "It: the name of a field may hold no NUL character"),
        ('{"a": "\\ud800"}', "It: a text holds half of a surrogate pair"),
        ("[" * (MAX_TEXT_DEPTH + 9), "It: line 1, column 182: the text nests too deeply"),
        ('{"a":' * 100_000, "It: line 1, column 906: the text nests too deeply"),
    ],
)  # fmt: skip
def test_faults(text: str, fault: str) -> None:
    with pytest.raises(MqlError) as raised:
        parse_document(text, "It")
    assert raised.value.message.startswith(fault)


def test_parts() -> None:
    assert parse_document(" ", "It") == parse_document("{}", "It") == bson.encode({})
    assert parse_array("[1, {a: 2}]", "It") == bson.encode({"0": 1, "1": {"a": 2}})
    document = encode_pairs([("find", "c"), ("filter", parse_shell("{a: 1}")), ("n", 2**40), ("l", [1, {"b": None}])])
    assert bson.decode(document) == {"find": "c", "filter": {"a": 1}, "n": 2**40, "l": [1, {"b": None}]}
    fields = fields_of(document)
    assert [format_value(each) for each in fields.values()] == ['"c"', '{"a": 1}', "1099511627776", '[1, {"b": null}]']
