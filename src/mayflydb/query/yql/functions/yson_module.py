"""`Yson::`: construction of trees from YSON and JSON, and reads of their nodes.

Without options, problems are errors (Strict) and nothing is converted; `Yson::Options` set both.
Source: https://ydb.tech/docs/en/yql/reference/udf/list/yson
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from mayflydb.query.yql import texts
from mayflydb.query.yql.expression import Builder, Expression, Invocation, Operand
from mayflydb.query.yql.faults import fault
from mayflydb.query.yql.functions.signatures import NODE, OPTIONS
from mayflydb.query.yql.functions.support import (
    apply_with_nulls,
    argument_fault,
    constant,
    convert_operand,
    count_operands,
    evaluate_constant,
    mismatch_fault,
    type_at,
    value_at,
    wrap_optional,
)
from mayflydb.query.yql.functions.yson_nodes import YsonNode, parse, parse_json, to_json, write_binary, write_text
from mayflydb.query.yql.types import (
    BOOL,
    DOUBLE,
    FLOATS,
    INT64,
    INTEGERS,
    JSON,
    JSON_DOCUMENT,
    NULL,
    STRING,
    UINT64,
    UTF8,
    YSON,
    DictType,
    ListType,
    OptionalType,
    StructType,
    TupleType,
    Type,
    Value,
    bare,
    format_type,
    is_optional,
    optional,
)


class YsonOptions(msgspec.Struct, frozen=True):
    strict: bool = True
    convert: bool = False


class WrongKind(Exception):
    """A node is not of the expected kind."""


Convert = Callable[[YsonNode, YsonOptions], Value]


def _options(call: Invocation) -> Operand:
    """`Yson::Options([AutoConvert, Strict])`"""
    named = dict(zip(("AutoConvert", "Strict"), call.operands, strict=False)) | dict(call.named)
    if len(call.operands) > 2 or set(named) - {"AutoConvert", "Strict"}:
        raise argument_fault(call, "Expected AutoConvert and Strict")
    options = {}
    for name, operand in named.items():
        if not isinstance(operand, Expression):
            raise argument_fault(call, f"Expected Bool as argument {name}")
        options[name] = bool(evaluate_constant(operand, call))
    return constant(
        OPTIONS, YsonOptions(strict=options.get("Strict", False), convert=options.get("AutoConvert", False))
    )


def _options_at(call: Invocation, index: int) -> YsonOptions:
    """The options at this position; the default ones if the call omits them."""
    if len(call.operands) <= index:
        return YsonOptions()
    given = value_at(call, index)
    if bare(given.type) != OPTIONS:
        raise mismatch_fault(call, index, given.type, OPTIONS)
    found: YsonOptions = evaluate_constant(given, call)
    return found


def node_at(call: Invocation, index: int, options: YsonOptions) -> Expression:
    """The operand as a tree: Yson, Json and texts are parsed. A document that cannot be parsed gives NULL, or an error if
    strict.
    """
    given = value_at(call, index)
    kind = bare(given.type)
    if kind == NODE or given.type == NULL:
        return given
    if kind not in (YSON, JSON, JSON_DOCUMENT, STRING, UTF8):
        raise mismatch_fault(call, index, given.type, NODE)
    return _read(call, given, parse_json if kind in (JSON, JSON_DOCUMENT) else parse, options)


def _read(
    call: Invocation, given: Expression, read: Callable[[Any], YsonNode | None], options: YsonOptions
) -> Expression:
    def node(value: Value) -> Value:
        if value is None:
            return None
        found = read(value.encode() if isinstance(value, str) else value)
        if found is None and options.strict:
            raise fault(f"{call.name}: the document cannot be read", call.position)
        return found

    certain = options.strict and not is_optional(given.type)
    return apply_with_nulls([given], NODE if certain else optional(NODE), node)


def _parse(read: Callable[[Any], YsonNode | None]) -> Builder:
    def build(call: Invocation) -> Operand:
        count_operands(call, 1, 2)
        given = value_at(call, 0)
        if bare(given.type) not in (YSON, JSON, STRING, UTF8, NULL):
            raise mismatch_fault(call, 0, given.type, YSON)
        return _read(call, given, read, _options_at(call, 1))

    return build


def _map_node(call: Invocation, index: int, kind: Type, change: Convert, certain: bool = False) -> Expression:
    """Apply a function to the node in the first operand. `index`: position of the options. `certain`: the function never
    gives NULL.
    """
    options = _options_at(call, index)
    given = node_at(call, 0, options)

    def run_over(node: Value) -> Value:
        if node is None:
            return None
        try:
            return change(node, options)
        except WrongKind as problem:
            if options.strict:
                raise fault(f"{call.name}: {problem}", call.position) from None
            return None

    sure = certain and options.strict and not is_optional(given.type)
    return apply_with_nulls([given], kind if sure else optional(kind), run_over)


# --- conversions -----------------------------------------------------------------------------------------------------


def _bool(node: YsonNode, options: YsonOptions) -> Value:
    if node.kind == "bool":
        return node.value
    if options.convert and node.kind in ("int64", "uint64", "double"):
        return bool(node.value)
    if options.convert and node.kind == "string" and node.value in (b"true", b"false"):
        return node.value == b"true"
    raise WrongKind(f"Cannot parse boolean from {node.kind}")


def _integer(low: int, high: int) -> Convert:
    def convert(node: YsonNode, options: YsonOptions) -> Value:
        value = node.value if node.kind in ("int64", "uint64") else None
        if value is None and options.convert and node.kind in ("bool", "double"):
            # inf and nan have no int: only finite numbers are zero when taken from themselves.
            value = int(node.value) if node.value - node.value == 0 else None
        if value is None and options.convert and node.kind == "string":
            value = texts.from_text(INT64, node.value.decode("utf-8", "replace"))
        if value is None or not low <= value <= high:
            raise WrongKind(f"Cannot parse integer from {node.kind}")
        return value

    return convert


def _double(node: YsonNode, options: YsonOptions) -> Value:
    if node.kind in ("double", "int64", "uint64"):
        return float(node.value)
    found = texts.from_text(DOUBLE, node.value.decode("utf-8", "replace")) if node.kind == "string" else None
    if not options.convert or found is None:
        raise WrongKind(f"Cannot parse double from {node.kind}")
    return found


def _string(node: YsonNode, options: YsonOptions) -> Value:
    if node.kind == "string":
        return node.value
    if options.convert and node.kind == "bool":
        return b"true" if node.value else b"false"
    if options.convert and node.kind in ("int64", "uint64"):
        return str(node.value).encode()
    if options.convert and node.kind == "double":
        return texts.to_text(DOUBLE, node.value).encode()
    raise WrongKind(f"Cannot parse string from {node.kind}")


def _utf8(node: YsonNode, options: YsonOptions) -> Value:
    try:
        return _string(node, options).decode()
    except UnicodeDecodeError:
        raise WrongKind("The string is no UTF-8") from None


_OMITTED: Final = object()


def _list_converter(item: Convert) -> Convert:
    def convert(node: YsonNode, options: YsonOptions) -> Value:
        if node.kind != "list":
            raise WrongKind(f"Cannot parse list from {node.kind}")
        return [
            found for found in (_convert_or_mark(item, each, options) for each in node.value) if found is not _OMITTED
        ]

    return convert


def _dict_converter(payload: Convert) -> Convert:
    def convert(node: YsonNode, options: YsonOptions) -> Value:
        if node.kind != "dict":
            raise WrongKind(f"Cannot parse dict from {node.kind}")
        found = {key: _convert_or_mark(payload, each, options) for key, each in node.value.items()}
        return {key: value for key, value in found.items() if value is not _OMITTED}

    return convert


def _convert_or_mark(convert: Convert, node: YsonNode, options: YsonOptions) -> Value:
    """Convert a node. If that is impossible: an error if strict, else `_OMITTED`."""
    try:
        return convert(node, options)
    except WrongKind:
        if options.strict:
            raise
        return _OMITTED


def _identity(node: YsonNode, options: YsonOptions) -> Value:
    return node


_SCALARS: Final[dict[str, tuple[Type, Convert]]] = {
    "Bool": (BOOL, _bool),
    "Int64": (INT64, _integer(-(2**63), 2**63 - 1)),
    "Uint64": (UINT64, _integer(0, 2**64 - 1)),
    "Double": (DOUBLE, _double),
    "String": (STRING, _string),
}


def _as_yson(node: YsonNode, options: YsonOptions) -> Value:
    return write_binary(node)


def _as_json(node: YsonNode, options: YsonOptions) -> Value:
    return _json(node)


_SIMPLE: Final[dict[Type, Convert]] = {
    BOOL: _bool,
    STRING: _string,
    UTF8: _utf8,
    NODE: _identity,
    YSON: _as_yson,
    JSON: _as_json,
}


def converter(call: Invocation, kind: Type) -> Convert:
    """Return the conversion of a node to a type. Fault: there is none."""
    if isinstance(kind, OptionalType):
        inner, some = converter(call, kind.item), wrap_optional(kind.item)
        return lambda node, options: None if node.kind == "entity" else some(inner(node, options))
    if kind in INTEGERS:
        return _integer(*texts.BOUNDS[kind])
    if kind in FLOATS:
        return _double if kind == DOUBLE else lambda node, options: texts.to_single(_double(node, options))
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    if isinstance(kind, ListType):
        return _list_converter(converter(call, kind.item))
    if isinstance(kind, DictType) and kind.key in (STRING, UTF8):
        of_pairs, is_text = _dict_converter(converter(call, kind.payload)), kind.key == UTF8
        if not is_text:
            return of_pairs
        return lambda node, options: {key.decode(): value for key, value in of_pairs(node, options).items()}
    if isinstance(kind, TupleType):
        return _tuple_converter([converter(call, item) for item in kind.items])
    if isinstance(kind, StructType):
        return _struct_converter(
            [(name.encode(), converter(call, item), is_optional(item)) for name, item in kind.members]
        )
    if texts.has_text(kind):
        return _text_converter(kind)
    raise argument_fault(call, f"Cannot convert Yson to {format_type(kind)}")


def _text_converter(kind: Type) -> Convert:
    def convert(node: YsonNode, options: YsonOptions) -> Value:
        found = texts.from_text(kind, _utf8(node, options))
        if found is None:
            raise WrongKind(f"Cannot parse {format_type(kind)}")
        return found

    return convert


def _tuple_converter(items: list[Convert]) -> Convert:
    def convert(node: YsonNode, options: YsonOptions) -> Value:
        if node.kind != "list" or len(node.value) != len(items):
            raise WrongKind(f"Cannot parse tuple from {node.kind}")
        return tuple(item(each, options) for item, each in zip(items, node.value, strict=True))

    return convert


def _struct_converter(members: list[tuple[bytes, Convert, bool]]) -> Convert:
    def convert(node: YsonNode, options: YsonOptions) -> Value:
        if node.kind != "dict":
            raise WrongKind(f"Cannot parse struct from {node.kind}")
        found = []
        for name, item, may_miss in members:
            if name not in node.value and not may_miss:
                raise WrongKind(f"Member {name.decode()} is missing")
            found.append(item(node.value[name], options) if name in node.value else None)
        return tuple(found)

    return convert


def _json(node: YsonNode) -> str:
    try:
        return msgspec.json.encode(to_json(node)).decode()
    except ValueError as problem:
        raise WrongKind(f"Cannot write JSON: {problem}") from None


def _convert_to(call: Invocation) -> Operand:
    """`Yson::ConvertTo(node, Type [, options])`"""
    count_operands(call, 2, 3)
    kind = type_at(call, 1)
    return _map_node(call, 2, kind, converter(call, kind), certain=True)


def _node_function(kind: Type, change: Convert, certain: bool = False) -> Builder:
    def build(call: Invocation) -> Operand:
        count_operands(call, 1, 2)
        return _map_node(call, 1, kind, change, certain)

    return build


# --- paths -----------------------------------------------------------------------------------------------------------


def _child(node: YsonNode, key: bytes) -> YsonNode | None:
    if node.kind == "dict":
        found: YsonNode | None = node.value.get(key)
        return found
    if node.kind == "list":
        try:
            index = int(key)
        except ValueError:
            raise WrongKind("Expected an index of a list") from None
        return node.value[index] if -len(node.value) <= index < len(node.value) else None
    raise WrongKind(f"Cannot look up in {node.kind}")


def _node_at_path(node: YsonNode, path: bytes) -> YsonNode | None:
    """The node at a path such as `/a/0`; `//a/0` is the same, since `/` at its start means the root."""
    if path in (b"", b"/"):
        return node
    if path[:1] != b"/":
        raise WrongKind("Invalid YPath: it must begin with '/'")
    found: YsonNode | None = node
    # `@name` is an attribute of the node before it, and `@` all of them.
    for part in path[2 if path[:2] == b"//" else 1 :].split(b"/"):
        if found is None:
            return None
        if part[:1] == b"@":
            attributes = found.attributes or {}
            found = YsonNode("dict", attributes) if part == b"@" else attributes.get(part[1:])
        else:
            found = _child(found, part)
    return found


def _lookup_builder(find: Callable[[YsonNode, bytes], YsonNode | None], kind: Type, change: Convert) -> Builder:
    """`Yson::Lookup(node, key [, options])` and YPath: NULL for a missing node."""

    def build(call: Invocation) -> Operand:
        count_operands(call, 2, 3)
        options = _options_at(call, 2)
        given, key = node_at(call, 0, options), convert_operand(call, 1, STRING)

        def look_up(node: Value, wanted: Value) -> Value:
            try:
                found = None if node is None or wanted is None else find(node, wanted)
                return None if found is None or found.kind == "entity" else change(found, options)
            except WrongKind as problem:
                if options.strict:
                    raise fault(f"{call.name}: {problem}", call.position) from None
                return None

        return apply_with_nulls([given, key], optional(kind), look_up)

    return build


def _contains(call: Invocation) -> Operand:
    return _lookup_builder(_contains_node, BOOL, lambda node, options: node.value)(call)


def _contains_node(node: YsonNode, key: bytes) -> YsonNode:
    return YsonNode("bool", _child(node, key) is not None)


def _equals(call: Invocation) -> Operand:
    count_operands(call, 2)
    pair = [node_at(call, index, YsonOptions()) for index in (0, 1)]
    null = any(is_optional(each.type) for each in pair)
    return apply_with_nulls(pair, optional(BOOL) if null else BOOL, lambda a, b: None if None in (a, b) else a == b)


def _length(node: YsonNode, options: YsonOptions) -> Value:
    if node.kind not in ("list", "dict"):
        raise WrongKind(f"{node.kind} has no length")
    return len(node.value)


def _kind_test(*kinds: str) -> Builder:
    return _node_function(BOOL, lambda node, options: node.kind in kinds, certain=True)


def _builders() -> dict[str, Builder]:
    found: dict[str, Builder] = {
        "Options": _options,
        "Parse": _parse(parse),
        "ParseJson": _parse(parse_json),
        "ConvertTo": _convert_to,
        "Contains": _contains,
        "Equals": _equals,
        "GetLength": _node_function(UINT64, _length),
        "Attributes": _node_function(DictType(STRING, NODE), lambda node, options: node.attributes or {}, certain=True),
        "Serialize": _node_function(YSON, lambda node, options: write_binary(node), certain=True),
        "SerializeText": _node_function(YSON, lambda node, options: write_text(node), certain=True),
        "SerializeJson": _node_function(JSON, lambda node, options: _json(node)),
    }
    for name in ("Entity", "String", "Double", "Uint64", "Int64", "Bool", "List", "Dict"):
        found[f"Is{name}"] = _kind_test(name.lower())
    containers = {
        "List": (ListType(NODE), _list_converter(_identity)),
        "Dict": (DictType(STRING, NODE), _dict_converter(_identity)),
    }
    for name, (kind, change) in {**_SCALARS, **containers}.items():
        found[f"ConvertTo{name}"] = _node_function(kind, change, certain=name in containers)
    for name, (kind, change) in {"": (NODE, _identity), **_SCALARS, **containers}.items():
        found[f"Lookup{name}"] = _lookup_builder(_child, kind, change)
        found[f"YPath{name}"] = _lookup_builder(_node_at_path, kind, change)
    for name, (kind, change) in _SCALARS.items():
        found[f"ConvertTo{name}List"] = _node_function(ListType(kind), _list_converter(change), certain=True)
        found[f"ConvertTo{name}Dict"] = _node_function(DictType(STRING, kind), _dict_converter(change), certain=True)
    return found


BUILDERS: Final[dict[str, Builder]] = _builders()
