"""Partial updates: up to ten operations on one document, applied as a whole or not at all."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, Final, NoReturn, TypeAlias

import msgspec

from mayflydb.frontends.cosmos.partition_key import PartitionKeyDefinition
from mayflydb.frontends.cosmos.values import (
    SYSTEM_PROPERTIES,
    ItemLimits,
    ParsedItem,
    check_item,
    member_texts,
    parse_json,
)
from mayflydb.model.errors import BadRequest

Pointer: TypeAlias = tuple[str, ...]

MAX_OPERATIONS: Final = 10
_INDEX = re.compile(r"0|[1-9][0-9]{0,9}", re.ASCII)
_BAD_TILDE = re.compile(r"~(?![01])")


class PatchOperation(msgspec.Struct, frozen=True):
    """One operation. `value` is UNSET for remove and move; `source` is set for move alone."""

    op: str
    path: Pointer
    value: Any = msgspec.UNSET
    source: Pointer | None = None


class Patch(msgspec.Struct, frozen=True):
    """The operations in order, and the text of a condition such as `from c where c.n > 1`."""

    operations: tuple[PatchOperation, ...]
    condition: str | None


def parse_patch(body: bytes, limits: ItemLimits) -> Patch:
    """Parse a body `{"operations":[…],"condition":"…"}`, or the bare array of operations. BadRequest otherwise."""
    value, _ = parse_json(body, limits, limits.item_bytes)
    return parse_patch_value(value)


def parse_patch_value(value: object) -> Patch:
    """Parse a patch from a decoded value, as `parse_patch` does from text."""
    body = value if isinstance(value, dict) else {"operations": value}
    if unknown := body.keys() - {"operations", "condition"}:
        raise BadRequest(f"The property '{min(unknown)[:255]}' is not known in a patch.")
    entries, condition = body.get("operations"), body.get("condition")
    if not isinstance(entries, list) or not 1 <= len(entries) <= MAX_OPERATIONS:
        raise BadRequest(f"A patch must hold 1 to {MAX_OPERATIONS} operations.")
    if condition is not None and (not isinstance(condition, str) or not condition.strip()):
        raise BadRequest("The property 'condition' of a patch must be a text like 'from c where c.n > 1'.")
    return Patch(tuple([_parse_operation(entry) for entry in entries]), condition)


_MEMBERS: Final = {
    "add": {"op", "path", "value"},
    "set": {"op", "path", "value"},
    "replace": {"op", "path", "value"},
    "incr": {"op", "path", "value"},
    "remove": {"op", "path"},
    "move": {"op", "path", "from"},
}


def _parse_operation(entry: object) -> PatchOperation:
    op = entry.get("op") if isinstance(entry, dict) else None
    if not isinstance(entry, dict) or not isinstance(op, str) or op not in _MEMBERS:
        raise BadRequest(f"Each operation of a patch must be an object whose 'op' is one of {', '.join(_MEMBERS)}.")
    # Some clients send `"value": null` with a remove.
    empty = {"value"} if op in ("remove", "move") and entry.get("value") is None else set()
    allowed = _MEMBERS[op] | empty
    if missing := _MEMBERS[op] - entry.keys():
        raise BadRequest(f"The patch operation '{op}' lacks '{min(missing)}'.")
    if unknown := entry.keys() - allowed:
        raise BadRequest(f"The patch operation '{op}' does not take '{min(unknown)[:255]}'.")
    value = entry["value"] if "value" in _MEMBERS[op] else msgspec.UNSET
    if op == "incr" and type(value) not in (int, float):
        raise BadRequest("The value of the patch operation 'incr' must be a number.")
    return PatchOperation(
        op, _parse_pointer(entry["path"]), value, _parse_pointer(entry["from"]) if op == "move" else None
    )


def _parse_pointer(text: object) -> Pointer:
    if not isinstance(text, str) or not text.startswith("/") or _BAD_TILDE.search(text):
        raise BadRequest("The path of a patch operation must be a JSON pointer such as '/a/b'.")
    return tuple([token.replace("~1", "/").replace("~0", "~") for token in text[1:].split("/")])


# --- applying --------------------------------------------------------------------------------------------------------


def apply_to_document(patch: Patch, doc: Mapping[str, Any], definition: PartitionKeyDefinition) -> dict[str, Any]:
    """Return the document after all operations; `doc` does not change. BadRequest if an operation fails."""
    for operation in patch.operations:
        _check_allowed(operation.path, definition)
        if operation.source is not None:
            _check_allowed(operation.source, definition)
    result = dict(doc)
    for operation in patch.operations:
        result = _apply_operation(result, operation)
    before, after = definition.extract(doc), definition.extract(result)
    if definition.logical_partition(before) != definition.logical_partition(after):
        raise BadRequest("A patch cannot change the partition key.")
    return result


def apply_to_item(patch: Patch, text: bytes, definition: PartitionKeyDefinition, limits: ItemLimits) -> ParsedItem:
    """Return the item that results from a patch of stored text. Properties that no operation names keep their text."""
    doc: dict[str, Any] = msgspec.json.decode(text)
    result = apply_to_document(patch, doc, definition)
    touched = {path[0] for operation in patch.operations for path in (operation.path, operation.source) if path}
    texts = member_texts(text)
    # A number that the client wrote as 5e0 stays 5e0 unless an operation names its property.
    kept = {name: value if name in touched else texts[name] for name, value in result.items()}
    return check_item(ParsedItem(result, msgspec.json.encode(kept)), limits)


def _check_allowed(path: Pointer, definition: PartitionKeyDefinition) -> None:
    if path[0] == "id" or path[0] in SYSTEM_PROPERTIES:
        raise BadRequest(f"The property '/{path[0]}' cannot be patched.")
    for key_path in definition.segments:
        if path[: len(key_path)] == key_path:
            raise BadRequest(f"The path '{_path_text(path)}' is part of the partition key and cannot be patched.")


def _apply_operation(doc: dict[str, Any], operation: PatchOperation) -> dict[str, Any]:
    path, value = operation.path, operation.value
    if operation.source is not None:
        source = operation.source
        # A move to its own path changes nothing, and is refused if the path does not exist.
        if path == source:
            _copy_and_apply(doc, source, _get)
            return doc
        if path[: len(source)] == source:
            raise BadRequest(f"The patch operation 'move' cannot move '{_path_text(source)}' into its own child.")
        doc, value = _copy_and_apply(doc, source, _pop)
    return _copy_and_apply(doc, path, lambda node, token: _ACTIONS[operation.op](node, token, value, path))[0]


def _copy_and_apply(
    doc: dict[str, Any], path: Pointer, action: Callable[[Any, str], Any]
) -> tuple[dict[str, Any], Any]:
    """Copy a document along a path and apply an action at its end; return the copy and the action's result.

    The copy shares everything off the path with the old document.
    """
    root: dict[str, Any] = dict(doc)
    node: Any = root
    for token in path[:-1]:
        key = _resolve_key(node, token, path)
        node[key] = node[key].copy() if type(node[key]) in (dict, list) else _refuse_missing(path)
        node = node[key]
    if type(node) is not list and type(node) is not dict:
        _refuse_missing(path)
    return root, action(node, path[-1])


def _refuse_missing(path: Pointer) -> NoReturn:
    raise BadRequest(f"The path '{_path_text(path)}' of a patch operation does not exist in the item.")


def _path_text(path: Pointer) -> str:
    return "/" + "/".join(path)[:255]


def _resolve_key(node: Any, token: str, path: Pointer) -> Any:
    """Return the key or array index of an existing member."""
    if type(node) is dict and token in node:
        return token
    if type(node) is list and _INDEX.fullmatch(token) and int(token) < len(node):
        return int(token)
    _refuse_missing(path)


def _insert_position(node: list[Any], token: str, path: Pointer) -> int:
    """Return an array index up to the length, which is also written `-`."""
    if token == "-":  # noqa: S105
        return len(node)
    if _INDEX.fullmatch(token) and int(token) <= len(node):
        return int(token)
    raise BadRequest(f"The path '{_path_text(path)}' of a patch operation is no index up to the length of its array.")


def _get(node: Any, token: str) -> Any:
    return node[_resolve_key(node, token, (token,))]


def _pop(node: Any, token: str) -> Any:
    return node.pop(_resolve_key(node, token, (token,)))


def _add(node: Any, token: str, value: Any, path: Pointer) -> None:
    if type(node) is list:
        node.insert(_insert_position(node, token, path), value)
    else:
        node[token] = value


def _set(node: Any, token: str, value: Any, path: Pointer) -> None:
    if type(node) is list and (index := _insert_position(node, token, path)) < len(node):
        node[index] = value
    else:
        _add(node, token, value, path)


def _replace(node: Any, token: str, value: Any, path: Pointer) -> None:
    node[_resolve_key(node, token, path)] = value


def _remove(node: Any, token: str, _: Any, path: Pointer) -> None:
    del node[_resolve_key(node, token, path)]


def _increment(node: Any, token: str, value: Any, path: Pointer) -> None:
    if type(node) is dict and token not in node:
        node[token] = value
        return
    key = _resolve_key(node, token, path)
    if type(node[key]) is not int and type(node[key]) is not float:
        raise BadRequest(f"The path '{_path_text(path)}' of the patch operation 'incr' does not hold a number.")
    node[key] = _add_numbers(node[key], value)


def _add_numbers(a: float, b: float) -> float:
    try:
        total = a + b
        # Numbers are doubles; integers stay exact up to 64 bits.
        if type(total) is int and abs(total) >> 63:
            total = float(total)
    except OverflowError:
        total = float("inf")
    if not isfinite(total):
        raise BadRequest("The result of the patch operation 'incr' is out of the range of a double.")
    return total


_ACTIONS: Final[Mapping[str, Callable[[Any, str, Any, Pointer], None]]] = {
    "add": _add,
    "set": _set,
    "replace": _replace,
    "remove": _remove,
    "incr": _increment,
    "move": _add,
}
