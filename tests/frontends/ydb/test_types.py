"""Each primitive type of YDB is known wherever types are told apart; a failure names the place that misses one."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from types import ModuleType, SimpleNamespace

import pytest

from mayflydb.cli.ydb import json_values
from mayflydb.engine.catalog import Node
from mayflydb.evaluation.statement import HERE
from mayflydb.frontends.ydb import arrow, packing, values, wire
from mayflydb.frontends.ydb.descriptors import enum_name, message, pool
from mayflydb.frontends.ydb.rows import RowLayout
from mayflydb.frontends.ydb.schemes import defaults
from mayflydb.frontends.ydb.schemes.columns import NON_KEY_TYPES, NON_STORED_TYPES, parse_stored_type
from mayflydb.frontends.ydb.schemes.definitions import TtlPolicy, new_table
from mayflydb.frontends.ydb.schemes.faults import Invalid
from mayflydb.frontends.ydb.schemes.specs import ColumnSpec, TableSpec
from mayflydb.frontends.ydb.schemes.views import table_view
from mayflydb.query.yql import texts
from mayflydb.query.yql.comparison import find_order, sort_key
from mayflydb.query.yql.faults import Fault
from mayflydb.query.yql.keys import decode_key, encode_key
from mayflydb.query.yql.types import PRIMITIVES, UINT64, OptionalType, Primitive, Value

ZONE = "Europe/Berlin"
WIRE_TYPES, UNSPECIFIED = "Ydb.Type.PrimitiveTypeId", "PRIMITIVE_TYPE_ID_UNSPECIFIED"

EXAMPLES: dict[str, tuple[Value, Value, str]] = {
    # Two values in the order of the type, where it has one, and the text of the first.
    "Bool": (False, True, "false"),
    **{f"Int{bits}": (-1, 1, "-1") for bits in (8, 16, 32, 64)},
    **{f"Uint{bits}": (1, 2, "1") for bits in (8, 16, 32, 64)},
    "Float": (0.5, 1.5, "0.5"),
    "Double": (0.5, 1.5, "0.5"),
    "String": (b"a", b"b", "a"),
    "Utf8": ("a", "b", "a"),
    "Yson": (b"1", b"2", "1"),
    "Json": ("1", "2", "1"),
    "JsonDocument": ("1", "2", "1"),
    "Uuid": (bytes(16), bytes(15) + b"\1", "00000000-0000-0000-0000-000000000000"),
    "DyNumber": (Decimal(1), Decimal(2), ".1e1"),
    "Date": (1, 2, "1970-01-02"),
    "Datetime": (1, 2, "1970-01-01T00:00:01Z"),
    "Timestamp": (1, 2, "1970-01-01T00:00:00.000001Z"),
    "Interval": (1, 2, "PT0.000001S"),
    "Date32": (-1, 1, "1969-12-31"),
    "Datetime64": (-1, 1, "1969-12-31T23:59:59Z"),
    "Timestamp64": (-1, 1, "1969-12-31T23:59:59.999999Z"),
    "Interval64": (-1, 1, "-PT0.000001S"),
    # The value is UTC: midnight in Berlin lies on the day before.
    "TzDate": ((1, ZONE), (2, ZONE), f"1970-01-03,{ZONE}"),
    "TzDatetime": ((1, ZONE), (2, ZONE), f"1970-01-01T01:00:01,{ZONE}"),
    "TzTimestamp": ((1, ZONE), (2, ZONE), f"1970-01-01T01:00:00.000001,{ZONE}"),
    "TzDate32": ((-1, ZONE), (1, ZONE), f"1970-01-01,{ZONE}"),
    "TzDatetime64": ((-1, ZONE), (1, ZONE), f"1970-01-01T00:59:59,{ZONE}"),
    "TzTimestamp64": ((-1, ZONE), (1, ZONE), f"1970-01-01T00:59:59.999999,{ZONE}"),
}

ZONED = {"TzDate", "TzDatetime", "TzTimestamp", "TzDate32", "TzDatetime64", "TzTimestamp64"}
UNNAMED = {"TzDate32": 0x44, "TzDatetime64": 0x45, "TzTimestamp64": 0x46}
"""Types with a number on the wire that has no name in the messages yet."""
NOT_STORED = {one.name for one in NON_STORED_TYPES}
NOT_IN_KEYS = {one.name for one in NON_KEY_TYPES}
ARROW = {"binary", "float32", "float64", "string", *(f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32, 64))}
NO_CODEC = {"Yson", "Json", "JsonDocument"}
"""Types of which neither keys nor comparisons exist in YQL."""


def wire_number(type: Primitive) -> bool:
    if type.name in UNNAMED:
        return values.PRIMITIVE_TYPE_IDS[type.name] == UNNAMED[type.name]
    name = enum_name(WIRE_TYPES, values.PRIMITIVE_TYPE_IDS[type.name])
    return name.replace("_", "") == type.name.upper()


def wire_value(type: Primitive) -> bool:
    value, _, _ = EXAMPLES[type.name]
    typed = message("Ydb.TypedValue").FromString(values.encode_typed_value(type, value))
    return values.decode_typed_value(typed) == (type, value)


def packed_rows(type: Primitive) -> bool:
    value, _, _ = EXAMPLES[type.name]
    row = wire.bytes_field(2, wire.bytes_field(12, values.encoder(type)(value)))
    return packing.rows_encoder([type])([(value,)]) == row


def arrow_column(type: Primitive) -> bool:
    classes = dict.fromkeys(ARROW, lambda size=None: "type")
    pyarrow = SimpleNamespace(schema=list, field=lambda *of, **options: of, **classes)
    try:
        arrow.ArrowMessages(pyarrow, None, (("c", type),), False, HERE)
    except Fault:
        return type.name in {*ZONED, "DyNumber"}
    return type.name not in {*ZONED, "DyNumber"}


def text(type: Primitive) -> bool:
    value, _, said = EXAMPLES[type.name]
    return texts.to_text(type, value) == said and texts.from_text(type, said) == value


def order(type: Primitive) -> bool:
    low, high, _ = EXAMPLES[type.name]
    found = find_order(type, type)
    if type.name in NO_CODEC:
        return found is None
    return found is not None and (found(low, high) or 0) < 0 and sort_key(type)(low) < sort_key(type)(high)


def key(type: Primitive) -> bool:
    low, high, _ = EXAMPLES[type.name]
    if type.name in NO_CODEC:
        return type.name in NOT_IN_KEYS
    first, second = (encode_key((type,), (one,)) for one in (low, high))
    return first < second and decode_key((type,), first) == (low,)


def column_type(type: Primitive) -> bool:
    return parse_stored_type(f"{type}?") == OptionalType(type)


def stored_row(type: Primitive) -> bool:
    """A row of a table with a column of the type is stored and read back; other types are refused as columns."""
    value, _, _ = EXAMPLES[type.name]
    columns = (ColumnSpec("id", UINT64), ColumnSpec("c", OptionalType(type)))
    try:
        definition = new_table(TableSpec(columns, ("id",)), "root", TtlPolicy(), 0)
    except Invalid:
        return type.name in NOT_STORED
    layout = RowLayout(table_view(Node(1, 0, "t", definition), "/local/t"))
    return type.name not in NOT_STORED and layout.decode(layout.encode([1, value])) == [1, value]


def default(type: Primitive) -> bool:
    value, _, _ = EXAMPLES[type.name]
    return type.name in NOT_STORED or defaults.parse_literal(defaults.literal_of(value, type), type) == value


def command_line(type: Primitive) -> bool:
    value, _, _ = EXAMPLES[type.name]
    return bool(json_values.from_json(type, json.loads(json_values.to_json(type, value))) == value)


PLACES: Mapping[str, Callable[[Primitive], bool]] = {
    "PRIMITIVE_TYPE_IDS of frontends/ydb/values.py": wire_number,
    "_PRIMITIVE_ENCODERS or _VALUE_FIELDS of frontends/ydb/values.py": wire_value,
    "_column_encoder() of frontends/ydb/packing.py, as encoder() of frontends/ydb/values.py": packed_rows,
    "_SIMPLE of frontends/ydb/arrow.py": arrow_column,
    "_READERS or _WRITERS of query/yql/texts.py": text,
    "find_order() or sort_key() of query/yql/comparison.py": order,
    "_CODECS of query/yql/keys.py, or NON_KEY_TYPES of frontends/ydb/schemes/columns.py": key,
    "SIMPLE of query/yql/names.py": column_type,
    "_value_coder() of frontends/ydb/rows.py, or NON_STORED_TYPES of frontends/ydb/schemes/columns.py": stored_row,
    "literal_of() or _evaluate_literal() of frontends/ydb/schemes/defaults.py": default,
    "_plain_to_json() or _plain_parser() of cli/ydb/json_values.py": command_line,
}


def module_of(file: str) -> ModuleType:
    return importlib.import_module("mayflydb." + file.removesuffix(".py").replace("/", "."))


@pytest.mark.parametrize("place", PLACES)
def test_the_places_are_where_the_messages_say(place: str) -> None:
    """A message that sends its reader to a name that is gone helps less than none."""
    for part in re.split(", as |, or ", place):
        names, file = part.split(" of ")
        for name in names.split(" or "):
            found = getattr(module_of(file), name.removesuffix("()"), None)
            assert found is not None, f"{file} has no {name}"
            assert callable(found) is name.endswith("()"), f"{name} of {file}: a function, or a table"


def test_every_type_has_its_example_here() -> None:
    assert EXAMPLES.keys() == PRIMITIVES.keys(), "EXAMPLES of this file"


def test_every_type_of_the_wire_is_a_type_of_the_language() -> None:
    names = {
        each.name.replace("_", "") for each in pool().FindEnumTypeByName(WIRE_TYPES).values if each.name != UNSPECIFIED
    }
    assert names == {name.upper() for name in PRIMITIVES if name not in UNNAMED}, "PRIMITIVES of query/yql/types.py"


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", PRIMITIVES)
def test_a_type_is_known_in_each_place(name: str, place: str) -> None:
    assert PLACES[place](PRIMITIVES[name]), f"{place}: {name} is missing or differs"
