"""Absolute paths of tables: `/database/[prefix/]name`, without doubled slashes and `.` parts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from mayflydb.query.yql.statements import Pragma, Script
from mayflydb.query.yql.syntax import Syntax, TableRef


def join(database: str, prefix: str, name: str) -> str:
    """The absolute path of `name`. `prefix`: that of PRAGMA TablePathPrefix, or ""; prefix and name may be absolute."""
    if not name.startswith("/"):
        name = f"{prefix}/{name}" if prefix else name
    if not name.startswith("/"):
        name = f"{database}/{name}"
    return "/" + "/".join(part for part in name.split("/") if part not in ("", "."))


def is_prefix_pragma(pragma: Pragma) -> bool:
    return pragma.name.lower() == "tablepathprefix" and bool(pragma.values)


def tables_of(script: Script, database: str) -> tuple[str, ...]:
    """The absolute paths of the tables and views in the data statements of `script`, each once, in order.

    A view adds the tables of its own text: parse that text, and call this function for it, too.
    """
    found: dict[str, None] = {}
    prefix = ""
    for statement in script.statements:
        if isinstance(statement, Pragma) and is_prefix_pragma(statement):
            prefix = statement.values[-1]
        for reference in _references(statement):
            found[join(database, prefix, reference.name)] = None
    return tuple(found)


def _references(node: Any) -> Iterator[TableRef]:
    if isinstance(node, TableRef):
        yield node
    elif isinstance(node, Syntax):
        for field in msgspec.structs.fields(node):
            if field.name != "at":
                yield from _references(getattr(node, field.name))
    elif isinstance(node, tuple):
        for part in node:
            yield from _references(part)
