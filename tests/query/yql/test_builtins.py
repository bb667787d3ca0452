"""Functions of YQL that belong to no module, mostly the examples of its documentation: type and value."""

from __future__ import annotations

from typing import Any

import pytest

from mayflydb.query.yql.faults import Fault
from mayflydb.query.yql.functions import find, find_aggregate
from mayflydb.query.yql.types import (
    BOOL,
    DATE,
    DOUBLE,
    INT32,
    INT64,
    INTERVAL,
    STRING,
    TIMESTAMP,
    TZ_DATETIME,
    UINT32,
    UINT64,
    UTF8,
    Just,
    ListType,
    OptionalType,
    StructType,
    TupleType,
    VariantType,
    optional,
)
from yql_calling import HERE, NOW, Fn, aggregated, call, item, null, op, result, run, text, typed, utf8, value

CONSTRUCTORS = [
    ("Date", ("2019-01-01",), "Date", 17897),
    ("datetime", ("2019-01-01T15:30:00Z",), "Datetime", 1546356600),
    ("Timestamp", ("1970-01-01T00:00:00.000001Z",), "Timestamp", 1),
    ("Interval", ("P1D",), "Interval", 86_400_000_000),
    ("Interval", ("-PT1S",), "Interval", -1_000_000),
    ("Decimal", ("1.23", 22, 9), "Decimal(22,9)", 1_230_000_000),
    ("Utf8", ("é",), "Utf8", "é"),
    ("String", ("é",), "String", "é".encode()),
    ("Bool", ("true",), "Bool", True),
    ("Uint8", ("255",), "Uint8", 255),
    ("Json", ('{"a": 1}',), "Json", '{"a": 1}'),
    ("Uuid", ("00112233-4455-6677-8899-aabbccddeeff",), "Uuid", bytes.fromhex("33221100554477668899aabbccddeeff")),
    ("Void", (), "Void", None),
    ("AsList", (), "EmptyList", []),
    ("AsList", (1, 2), "List<Int32>", [1, 2]),
    ("AsList", (1, None), "List<Int32?>", [1, None]),
    ("AsTuple", (1, "x", None), "Tuple<Int32,String,Null>", (1, b"x", None)),
    ("AsDict", ((1, "a"), (2, "b"), (1, "c")), "Dict<Int32,String>", {1: b"a", 2: b"b"}),
    ("AsSet", (1, 2, 1), "Set<Int32>", {1: None, 2: None}),
    ("Nothing", (optional(INT32),), "Int32?", None),
    ("Just", (1,), "Int32?", 1),
    ("Just", (value(optional(INT32), None),), "Int32??", Just(None)),
    ("ListCreate", (STRING,), "List<String>", []),
    ("DictCreate", (STRING, INT32), "Dict<String,Int32>", {}),
    ("SetCreate", (STRING,), "Set<String>", {}),
    ("AsTagged", (1, "t"), "Tagged<Int32,'t'>", 1),
    ("AsTagged", (value(optional(INT32), 1), "t"), "Tagged<Int32?,'t'>", 1),
    ("AsTagged", (value(optional(INT32), None), "t"), "Tagged<Int32?,'t'>", None),
    (
        "Variant",
        (6, "b", VariantType(StructType((("a", STRING), ("b", INT32))))),
        "Variant<'a':String,'b':Int32>",
        (1, 6),
    ),
]


@pytest.mark.parametrize(("name", "operands", "kind", "expected"), CONSTRUCTORS)
def test_constructors(name: Any, operands: Any, kind: Any, expected: Any) -> None:
    assert typed(name, *operands) == (kind, expected)


def test_members_of_a_struct_come_by_name() -> None:
    assert typed("AsStruct", b=2, a="x") == ("Struct<'a':String,'b':Int32>", (b"x", 2))


CONDITIONS = [
    ("Coalesce", (null(INT32), 7), "Int32", 7),
    ("NVL", (null(INT32), null(INT32)), "Int32?", None),
    ("Coalesce", (5, 7), "Int32", 5),
    ("Coalesce", (null(INT64), 7), "Int64", 7),
    ("NANVL", (float("nan"), 1.0), "Double", 1.0),
    ("IF", (True, 1, 2), "Int32", 1),
    ("IF", (False, 1), "Int32?", None),
    ("IF", (null(BOOL), 1, 2), "Int32", 2),
    ("Unwrap", (value(optional(INT32), 5),), "Int32", 5),
    ("Unwrap", (value(OptionalType(optional(INT32)), Just(None)),), "Int32?", None),
    ("Ensure", (5, True, "no"), "Int32", 5),
    ("MIN_OF", (1, 2, 3), "Int32", 1),
    ("Greatest", (1, value(INT64, 5), 3), "Int64", 5),
    ("MAX_OF", (1, null(INT32)), "Int32?", None),
]


@pytest.mark.parametrize(("name", "operands", "kind", "expected"), CONDITIONS)
def test_conditions(name: Any, operands: Any, kind: Any, expected: Any) -> None:
    assert typed(name, *operands) == (kind, expected)


STRINGS = [
    ("Length", ("foo",), "Uint32", 3),
    ("LEN", (utf8("жук"),), "Uint32", 6),
    ("Length", (null(STRING),), "Uint32?", None),
    ("Substring", ("abcdefg", 3, 1), "String", b"d"),
    ("Substring", ("abcdefg", 3), "String", b"defg"),
    ("Substring", ("abcdefg", None, 3), "String", b"abc"),
    ("Find", ("abcdefg_abcdefg", "abc"), "Uint32?", 0),
    ("Find", ("abcdefg_abcdefg", "abc", 1), "Uint32?", 8),
    ("Find", ("abcdefg_abcdefg", "abc", 9), "Uint32?", None),
    ("RFind", ("abcdefg_abcdefg", "bcd"), "Uint32?", 9),
    ("RFind", ("abcdefg_abcdefg", "bcd", 8), "Uint32?", 1),
    ("StartsWith", ("abc_efg", "abc"), "Bool", True),
    ("EndsWith", ("abc_efg", "efg"), "Bool", True),
    ("StartsWith", (null(UTF8), "abc"), "Bool?", None),
    ("ByteAt", ("foo", 0), "Uint8?", 102),
    ("ByteAt", ("foo", 3), "Uint8?", None),
    ("TestBit", (value(UINT32, 1), 0), "Bool", True),
    ("SetBit", (value(UINT32, 0), 3), "Uint32", 8),
    ("ClearBit", (value(UINT32, 9), 0), "Uint32", 8),
    ("FlipBit", (value(UINT32, 1), 0), "Uint32", 0),
    ("Abs", (-123,), "Uint32", 123),
    ("Abs", (-1.5,), "Double", 1.5),
    ("ToBytes", (123,), "String", b"\x7b\0\0\0"),
    ("ToBytes", (utf8("é"),), "String", "é".encode()),
    ("FromBytes", (b"\xd2\x02\x96\x49\x00\x00\x00\x00", UINT64), "Uint64?", 1234567890),
    ("FromBytes", (b"\xd2", UINT64), "Uint64?", None),
    (
        "AddTimezone",
        (text(TZ_DATETIME, "2018-02-01T12:00:00,GMT"), "GMT"),
        Fault,
        "Expected Date, Datetime or Timestamp, but got: TzDatetime",
    ),
    ("RemoveTimezone", (text(TZ_DATETIME, "2018-02-01T12:00:00,Europe/Moscow"),), "Datetime", 1517475600),
]


@pytest.mark.parametrize(("name", "operands", "kind", "expected"), STRINGS)
def test_strings(name: Any, operands: Any, kind: Any, expected: Any) -> None:
    if kind is Fault:
        with pytest.raises(Fault, match=expected):
            call(name, *operands)
    else:
        assert typed(name, *operands) == (kind, expected)


TWICE = Fn(lambda x: op("*", x, 2))
SMALL = Fn(lambda x: op("<=", x, 3))
DATA = [1, 2, 5, 1, 2, 7]

LISTS = [
    ("ListLength", (DATA,), "Uint64", 6),
    ("ListLength", (null(ListType(INT32)),), "Uint64?", None),
    ("ListHasItems", ([1],), "Bool", True),
    ("ListReverse", ([1, 2],), "List<Int32>", [2, 1]),
    ("ListHead", (DATA,), "Int32?", 1),
    ("ListLast", (DATA,), "Int32?", 7),
    ("ListHead", ([None, 1],), "Int32??", Just(None)),
    ("ListTake", (DATA, 2), "List<Int32>", [1, 2]),
    ("ListSkip", (DATA, 4), "List<Int32>", [2, 7]),
    ("ListMap", ([1, 2], TWICE), "List<Int32>", [2, 4]),
    ("ListFilter", (DATA, SMALL), "List<Int32>", [1, 2, 1, 2]),
    ("ListFlatMap", ([1, 2], Fn(lambda x: call("AsList", x, x))), "List<Int32>", [1, 1, 2, 2]),
    ("ListTakeWhile", (DATA, SMALL), "List<Int32>", [1, 2]),
    ("ListSkipWhile", (DATA, SMALL), "List<Int32>", [5, 1, 2, 7]),
    ("ListTakeWhileInclusive", (DATA, SMALL), "List<Int32>", [1, 2, 5]),
    ("ListSkipWhileInclusive", (DATA, SMALL), "List<Int32>", [1, 2, 7]),
    ("ListSort", (DATA,), "List<Int32>", [1, 1, 2, 2, 5, 7]),
    ("ListSortDesc", ([1, 3, 2],), "List<Int32>", [3, 2, 1]),
    (
        "ListSort",
        ([("x", 3), ("xx", 1), ("a", 2)], Fn(lambda x: item(x, 1))),
        "List<Tuple<String,Int32>>",
        [(b"xx", 1), (b"a", 2), (b"x", 3)],
    ),
    ("ListFold", ([1, 4, 7, 2], 6, Fn(lambda x, y: op("+", x, y))), "Int32", 20),
    ("ListFold1", ([1, 4, 7, 2], Fn(lambda x: op("*", 4, x)), Fn(lambda x, y: op("+", x, y))), "Int32?", 17),
    (
        "ListFoldMap",
        ([1, 4, 7, 2], 1, Fn(lambda i, s: call("AsTuple", op("*", i, s), op("+", i, s)))),
        "List<Int32>",
        [1, 8, 42, 26],
    ),
    ("ListHas", (DATA, 5), "Bool", True),
    ("ListHas", (DATA, 4), "Bool", False),
    ("ListHas", ([1, None], None), "Bool", True),
    ("ListIndexOf", (DATA, 2), "Uint64?", 1),
    ("ListIndexOf", (DATA, 9), "Uint64?", None),
    ("ListUniq", (DATA,), "List<Int32>", [1, 2, 5, 7]),
    ("ListAny", ([False, True],), "Bool", True),
    ("ListAll", ([False, True],), "Bool", False),
    ("ListExtend", ([1], [2, 3]), "List<Int32>", [1, 2, 3]),
    ("ListExtend", ([1], None), "Null", None),
    ("ListZip", ([1, 2], ["a"]), "List<Tuple<Int32,String>>", [(1, b"a")]),
    ("ListZipAll", ([1, 2], ["a"]), "List<Tuple<Int32?,String?>>", [(1, b"a"), (2, None)]),
    ("ListEnumerate", (["a", "b"],), "List<Tuple<Uint64,String>>", [(0, b"a"), (1, b"b")]),
    ("ListNotNull", ([3, None, 4],), "List<Int32>", [3, 4]),
    ("ListFlatten", ([[1, 2], [3, 4]],), "List<Int32>", [1, 2, 3, 4]),
    ("ListFlatten", ([None, [3, 4]],), "List<Int32>", [3, 4]),
    ("ListConcat", (["a", "b"], "; "), "String?", b"a; b"),
    ("ListSum", ([1, 2],), "Int64?", 3),
    ("ListAvg", ([1, 2],), "Double?", 1.5),
    ("ListMin", ([3, 1],), "Int32?", 1),
    ("ListMax", (value(ListType(INT32), []),), "Int32?", None),
    ("ListFromRange", (-2, 2), "List<Int32>", [-2, -1, 0, 1]),
    ("ListFromRange", (2, 1, -0.5), "List<Double>", [2.0, 1.5]),
    ("ListFromRange", (1, 5, 0), "List<Int32>", []),
    ("ListFromRange", (text(DATE, "2020-01-01"), text(DATE, "2020-01-04")), "List<Date>", [18262, 18263, 18264]),
    (
        "ListFromRange",
        (text(TIMESTAMP, "1970-01-01T00:00:00Z"), text(TIMESTAMP, "1970-01-01T00:00:03Z"), text(INTERVAL, "PT2S")),
        "List<Timestamp>",
        [0, 2_000_000],
    ),
    ("ListReplicate", (True, 3), "List<Bool>", [True, True, True]),
    ("ToDict", ([(1, "a"), (1, "b")],), "Dict<Int32,String>", {1: b"a"}),
    ("ToMultiDict", ([(1, "a"), (1, "b")],), "Dict<Int32,List<String>>", {1: [b"a", b"b"]}),
    ("ToSet", ([1, 1, 2],), "Set<Int32>", {1: None, 2: None}),
]


@pytest.mark.parametrize(("name", "operands", "kind", "expected"), LISTS)
def test_lists(name: Any, operands: Any, kind: Any, expected: Any) -> None:
    assert typed(name, *operands) == (kind, expected)


def setof(*items: Any) -> Any:
    return call("AsSet", *items)


def dictof(*pairs: Any) -> Any:
    return call("AsDict", *pairs)


BOTH = Fn(lambda k, a, b: call("AsTuple", a, b))

DICTS = [
    ("DictLength", (dictof((1, 2)),), "Uint64", 1),
    ("DictHasItems", (dictof((1, 2)),), "Bool", True),
    ("DictItems", (dictof((1, "a")),), "List<Tuple<Int32,String>>", [(1, b"a")]),
    ("DictKeys", (dictof((1, "a")),), "List<Int32>", [1]),
    ("DictPayloads", (dictof((1, "a")),), "List<String>", [b"a"]),
    ("DictLookup", (dictof((1, "a")), 1), "String?", b"a"),
    ("DictLookup", (dictof((1, "a")), 2), "String?", None),
    ("DictContains", (dictof((1, "a")), 2), "Bool", False),
    ("SetIsDisjoint", (setof(1, 2, 3), [7, 4]), "Bool", True),
    ("SetIsDisjoint", (setof(1, 2, 3), setof(3, 4)), "Bool", False),
    ("SetIncludes", (setof(1, 2, 3), [3, 4]), "Bool", False),
    ("SetIncludes", (setof(1, 2, 3), setof(2, 3)), "Bool", True),
    ("SetIntersection", (setof(1, 2, 3), setof(3, 4)), "Set<Int32>", {3: None}),
    (
        "SetIntersection",
        (dictof((1, "foo"), (3, "bar")), dictof((1, "baz"), (2, "qwe")), BOTH),
        "Dict<Int32,Tuple<String,String>>",
        {1: (b"foo", b"baz")},
    ),
    ("SetUnion", (setof(1, 2), setof(3)), "Set<Int32>", {1: None, 2: None, 3: None}),
    (
        "SetUnion",
        (dictof((1, "foo"), (3, "bar")), dictof((1, "baz"), (2, "qwe")), BOTH),
        "Dict<Int32,Tuple<String?,String?>>",
        {1: (b"foo", b"baz"), 2: (None, b"qwe"), 3: (b"bar", None)},
    ),
    ("SetDifference", (dictof((1, "foo"), (2, "bar")), setof(2, 3)), "Dict<Int32,String>", {1: b"foo"}),
    ("SetSymmetricDifference", (setof(1, 2, 3), setof(3, 4)), "Set<Int32>", {1: None, 2: None, 4: None}),
]


@pytest.mark.parametrize(("name", "operands", "kind", "expected"), DICTS)
def test_dicts(name: Any, operands: Any, kind: Any, expected: Any) -> None:
    assert typed(name, *operands) == (kind, expected)


AB = call("AsStruct", a=1, b=2)
SUM = Fn(lambda name, left, right: op("+", call("NVL", left, 0), call("NVL", right, 0)))
LEFT, RIGHT = call("AsStruct", a=1, b=2, c=3), call("AsStruct", c=1, d=2, e=3)

STRUCTS = [
    ("TryMember", (AB, "a", 123), {}, "Int32", 1),
    ("TryMember", (AB, "z", 123), {}, "Int32", 123),
    ("ExpandStruct", (AB,), {"c": "3"}, "Struct<'a':Int32,'b':Int32,'c':String>", (1, 2, b"3")),
    ("AddMember", (AB, "c", 3), {}, "Struct<'a':Int32,'b':Int32,'c':Int32>", (1, 2, 3)),
    ("RemoveMember", (AB, "a"), {}, "Struct<'b':Int32>", (2,)),
    ("ForceRemoveMember", (AB, "z"), {}, "Struct<'a':Int32,'b':Int32>", (1, 2)),
    ("RemoveMembers", (AB, ["a"]), {}, "Struct<'b':Int32>", (2,)),
    ("ForceRemoveMembers", (AB, ["a", "z"]), {}, "Struct<'b':Int32>", (2,)),
    ("ReplaceMember", (AB, "a", "x"), {}, "Struct<'a':String,'b':Int32>", (b"x", 2)),
    ("ChooseMembers", (AB, ["b"]), {}, "Struct<'b':Int32>", (2,)),
    ("CombineMembers", (AB, call("AsStruct", c=3)), {}, "Struct<'a':Int32,'b':Int32,'c':Int32>", (1, 2, 3)),
    ("FlattenMembers", (("x", AB), ("y", AB)), {}, "Struct<'xa':Int32,'xb':Int32,'ya':Int32,'yb':Int32>", (1, 2, 1, 2)),
    ("StructMembers", (AB,), {}, "List<String>", [b"a", b"b"]),
    ("RenameMembers", (AB, [("a", "c"), ("a", "e")]), {}, "Struct<'b':Int32,'c':Int32,'e':Int32>", (2, 1, 1)),
    ("ForceRenameMembers", (AB, [("a", "c"), ("d", "e")]), {}, "Struct<'b':Int32,'c':Int32>", (2, 1)),
    ("GatherMembers", (AB,), {}, "List<Tuple<String,Int32>>", [(b"a", 1), (b"b", 2)]),
    ("SpreadMembers", ([("a", 1), ("a", 2)], ["a", "b"]), {}, "Struct<'a':Int32?,'b':Int32?>", (2, None)),
    ("ForceSpreadMembers", ([("a", 2), ("c", 9)], ["a", "b"]), {}, "Struct<'a':Int32?,'b':Int32?>", (2, None)),
    ("StructUnion", (LEFT, RIGHT), {}, "Struct<'a':Int32,'b':Int32,'c':Int32,'d':Int32,'e':Int32>", (1, 2, 3, 2, 3)),
    (
        "StructUnion",
        (LEFT, RIGHT, SUM),
        {},
        "Struct<'a':Int32,'b':Int32,'c':Int32,'d':Int32,'e':Int32>",
        (1, 2, 4, 2, 3),
    ),
    ("StructIntersection", (LEFT, RIGHT, SUM), {}, "Struct<'c':Int32>", (4,)),
    ("StructDifference", (LEFT, RIGHT), {}, "Struct<'a':Int32,'b':Int32>", (1, 2)),
    ("StructSymmetricDifference", (LEFT, RIGHT), {}, "Struct<'a':Int32,'b':Int32,'d':Int32,'e':Int32>", (1, 2, 2, 3)),
    ("VariantItem", (call("AsVariant", 1, "x"),), {}, "Int32", 1),
    ("Way", (call("AsVariant", 1, "x"),), {}, "Utf8", "x"),
]


@pytest.mark.parametrize(("name", "operands", "named", "kind", "expected"), STRUCTS)
def test_structs(name: Any, operands: Any, named: Any, kind: Any, expected: Any) -> None:
    assert typed(name, *operands, **named) == (kind, expected)


def test_the_clock_is_read_once() -> None:
    assert typed("CurrentUtcTimestamp") == ("Timestamp", NOW)
    assert typed("CurrentUtcDatetime") == ("Datetime", NOW // 1_000_000)
    assert typed("CurrentUtcDate", 1, 2) == ("Date", NOW // 86_400_000_000)
    assert typed("CurrentTzDatetime", "Europe/Moscow") == ("TzDatetime", (NOW // 1_000_000, "Europe/Moscow"))
    assert not call("CurrentUtcDate").constant


def test_random_numbers_come_from_the_run() -> None:
    assert call("Random", 1).evaluate((), run(7)) == call("Random", 2).evaluate((), run(7))
    assert 0 <= result("RandomNumber") < 2**64
    drawn = result("RandomUuid")
    assert len(drawn) == 16 and drawn[7] >> 4 == 4 and drawn[8] >> 6 == 2
    assert sorted(result("ListShuffle", DATA)) == sorted(DATA)
    assert len(result("ListSampleN", DATA, 2)) == 2


def test_types_of_types() -> None:
    assert result("FormatType", call("TypeOf", "x")) == b"String"
    assert result("FormatType", call("OptionalType", call("DataType", "Int32"))) == b"Optional<Int32>"
    assert result("FormatType", call("DataType", "Decimal", "22", "9")) == b"Decimal(22,9)"
    assert result("FormatType", call("ListItemType", call("TypeOf", [1]))) == b"Int32"
    assert result("FormatType", call("StructType", b=DOUBLE, a=UTF8)) == b"Struct<'a':Utf8,'b':Double>"
    assert result("FormatType", call("TupleElementType", TupleType((INT32, UTF8)), "1")) == b"Utf8"


REFUSED = [
    ("Date", ("2019-13-01",), 'Invalid value "2019-13-01" for type Date'),
    ("Interval", ("P1M",), 'Invalid value "P1M" for type Interval'),
    ("Date", (1,), "Expected literal string as argument in Date function"),
    ("Decimal", ("1", 40, 9), "Invalid decimal precision: 40"),
    ("Nothing", (INT32,), "Expected optional type, but got: Int32"),
    ("Unwrap", (1,), "Expected optional type, but got: Int32"),
    ("Length", (1,), "Mismatch type argument #1, type diff: Int32 != String"),
    ("Length", (), r"Expected 1 argument\(s\), but got 0"),
    ("ListLength", ("x",), "Expected list type, but got: String"),
    ("AsList", (1, "x"), "Cannot infer common type for Int32 and String"),
    ("RemoveMember", (AB, "z"), "Unknown member name: z"),
    ("AddMember", (AB, "a", 1), "Duplicated member: a"),
    ("AsSet", ([1],), "Dict with keys of type List<Int32> is not supported"),
]


@pytest.mark.parametrize(("name", "operands", "message"), REFUSED)
def test_refused(name: Any, operands: Any, message: Any) -> None:
    with pytest.raises(Fault, match=f"^{message}$") as caught:
        call(name, *operands)
    assert caught.value.status == "GENERIC_ERROR"
    assert caught.value.issues[0].position == HERE


def test_failures_while_running() -> None:
    with pytest.raises(Fault, match=r"^Failed to unwrap empty optional: gone$"):
        result("Unwrap", null(INT32), "gone")
    with pytest.raises(Fault, match=r"^no way$"):
        result("Ensure", 1, False, "no way")


def test_unknown_names() -> None:
    assert find("NoSuchThing") is None
    assert find("Nowhere::Nothing") is None
    assert find_aggregate("ListLength") is None
    assert aggregated("count", [INT32], [(1,)]) == ("Uint64", 1)


@pytest.mark.parametrize("name", ["DateTime::Nothing", "Url::Nothing", "FileContent", "Digest::HighwayHash"])
def test_unsupported_functions_are_refused_by_name(name: str) -> None:
    with pytest.raises(Fault, match=f"^Function {name} is not supported$"):
        call(name, "x")


def test_unsupported_aggregates_are_refused_by_name() -> None:
    with pytest.raises(Fault, match=r"^Function RANDOM_SAMPLE is not supported$"):
        aggregated("RANDOM_SAMPLE", [INT32], [])
