"""The top-level fields that an expression reads."""

from __future__ import annotations

from mayflydb.query.mongo.values import Value


class _WholeDocument(Exception):
    """The expression reads the whole document."""


def depends_on(spec: Value) -> frozenset[str] | None:
    """Return the top-level fields that an expression may read; None if it may read all of them."""
    try:
        return frozenset(_collect_fields(spec))
    except _WholeDocument:
        return None


def _collect_fields(spec: Value) -> set[str]:
    if type(spec) is str:
        return _path_fields(spec)
    if type(spec) is list:
        return {field for each in spec for field in _collect_fields(each)}
    if type(spec) is not dict:
        return set()
    found: set[str] = set()
    for name, each in spec.items():
        if name in ("$literal", "$const"):
            continue
        if name == "$meta":
            raise _WholeDocument
        if name == "$getField":
            found |= _get_field_fields(each)
        # Below a rebound CURRENT, a path reads another value than the document.
        elif name == "$let" and type(each) is dict and "CURRENT" in (each.get("vars") or {}):
            raise _WholeDocument
        else:
            found |= _collect_fields(each)
    return found


def _path_fields(text: str) -> set[str]:
    if not text.startswith("$") or text == "$":
        return set()
    if not text.startswith("$$"):
        return {text[1:].split(".", 1)[0]}
    name, *rest = text[2:].split(".")
    # Other variables hold values, not fields of the document.
    if name not in ("ROOT", "CURRENT"):
        return set()
    if not rest:
        raise _WholeDocument
    return {rest[0]}


def _get_field_fields(spec: Value) -> set[str]:
    if type(spec) is dict and "field" in spec and "input" in spec:
        return _collect_fields(spec["input"]) | _collect_fields(spec["field"])
    if type(spec) is str and not spec.startswith("$"):
        return {spec}
    if type(spec) is dict and type(spec.get("$literal")) is str:
        return {spec["$literal"]}
    raise _WholeDocument
