"""Types and values on the wire: what is packed by hand is what protobuf would say, and it comes back as it was."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from random import Random
from typing import Any

import pytest

from mayflydb.frontends.ydb.descriptors import message
from mayflydb.frontends.ydb.packing import rows_encoder
from mayflydb.frontends.ydb.values import (
    columns_field,
    decode_type,
    decode_typed_value,
    decoder,
    encode_type,
    encode_typed_value,
    encoder,
)
from mayflydb.query.yql.faults import Fault
from mayflydb.query.yql.types import (
    BOOL,
    DATE,
    DATETIME,
    DECIMAL_INF,
    DECIMAL_NAN,
    DOUBLE,
    DYNUMBER,
    EMPTY_DICT,
    EMPTY_LIST,
    FLOAT,
    INT8,
    INT32,
    INT64,
    INTERVAL,
    JSON,
    JSON_DOCUMENT,
    NULL,
    PRIMITIVES,
    STRING,
    TIMESTAMP,
    TZ_DATE32,
    TZ_TIMESTAMP,
    UINT8,
    UINT32,
    UINT64,
    UTF8,
    UUID,
    VOID,
    YSON,
    DecimalType,
    DictType,
    Just,
    ListType,
    OptionalType,
    StructType,
    TaggedType,
    TupleType,
    Type,
    Value,
    VariantType,
)

TypeMessage = message("Ydb.Type")
ValueMessage = message("Ydb.Value")
ResultSet = message("Ydb.ResultSet")

TYPES: list[tuple[Type, str]] = [
    (UINT64, "type_id: UINT64"),
    (DYNUMBER, "type_id: DYNUMBER"),
    (DecimalType(22, 9), "decimal_type { precision: 22 scale: 9 }"),
    (DecimalType(5, 0), "decimal_type { precision: 5 }"),
    (OptionalType(UTF8), "optional_type { item { type_id: UTF8 } }"),
    (ListType(INT32), "list_type { item { type_id: INT32 } }"),
    (TupleType((INT32, UTF8)), "tuple_type { elements { type_id: INT32 } elements { type_id: UTF8 } }"),
    (TupleType(()), "tuple_type { }"),
    (StructType((("a", INT32),)), 'struct_type { members { name: "a" type { type_id: INT32 } } }'),
    (DictType(UTF8, VOID), "dict_type { key { type_id: UTF8 } payload { void_type: NULL_VALUE } }"),
    (VariantType(TupleType((INT32,))), "variant_type { tuple_items { elements { type_id: INT32 } } }"),
    (
        VariantType(StructType((("a", INT32),))),
        'variant_type { struct_items { members { name: "a" type { type_id: INT32 } } } }',
    ),
    (TaggedType("t", INT32), 'tagged_type { tag: "t" type { type_id: INT32 } }'),
    (VOID, "void_type: NULL_VALUE"),
    (NULL, "null_type: NULL_VALUE"),
    (EMPTY_LIST, "empty_list_type: NULL_VALUE"),
    (EMPTY_DICT, "empty_dict_type: NULL_VALUE"),
]


def parsed(kind: Any, text: str) -> Any:
    from google.protobuf import text_format

    return text_format.Parse(text, kind())


@pytest.mark.parametrize(("type", "text"), TYPES, ids=lambda each: str(each)[:40])
def test_types_both_ways(type: Type, text: str) -> None:
    expected = parsed(TypeMessage, text)
    assert TypeMessage.FromString(encode_type(type)) == expected
    assert decode_type(expected) == type


def test_every_primitive_type_has_the_number_of_the_protocol() -> None:
    numbers = TypeMessage.DESCRIPTOR.enum_types_by_name["PrimitiveTypeId"].values_by_name
    names = {name.replace("_", "").lower(): value.number for name, value in numbers.items() if value.number}
    # The messages have no names for the wide types with a zone.
    names |= {"tzdate32": 0x44, "tzdatetime64": 0x45, "tztimestamp64": 0x46}
    assert {name.lower() for name in PRIMITIVES} == set(names)
    for name, type in PRIMITIVES.items():
        assert TypeMessage.FromString(encode_type(type)).type_id == names[name.lower()]


@pytest.mark.parametrize(
    ("text", "status", "said"),
    [
        ("", "BAD_REQUEST", "a type is missing"),
        ("decimal_type { precision: 36 }", "BAD_REQUEST", "Invalid decimal type"),
        ("decimal_type { precision: 3 scale: 4 }", "BAD_REQUEST", "Invalid decimal type"),
        ("optional_type { }", "BAD_REQUEST", "a type is missing"),
        ("pg_type { oid: 23 }", "UNSUPPORTED", "PostgreSQL"),
    ],
)
def test_types_that_are_none(text: str, status: str, said: str) -> None:
    with pytest.raises(Fault, match=said) as raised:
        decode_type(parsed(TypeMessage, text))
    assert raised.value.status == status


VALUES: list[tuple[Type, Value, str]] = [
    (BOOL, True, "bool_value: true"),
    (BOOL, False, "bool_value: false"),
    (INT8, -128, "int32_value: -128"),
    (UINT8, 0, "uint32_value: 0"),
    (INT64, -1, "int64_value: -1"),
    (UINT64, (1 << 64) - 1, "uint64_value: 18446744073709551615"),
    (FLOAT, 0.5, "float_value: 0.5"),
    (DOUBLE, math.inf, "double_value: inf"),
    (STRING, b"", 'bytes_value: ""'),
    (STRING, b"\xff" * 200, 'bytes_value: "' + "\\377" * 200 + '"'),
    (YSON, b"{}", 'bytes_value: "{}"'),
    (UTF8, "Größe", 'text_value: "Größe"'),
    (JSON, '{"a": 1}', "text_value: '{\"a\": 1}'"),
    (DATE, 21_915, "uint32_value: 21915"),
    (DATETIME, 1, "uint32_value: 1"),
    (TIMESTAMP, 1_893_456_000_000_000, "uint64_value: 1893456000000000"),
    (INTERVAL, -1, "int64_value: -1"),
    (TZ_TIMESTAMP, (1_893_456_000_000_000, "Europe/Moscow"), 'text_value: "2030-01-01T03:00:00,Europe/Moscow"'),
    (DecimalType(22, 9), 1_500_000_000, "low_128: 1500000000 high_128: 0"),
    (DecimalType(22, 9), 0, "low_128: 0"),
    (DecimalType(22, 9), -1, "low_128: 18446744073709551615 high_128: 18446744073709551615"),
    (DecimalType(35, 0), DECIMAL_INF, "low_128: 3136633892082024448 high_128: 5421010862427522"),
    (DecimalType(35, 0), DECIMAL_NAN, "low_128: 3136633892082024449 high_128: 5421010862427522"),
    (UUID, b"\1" + bytes(15), "low_128: 1"),
    (UUID, bytes(15) + b"\1", "low_128: 0 high_128: 72057594037927936"),
    (UUID, bytes(range(16)), "low_128: 506097522914230528 high_128: 1084818905618843912"),
    (DYNUMBER, Decimal("3.14"), 'text_value: ".314e1"'),
    (OptionalType(INT32), None, "null_flag_value: NULL_VALUE"),
    (OptionalType(INT32), 0, "int32_value: 0"),
    (OptionalType(OptionalType(INT32)), None, "null_flag_value: NULL_VALUE"),
    (OptionalType(OptionalType(INT32)), Just(None), "nested_value { null_flag_value: NULL_VALUE }"),
    (OptionalType(OptionalType(INT32)), Just(7), "nested_value { int32_value: 7 }"),
    (ListType(INT32), [1, 2], "items { int32_value: 1 } items { int32_value: 2 }"),
    (ListType(INT32), [], ""),
    (TupleType((INT32, UTF8)), (1, "a"), 'items { int32_value: 1 } items { text_value: "a" }'),
    (StructType((("b", INT32), ("a", UTF8))), (1, "a"), 'items { int32_value: 1 } items { text_value: "a" }'),
    (DictType(UTF8, INT32), {"a": 1}, 'pairs { key { text_value: "a" } payload { int32_value: 1 } }'),
    (DictType(UTF8, VOID), {"a": None}, 'pairs { key { text_value: "a" } payload { null_flag_value: NULL_VALUE } }'),
    (VariantType(TupleType((INT32, UTF8))), (1, "a"), 'nested_value { text_value: "a" } variant_index: 1'),
    (TaggedType("t", INT32), 5, "int32_value: 5"),
    (TaggedType("t", OptionalType(INT32)), 5, "int32_value: 5"),
    (TaggedType("t", OptionalType(INT32)), None, "null_flag_value: NULL_VALUE"),
    (OptionalType(TaggedType("t", OptionalType(INT32))), None, "null_flag_value: NULL_VALUE"),
    (OptionalType(TaggedType("t", OptionalType(INT32))), Just(None), "nested_value { null_flag_value: NULL_VALUE }"),
    (OptionalType(TaggedType("t", OptionalType(INT32))), Just(7), "nested_value { int32_value: 7 }"),
    (TZ_DATE32, (-53_375_809, "UTC"), 'text_value: "-144169-01-01,UTC"'),
    (VOID, None, "null_flag_value: NULL_VALUE"),
    (NULL, None, "null_flag_value: NULL_VALUE"),
    (EMPTY_LIST, [], ""),
    (EMPTY_DICT, {}, ""),
]


@pytest.mark.parametrize(("type", "value", "text"), VALUES, ids=lambda each: str(each)[:40])
def test_values_both_ways(type: Type, value: Value, text: str) -> None:
    expected = parsed(ValueMessage, text)
    assert ValueMessage.FromString(encoder(type)(value)) == expected
    assert encoder(type)(value) == expected.SerializeToString(deterministic=True)
    assert decoder(type)(expected) == value


@pytest.mark.parametrize(
    ("type", "text", "said"),
    [
        (INT32, "", "Int32, found nothing"),
        (INT32, "int64_value: 1", "Int32, found int64_value"),
        (INT32, "null_flag_value: NULL_VALUE", "Int32, found null_flag_value"),
        (OptionalType(INT32), "", "found nothing"),
        (INT8, "int32_value: 128", "out of range"),
        (UINT8, "uint32_value: 256", "out of range"),
        (DATE, "uint32_value: 49673", "out of range"),
        (TIMESTAMP, "uint64_value: 4291747200000000", "out of range"),
        (DecimalType(3, 1), "low_128: 1000", "out of range"),
        (DecimalType(3, 1), "int32_value: 1", "found int32_value"),
        (UTF8, "bytes_value: 'a'", "found bytes_value"),
        (JSON, "text_value: '{'", "Invalid Json value"),
        (DYNUMBER, "text_value: 'x'", "Invalid DyNumber value"),
        (TupleType((INT32, INT32)), "items { int32_value: 1 }", "number of items"),
        (VariantType(TupleType((INT32,))), "variant_index: 1 nested_value { int32_value: 1 }", "Invalid value"),
    ],
)
def test_values_that_are_none(type: Type, text: str, said: str) -> None:
    with pytest.raises(Fault, match=said) as raised:
        decoder(type)(parsed(ValueMessage, text))
    assert raised.value.status == "BAD_REQUEST"


def test_a_client_that_writes_no_level_around_what_is_there_is_understood() -> None:
    type = OptionalType(OptionalType(INT32))
    assert decoder(type)(parsed(ValueMessage, "int32_value: 7")) == Just(7)


def test_documents_are_kept_in_their_own_form() -> None:
    found = decoder(JSON_DOCUMENT)(parsed(ValueMessage, 'text_value: \'{"b": 1, "a": [1, 2]}\''))
    assert found == '{"a":[1,2],"b":1}'


SIMPLE: dict[Type, Callable[[Random], Value]] = {
    BOOL: lambda chance: chance.random() < 0.5,
    INT8: lambda chance: chance.randrange(-128, 128),
    INT32: lambda chance: chance.choice([0, -1, (1 << 31) - 1, -(1 << 31), chance.randrange(1000)]),
    UINT32: lambda chance: chance.getrandbits(32),
    INT64: lambda chance: chance.getrandbits(64) - (1 << 63),
    UINT64: lambda chance: chance.choice([0, chance.getrandbits(64)]),
    DOUBLE: lambda chance: chance.uniform(-1e300, 1e300),
    STRING: lambda chance: chance.randbytes(chance.choice([0, 1, 127, 128, 300])),
    UTF8: lambda chance: "".join(chance.choice("aä€😀\0\n") for _ in range(chance.choice([0, 1, 40, 200]))),
    DATE: lambda chance: chance.randrange(49_673),
    TIMESTAMP: lambda chance: chance.randrange(4_291_747_200_000_000),
    UUID: lambda chance: chance.randbytes(16),
    DecimalType(22, 9): lambda chance: chance.randrange(-(10**22) + 1, 10**22),
}


def drawn_type(chance: Random, depth: int = 0) -> Type:
    if depth > 3 or chance.random() < 0.5:
        return chance.choice(list(SIMPLE))
    inner = [drawn_type(chance, depth + 1) for _ in range(chance.randrange(1, 4))]
    named = StructType(tuple((f"m{number}", each) for number, each in enumerate(inner)))
    return chance.choice(
        [
            OptionalType(inner[0]),
            ListType(inner[0]),
            TupleType(tuple(inner)),
            named,
            DictType(chance.choice([UTF8, INT32, UUID]), inner[0]),
            VariantType(named),
        ]
    )


def drawn_value(chance: Random, type: Type) -> Value:
    match type:
        case OptionalType(item):
            if chance.random() < 0.3:
                return None
            inner = drawn_value(chance, item)
            return Just(inner) if isinstance(item, OptionalType) else inner
        case ListType(item):
            return [drawn_value(chance, item) for _ in range(chance.randrange(4))]
        case TupleType(items):
            return tuple(drawn_value(chance, each) for each in items)
        case StructType(members):
            return tuple(drawn_value(chance, each) for _, each in members)
        case DictType(key, payload):
            return {drawn_value(chance, key): drawn_value(chance, payload) for _ in range(chance.randrange(4))}
        case VariantType(StructType(members)):
            index = chance.randrange(len(members))
            return index, drawn_value(chance, members[index][1])
    return SIMPLE[type](chance)


def test_values_of_any_type_come_back(chance: Random) -> None:
    for _ in range(400):
        type = drawn_type(chance)
        value = drawn_value(chance, type)
        typed = message("Ydb.TypedValue").FromString(encode_typed_value(type, value))
        assert decode_typed_value(typed) == (type, value)
        # What protobuf itself would write means the same.
        again = message("Ydb.TypedValue").FromString(typed.SerializeToString())
        assert decode_typed_value(again) == (type, value)


def test_rows_are_those_of_protobuf(chance: Random) -> None:
    for _ in range(50):
        types = [drawn_type(chance) for _ in range(chance.randrange(1, 5))]
        columns = [(f"c{number}", type) for number, type in enumerate(types)]
        rows = [tuple(drawn_value(chance, type) for type in types) for _ in range(chance.randrange(5))]
        expected = ResultSet()
        for name, type in columns:
            expected.columns.add(name=name).type.ParseFromString(encode_type(type))
        for row in rows:
            items = expected.rows.add().items
            for type, value in zip(types, row, strict=True):
                items.add().ParseFromString(encoder(type)(value))
        packed = columns_field(columns) + rows_encoder(types)(rows)
        assert ResultSet.FromString(packed) == expected
        assert packed == expected.SerializeToString(deterministic=True)
