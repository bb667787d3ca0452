"""The modules String, Unicode, Math and Digest: examples of YQL's documentation, and results that YDB keeps with its tests."""

from __future__ import annotations

import math
from typing import Any

import pytest

from mayflydb.query.yql.faults import Fault
from mayflydb.query.yql.types import INT64, STRING, UINT64, UTF8
from yql_calling import call, null, result, typed, utf8, value

STRINGS = [
    ("Base64Encode", ("YQL",), {}, "String", b"WVFM"),
    ("Base64Decode", ("WVFM",), {}, "String?", b"YQL"),
    ("Base64Decode", ("WVFMIQ",), {}, "String?", b"YQL!"),
    ("Base64StrictDecode", ("WVFMIQ",), {}, "String?", None),
    ("HexEncode", ("YQL",), {}, "String", b"59514C"),
    ("HexDecode", ("59514c",), {}, "String?", b"YQL"),
    ("HexDecode", ("5",), {}, "String?", None),
    ("EscapeC", ('a"\n\\\x01z',), {}, "String", b'a\\"\\n\\\\\\1z'),
    ("UnescapeC", ("a\\n\\x41\\101\\u0416",), {}, "String", "a\nAAЖ".encode()),
    ("EncodeHtml", ("<a href='x'>&\"",), {}, "String", b"&lt;a href=&#39;x&#39;&gt;&amp;&quot;"),
    ("DecodeHtml", ("&lt;&#39;&amp;&quot;",), {}, "String", b"<'&\""),
    ("CgiUnescape", ("a+b%20c%2F",), {}, "String", b"a b c/"),
    ("Strip", ("YQL ",), {}, "String", b"YQL"),
    ("Collapse", ("a  b\t\nc",), {}, "String", b"a b c"),
    ("Contains", ("abc", "b"), {}, "Bool", True),
    ("Contains", (null(STRING), "b"), {}, "Bool", False),
    ("Find", ("abcabc", "c"), {}, "Int64", 2),
    ("Find", ("abcabc", "c", 3), {}, "Int64", 5),
    ("Find", ("abc", "x"), {}, "Int64", -1),
    ("ReverseFind", ("abcabc", "a"), {}, "Int64", 3),
    ("HasPrefix", ("abc", "ab"), {}, "Bool", True),
    ("StartsWithIgnoreCase", ("ABC", "ab"), {}, "Bool", True),
    ("EndsWith", (utf8("abc"), "bc"), {}, "Bool", True),
    ("Substring", ("abcdef", 1, 2), {}, "String", b"bc"),
    ("AsciiToLower", ("ABCж",), {}, "String", "abcж".encode()),
    ("AsciiToUpper", (null(STRING),), {}, "String?", None),
    ("AsciiToTitle", ("aBC",), {}, "String", b"Abc"),
    ("SplitToList", ("1,2,3,4,5,6,7", ","), {"Limit": 3}, "List<String>", [b"1", b"2", b"3", b"4,5,6,7"]),
    ("SplitToList", ("a,;b", ",;"), {"DelimeterString": False, "SkipEmpty": True}, "List<String>", [b"a", b"b"]),
    ("SplitToList", ("a,,b,,c", ","), {"SkipEmpty": True, "Limit": 1}, "List<String>", [b"a", b",b,,c"]),
    ("SplitToList", (",a,b", ","), {"SkipEmpty": True, "Limit": 1}, "List<String>", [b"a,b"]),
    ("SplitToList", ("aabb", "ab"), {"SkipEmpty": True, "Limit": 1}, "List<String>", [b"a", b"b"]),
    (
        "SplitToList",
        ("a;,b", ";,"),
        {"DelimeterString": False, "SkipEmpty": True, "Limit": 1},
        "List<String>",
        [b"a", b",b"],
    ),
    ("SplitToList", (null(STRING), ","), {}, "List<String>", []),
    ("JoinFromList", (["a", "b"], ", "), {}, "String", b"a, b"),
    ("ToByteList", ("ab",), {}, "List<Uint8>", [97, 98]),
    ("ReplaceAll", ("aXbX", "X", "-"), {}, "String", b"a-b-"),
    ("ReplaceFirst", ("aXbX", "X", "-"), {}, "String", b"a-bX"),
    ("ReplaceLast", ("aXbX", "X", "-"), {}, "String", b"aXb-"),
    ("RemoveAll", ("abandon", "an"), {}, "String", b"bdo"),
    ("RemoveFirst", ("abandon", "an"), {}, "String", b"bandon"),
    ("RemoveLast", ("abandon", "an"), {}, "String", b"abando"),
    ("IsAscii", ("é",), {}, "Bool", False),
    ("IsAsciiAlnum", ("a1",), {}, "Bool", True),
    ("LevensteinDistance", ("kitten", "sitting"), {}, "Uint64", 3),
    ("LeftPad", ("1", 3, "0"), {}, "String", b"001"),
    ("RightPad", ("1", 3), {}, "String", b"1  "),
    ("Hex", (value(UINT64, 255),), {}, "String", b"0x00000000000000FF"),
    ("SBin", (value(INT64, -1),), {}, "String", b"-0b" + b"0" * 63 + b"1"),
    ("HexText", ("ab",), {}, "String", b"61 62"),
    ("Reverse", ("abc",), {}, "String?", b"cba"),
]


@pytest.mark.parametrize(("name", "operands", "named", "kind", "expected"), STRINGS)
def test_string(name: str, operands: Any, named: Any, kind: str, expected: Any) -> None:
    assert typed(f"String::{name}", *operands, **named) == (kind, expected)


UNICODE = [
    ("IsUtf", (b"\xf0",), {}, "Bool", False),
    ("IsUtf", (b"\xf0\x9f\x90\xb1",), {}, "Bool", True),
    ("GetLength", ("жніўня",), {}, "Uint64", 6),
    ("Find", ("aaa", "bb"), {}, "Uint64?", None),
    ("Find", ("жук", "к"), {}, "Uint64?", 2),
    ("RFind", ("abab", "a"), {}, "Uint64?", 2),
    ("Substring", ("0123456789abcdefghij", 10), {}, "Utf8", "abcdefghij"),
    ("NormalizeNFD", ("\u00e9",), {}, "Utf8", "e\u0301"),
    ("ReplaceLast", ("absence", "enc", ""), {}, "Utf8", "abse"),
    ("RemoveAll", ("abandon", "an"), {}, "Utf8", "bdo"),
    ("ToCodePointList", ("Щавель",), {}, "List<Uint32>", [1065, 1072, 1074, 1077, 1083, 1100]),
    ("FromCodePointList", ([99, 111, 100, 101],), {}, "Utf8", "code"),
    ("Reverse", ("жук",), {}, "Utf8", "куж"),
    ("ToLower", ("ЖУК",), {}, "Utf8", "жук"),
    ("ToUpper", (null(UTF8),), {}, "Utf8?", None),
    ("ToTitle", ("жук",), {}, "Utf8", "Жук"),
    (
        "SplitToList",
        ("One, two, three, four, five", ", "),
        {"Limit": 2},
        "List<Utf8>",
        ["One", "two", "three, four, five"],
    ),
    ("JoinFromList", (["One", "two", "three"], ";"), {}, "Utf8", "One;two;three"),
    ("ToUint64", ("77741",), {}, "Uint64", 77741),
    ("ToUint64", ("-77741",), {}, "Uint64", 18446744073709473875),
    ("ToUint64", ("-0x1",), {}, "Uint64", 2**64 - 1),
    ("ToUint64", ("017",), {}, "Uint64", 15),
    ("TryToUint64", ("asdh831",), {}, "Uint64?", None),
]


@pytest.mark.parametrize(("name", "operands", "named", "kind", "expected"), UNICODE)
def test_unicode(name: str, operands: Any, named: Any, kind: str, expected: Any) -> None:
    assert typed(f"Unicode::{name}", *operands, **named) == (kind, expected)


MATH = [
    ("Pi", (), math.pi),
    ("Sqrt", (256,), 16.0),
    ("Sqrt", (-1.0,), math.nan),
    ("Trunc", (1.2345,), 1.0),
    ("Atan2", (1, 0), math.pi / 2),
    ("Remainder", (2.1, 2), 0.1),
    ("Pow", (2, 10), 1024.0),
    ("Pow", (0, -1), math.inf),
    ("Round", (1.2345, -2), 1.23),
    ("Round", (2.5,), 3.0),
    ("Round", (-2.5,), -3.0),
    ("Round", (1234.0, 2), 1200.0),
    ("Log", (0.0,), -math.inf),
    ("Exp", (1000.0,), math.inf),
    ("Ceil", (math.inf,), math.inf),
    ("Floor", (-1.5,), -2.0),
    ("Rint", (2.5,), 2.0),
    ("Abs", (-1,), 1.0),
    ("Fmod", (5.5, 2), 1.5),
    ("Ldexp", (1.5, 2), 6.0),
]


@pytest.mark.parametrize(("name", "operands", "expected"), MATH)
def test_math(name: str, operands: Any, expected: float) -> None:
    kind, found = typed(f"Math::{name}", *operands)
    assert kind == "Double"
    assert found == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize(
    ("name", "operands", "kind", "expected"),
    [
        ("Mod", (-1, 7), "Int64?", 6),
        ("Rem", (-1, 7), "Int64?", -1),
        ("Mod", (1, 0), "Int64?", None),
        ("IsNaN", (math.nan,), "Bool", True),
        ("IsFinite", (math.inf,), "Bool", False),
        ("FuzzyEquals", (1.01, 1.0, 0.05), "Bool", True),
        ("Sqrt", (null(INT64),), "Double?", None),
    ],
)
def test_other_results_of_math(name: str, operands: Any, kind: str, expected: Any) -> None:
    assert typed(f"Math::{name}", *operands) == (kind, expected)


DIGESTS = [
    ("Crc32c", ("1",), 2432014819),
    ("Crc32c", ("2",), 2208655895),
    ("Fnv32", ("1",), 84696366),
    ("Fnv64", ("1",), 12638153115695167470),
    ("MurMurHash", ("1",), 746762829127501960),
    ("MurMurHash32", ("1",), 1228156847),
    ("CityHash", ("1",), 11413460447292444913),
    ("CityHash", ("2",), 17472595041006102391),
    ("CityHash", ("3",), 11275350073939794026),
    ("NumericHash", (value(UINT64, 1),), 2320827452992767577),
    ("NumericHash", (123456789,), 1734215268924325803),
    ("Md5Hex", ("YQL",), b"1a0c1b56e9d617688ee345da4030da3c"),
    ("Sha1", ("1",), bytes.fromhex("356a192b7913b04c54574d18c28d46e6395428ab")),
    ("Sha256", ("1",), bytes.fromhex("6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b")),
    ("SipHash", (111, 222, "1"), 1602385837086584249),
    ("SipHash", (111, 222, "2"), 8789615690042391357),
    ("Blake2B", ("1",), bytes.fromhex("92cdf578c47085a5992256f0dcf97d0b19f1f1c9de4d5fe30c3ace6191b6e5db")),
]


@pytest.mark.parametrize(("name", "operands", "expected"), DIGESTS)
def test_digests(name: str, operands: Any, expected: Any) -> None:
    assert result(f"Digest::{name}", *operands) == expected


@pytest.mark.parametrize(
    ("name", "operands", "message"),
    [
        ("String::Strip", (), r"Expected 1 argument\(s\), but got 0"),
        ("String::Strip", (1,), "type diff: Int32 != String"),
        ("Unicode::ToLower", (value(STRING, b"x"),), "type diff: String != Utf8"),
        ("Math::Round", (1.5, 2, 3), r"Expected from 1 to 2 argument\(s\), but got 3"),
    ],
)
def test_refused(name: str, operands: Any, message: str) -> None:
    with pytest.raises(Fault, match=message):
        call(name, *operands)
