"""Parameters: the types that a client may send for a declared type, and the parameters that it may omit."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mayflydb.query.yql.faults import WARNING, Fault
from mayflydb.query.yql.types import (
    INT64,
    UINT64,
    UTF8,
    DictType,
    Just,
    ListType,
    OptionalType,
    StructType,
    TaggedType,
    TupleType,
    Type,
    VariantType,
)
from query.yql.asking import shop
from query.yql.memory_tables import answer, plan_of

SENT = StructType((("w", UTF8), ("id", UINT64)))
DECLARED = "Struct<id:Uint64,w:Utf8>"


def over(*items: Type) -> VariantType:
    return VariantType(TupleType(items))


# Members of structs are told apart by name, wherever a struct stands in a type: what is declared, sent, read.
ARRANGED: list[tuple[str, Type, Any, str, Any]] = [
    (f"List<{DECLARED}>", ListType(SENT), [("x", 1), ("y", 2)], "ListMap($r, ($s) -> ($s.id))", [1, 2]),
    (f"{DECLARED}?", OptionalType(SENT), ("x", 1), "$r.id", 1),
    (f"{DECLARED}?", OptionalType(SENT), None, "$r.id", None),
    (f"{DECLARED}??", OptionalType(OptionalType(SENT)), Just(("x", 1)), "Unwrap($r).id", 1),
    (f"{DECLARED}??", OptionalType(OptionalType(SENT)), Just(None), "Unwrap($r).id", None),
    (
        f"Struct<a:Int64,b:Tuple<{DECLARED},Int64>>",
        StructType((("b", TupleType((SENT, INT64))), ("a", INT64))),
        ((("x", 1), 5), 7),
        "($r.b.0.w, $r.b.0.id, $r.b.1, $r.a)",
        ("x", 1, 5, 7),
    ),
    (f"Dict<Int64,{DECLARED}>", DictType(INT64, SENT), {5: ("x", 1)}, "($r[5].w, $r[5].id)", ("x", 1)),
    (f"Dict<{DECLARED},Int64>", DictType(SENT, INT64), {("x", 1): 5}, "DictKeys($r)[0].id", 1),
    (
        f"Variant<one:{DECLARED},two:Int64>",
        VariantType(StructType((("two", INT64), ("one", SENT)))),
        (1, ("x", 1)),
        "$r",
        (0, (1, "x")),
    ),
    (f"Variant<Int64,{DECLARED}>", over(INT64, SENT), (1, ("x", 1)), "$r", (1, (1, "x"))),
    (f"Tagged<{DECLARED},'t'>", TaggedType("t", SENT), ("x", 1), "Untag($r, 't').id", 1),
]


@pytest.mark.parametrize(("declared", "type", "value", "read", "expected"), ARRANGED)
def test_struct_members_are_told_apart_by_name(declared: str, type: Type, value: Any, read: str, expected: Any) -> None:
    text = f"DECLARE $r AS {declared}; SELECT {read}"
    assert asyncio.run(answer(text, shop(), {"r": (type, value)}))[-1] == [(expected,)]


def test_rows_are_written_by_name() -> None:
    tables = shop()
    text = "DECLARE $r AS List<Struct<id:Uint64,w:Utf8>>; UPSERT INTO u SELECT * FROM AS_TABLE($r)"
    asyncio.run(answer(text, tables, {"r": (ListType(SENT), [("nine", 9), ("ten", 10)])}))
    assert tables.rows["/local/u"][-2:] == [{"id": 9, "w": "nine"}, {"id": 10, "w": "ten"}]


MISMATCHES: list[tuple[str, Type, Any]] = [
    (DECLARED, StructType((("w", UTF8), ("key", UINT64))), ("x", 1)),
    (DECLARED, StructType((("w", UTF8), ("id", INT64))), ("x", 1)),
    (DECLARED, StructType((("w", UTF8),)), ("x",)),
    (f"Tuple<{DECLARED},Int64>", TupleType((SENT,)), (("x", 1),)),
    (f"List<{DECLARED}>", SENT, ("x", 1)),
    (f"Tagged<{DECLARED},'t'>", TaggedType("u", SENT), ("x", 1)),
    (f"Variant<{DECLARED},Int64>", over(SENT, INT64, INT64), (2, 1)),
    (f"Variant<a:{DECLARED}>", over(SENT), (0, ("x", 1))),
    (f"Dict<Int64,{DECLARED}>", DictType(UTF8, SENT), {}),
]


@pytest.mark.parametrize(("declared", "type", "value"), MISMATCHES)
def test_other_differences_are_mismatches(declared: str, type: Type, value: Any) -> None:
    with pytest.raises(Fault) as caught:
        asyncio.run(answer(f"DECLARE $r AS {declared}; SELECT $r", shop(), {"r": (type, value)}))
    assert caught.value.status == "BAD_REQUEST"
    assert caught.value.message.startswith("Parameter $r type mismatch, expected: ")


# What is declared; what is sent; warnings as (row:column, text).
UNUSED: list[tuple[str, dict[str, Any], list[tuple[str, str]]]] = [
    ("DECLARE $x AS Uint64; SELECT 1", {}, [("1:1", "Symbol $x is not used")]),
    ("DECLARE $x AS Uint64; SELECT 1", {"x": (UINT64, 5)}, [("1:1", "Symbol $x is not used")]),
    ("DECLARE $x AS Uint64; $y = $x + 1; SELECT 1", {}, [("1:1", "Symbol $x is not used")]),
    ("DECLARE $_x AS Uint64; SELECT 1", {}, []),
    ("DECLARE $x AS Uint64; SELECT $x", {"x": (UINT64, 5)}, []),
    (
        "DECLARE $x AS Uint64;\n DECLARE $y AS Utf8;\nSELECT 1",
        {},
        [("1:1", "Symbol $x is not used"), ("2:2", "Symbol $y is not used")],
    ),
]


@pytest.mark.parametrize(("text", "sent", "warnings"), UNUSED)
def test_unused_parameters_may_be_omitted(text: str, sent: dict[str, Any], warnings: list[tuple[str, str]]) -> None:
    assert len(asyncio.run(answer(text, shop(), sent))[-1]) == 1
    found = plan_of(text, shop(), sent).warnings
    assert {(each.severity, each.code) for each in found} <= {(WARNING, 4527)}
    told = [(each.position, each.message) for each in found]
    assert [(f"{place.row}:{place.column}", message) for place, message in told if place] == warnings


def test_used_parameters_must_be_sent() -> None:
    with pytest.raises(Fault, match=r"Missing value for parameter: \$x"):
        asyncio.run(answer("DECLARE $x AS Uint64; DECLARE $y AS Uint64; SELECT $x", shop(), {}))
