"""Default values of columns: literals of YQL, stored as text."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from mayflydb.query.yql.conversions import convert_implicitly
from mayflydb.query.yql.expression import Expression
from mayflydb.query.yql.faults import Fault, fault
from mayflydb.query.yql.names import SIMPLE
from mayflydb.query.yql.parser import parse
from mayflydb.query.yql.schemas import Run
from mayflydb.query.yql.syntax import Expression as Tree
from mayflydb.query.yql.syntax import FunctionCall, Item, Literal_, Select, Syntax, Unary
from mayflydb.query.yql.texts import from_text, to_text
from mayflydb.query.yql.types import (
    BOOL,
    DOUBLE,
    FLOAT,
    INT8,
    INT16,
    INT32,
    INT64,
    INTEGERS,
    JSON,
    NULL,
    STRING,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
    UTF8,
    YSON,
    DecimalType,
    Type,
    Value,
    bare,
    format_long,
)

_INTEGER_TYPES: Final = {
    "": (INT32, INT64, UINT64),
    "u": (UINT32,),
    "l": (INT64,),
    "ul": (UINT64,),
    "s": (INT16,),
    "us": (UINT16,),
    "t": (INT8,),
    "ut": (UINT8,),
}
_STRING_TYPES: Final = {"": STRING, "s": STRING, "u": UTF8, "y": YSON, "j": JSON}
_NO_RUN: Final = Run(0, {}, None)  # type: ignore[arg-type]  # A literal asks nothing of it.


def default_literal(tree: Tree, type: Type) -> str:
    """Return the stored text of a column's default. Faults: the column cannot hold the value."""
    return literal_of(_convert(tree, type), type)


def literal_of(value: Value, type: Type) -> str:
    """Return a value as a literal of YQL."""
    plain = bare(type)
    if value is None:
        return "NULL"
    if plain == BOOL:
        return "true" if value else "false"
    if plain in INTEGERS:
        return str(value)
    text = to_text(plain, value)
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\0", "\\0")
    if plain == STRING:
        return f'"{_escape_bytes(value)}"'
    if plain == UTF8:
        return f'"{escaped}"u'
    if isinstance(plain, DecimalType):
        return f'Decimal("{escaped}",{plain.precision},{plain.scale})'
    return f'{plain}("{escaped}")'


def _escape_bytes(value: bytes) -> str:
    return "".join(chr(each) if 32 <= each < 127 and each not in b'"\\' else f"\\x{each:02x}" for each in value)


@lru_cache(maxsize=4096)
def parse_literal(text: str, type: Type) -> Value:
    """Return the value of a stored literal in a column of this type. Faults: the column cannot hold the value."""
    statement = parse(f"SELECT {text}").statements[0]
    assert isinstance(statement, Select)
    item = statement.items[0]
    assert isinstance(item, Item)
    return _convert(item.value, type)


def _convert(tree: Tree, type: Type) -> Value:
    literal = _evaluate_literal(tree, type)
    if literal.type == NULL:
        # NULL as the default of a column that is NOT NULL.
        if bare(type) == type:
            raise _mismatch(tree, literal.type, type)
        return None
    converted = convert_implicitly(literal, type)
    if converted is None:
        raise _mismatch(tree, literal.type, type)
    return converted.evaluate((), _NO_RUN)


def _mismatch(tree: Syntax, source: Type, type: Type) -> Fault:
    return fault(f"Failed to convert default value: {format_long(source)} to {format_long(type)}", tree.at)


def _evaluate_literal(tree: Tree, type: Type) -> Expression:
    match tree:
        case Unary(operator="-", operand=Literal_(kind="integer" | "float" | "double") as operand):
            positive = _evaluate_literal(operand, type)
            return _constant(positive.type, -positive.value)
        case Literal_(kind="null"):
            return _constant(NULL, None)
        case Literal_(kind="bool", value=value):
            return _constant(BOOL, value)
        case Literal_(kind="integer", value=int(value), suffix=suffix):
            types = _INTEGER_TYPES.get(suffix, (INT32, INT64, UINT64))
            # A literal without suffix has the first of Int32, Int64 and Uint64 that holds it, as elsewhere in YQL.
            fits = [each for each in types if value < 1 << _magnitude_bits(each)]
            return _constant((fits or [types[-1]])[0], value)
        case Literal_(kind="float" | "double", value=value, suffix=suffix):
            return _constant(FLOAT if suffix == "f" else DOUBLE, float(value or 0))
        case Literal_(kind="string", value=value, suffix=suffix):
            return _string_constant(value, _STRING_TYPES.get(suffix, STRING))
        case FunctionCall(name=name, arguments=arguments) if arguments:
            return _call_literal(tree, name, bare(type))
        case _:
            raise fault("Default expression of a column must be a literal", tree.at)


def _magnitude_bits(type: Type) -> int:
    name = str(type)
    bits = int(name.lstrip("UIint"))
    return bits if name.startswith("U") else bits - 1


def _string_constant(value: object, type: Type) -> Expression:
    raw = value if isinstance(value, bytes) else str(value).encode()
    return _constant(type, raw if type in (STRING, YSON) else raw.decode())


def _call_literal(tree: FunctionCall, name: str, wanted: Type) -> Expression:
    """Evaluate a literal written as a call: `Timestamp("...")`, `Decimal("1.5", 22, 9)`."""
    first = tree.arguments[0].value
    type = wanted if name.lower() == "decimal" else SIMPLE.get(name.lower())
    if type is None or not (isinstance(first, Literal_) and first.kind == "string"):
        raise fault("Default expression of a column must be a literal", tree.at)
    text = first.value.decode() if isinstance(first.value, bytes) else str(first.value)
    value = from_text(type, text)
    if value is None:
        raise fault(f'Invalid value "{text}" for type {type}', tree.at)
    return _constant(type, value)


def _constant(type: Type, value: Value) -> Expression:
    return Expression(type, lambda row, run: value, True, True, value)
