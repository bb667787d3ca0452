"""Types by their names, as they are written in queries."""

from __future__ import annotations

import pytest

from mayflydb.query.yql import names
from mayflydb.query.yql.faults import Fault
from mayflydb.query.yql.parser import parse_type
from mayflydb.query.yql.types import INT16, INT32, INT64, PRIMITIVES, Type

READ = [
    *((name, name) for name in PRIMITIVES),
    ("UINT64", "Uint64"),
    ("uint64", "Uint64"),
    ("TEXT", "Utf8"),
    ("BYTES", "String"),
    ("INT", "Int32"),
    ("BigInt", "Int64"),
    ("TzDateTime", "TzDatetime"),
    ("TzDateTime64", "TzDatetime64"),
    ("jsondocument", "JsonDocument"),
    ("Uint64?", "Uint64?"),
    ("Uint64??", "Uint64??"),
    ("Optional<Int32>", "Int32?"),
    ("Decimal(22, 9)", "Decimal(22,9)"),
    ("Decimal(35,35)", "Decimal(35,35)"),
    ("Decimal", "Decimal(22,9)"),
    ("List<Struct<id:Uint64,name:Utf8?>>", "List<Struct<'id':Uint64,'name':Utf8?>>"),
    ("Struct<`a b`:Int32>", "Struct<'a b':Int32>"),
    ("Struct<>", "Struct<>"),
    ("Tuple<>", "Tuple<>"),
    ("Tuple<Int32,List<Utf8>>", "Tuple<Int32,List<Utf8>>"),
    ("Dict<Utf8,Int32>", "Dict<Utf8,Int32>"),
    ("Set<Utf8>", "Set<Utf8>"),
    ("Variant<Int32,Utf8>", "Variant<Int32,Utf8>"),
    ("Variant<a:Int32,b:Utf8>", "Variant<'a':Int32,'b':Utf8>"),
    ("Enum<'a','b'>", "Variant<'a':Void,'b':Void>"),
    ("Tagged<Int32,'t'>", "Tagged<Int32,'t'>"),
    ("Void", "Void"),
    ("Null", "Null"),
    ("EmptyList", "EmptyList"),
    ("EmptyDict", "EmptyDict"),
]


@pytest.mark.parametrize(("text", "type"), READ)
def test_resolve(text: str, type: str) -> None:
    assert str(names.resolve_type(parse_type(text))) == type


REFUSED = [
    ("Foo", "Unknown type: 'Foo'"),
    ("List<Foo>", "Unknown type: 'Foo'"),
    ("Serial", "Unknown type: 'Serial'"),
    ("Decimal(0, 0)", "Invalid decimal precision: 0"),
    ("Decimal(36, 0)", "Invalid decimal precision: 36"),
    ("Decimal(5, 6)", "Invalid decimal parameters: (5, 6)"),
    ("Struct<a:Int32,a:Utf8>", "Duplicated member: a"),
    ("Callable<(Int32)->Int32>", "Type Callable is not supported"),
    ("Stream<Int32>", "Type Stream is not supported"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_refused_types(text: str, message: str) -> None:
    with pytest.raises(Fault) as refusal:
        names.resolve_type(parse_type(text))
    assert str(refusal.value) == message


SERIALS: list[tuple[str, Type | None]] = [
    ("Serial", INT32),
    ("SERIAL4", INT32),
    ("SmallSerial", INT16),
    ("serial2", INT16),
    ("BigSerial", INT64),
    ("serial8", INT64),
    ("Int32", None),
]


@pytest.mark.parametrize(("text", "type"), SERIALS)
def test_serials(text: str, type: Type | None) -> None:
    assert names.find_serial_type(parse_type(text)) == type
