"""Which fields an expression reads."""

from __future__ import annotations

from mayflydb.query.mongo.values import Value


class _Everything(Exception):
    """The whole document is read."""


def depends_on(spec: Value) -> frozenset[str] | None:
    """The top-level fields an expression may read; None if that may be all of them."""
    try:
        return frozenset(_fields(spec))
    except _Everything:
        return None


def _fields(spec: Value) -> set[str]:
    if type(spec) is str:
        return _of_path(spec)
    if type(spec) is list:
        return {field for each in spec for field in _fields(each)}
    if type(spec) is not dict:
        return set()
    found: set[str] = set()
    for name, each in spec.items():
        if name in ("$literal", "$const"):
            continue
        if name == "$meta":
            raise _Everything
        if name == "$getField":
            found |= _of_get_field(each)
        elif name == "$let" and type(each) is dict and "CURRENT" in (each.get("vars") or {}):
            raise _Everything
        else:
            found |= _fields(each)
    return found


def _of_path(text: str) -> set[str]:
    if not text.startswith("$") or text == "$":
        return set()
    if not text.startswith("$$"):
        return {text[1:].split(".", 1)[0]}
    name, *rest = text[2:].split(".")
    if name not in ("ROOT", "CURRENT"):
        return set()
    if not rest:
        raise _Everything
    return {rest[0]}


def _of_get_field(spec: Value) -> set[str]:
    if type(spec) is dict and "field" in spec and "input" in spec:
        return _fields(spec["input"]) | _fields(spec["field"])
    if type(spec) is str and not spec.startswith("$"):
        return {spec}
    if type(spec) is dict and type(spec.get("$literal")) is str:
        return {spec["$literal"]}
    raise _Everything
