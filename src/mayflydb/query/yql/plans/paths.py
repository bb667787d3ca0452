"""Names of tables to absolute paths: `/database/[prefix/]name`, with doubled slashes and parts `.` left out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from mayflydb.query.yql.statements import Pragma, Script
from mayflydb.query.yql.syntax import Syntax, TableRef


def join(database: str, prefix: str, name: str) -> str:
    """The absolute path of `name`. `prefix`: that of PRAGMA TablePathPrefix, "" for none; both may be absolute."""
    if not name.startswith("/"):
        name = f"{prefix}/{name}" if prefix else name
    if not name.startswith("/"):
        name = f"{database}/{name}"
    return "/" + "/".join(part for part in name.split("/") if part not in ("", "."))


def is_prefix_pragma(pragma: Pragma) -> bool:
    return pragma.name.lower() == "tablepathprefix" and bool(pragma.values)


def tables_of(script: Script, database: str) -> tuple[str, ...]:
    """Absolute paths of the tables and views that the data statements of `script` name, each once, in order.

    A view may stand for more: read its text and ask again with that.
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
