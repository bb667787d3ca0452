"""Paths.

An absolute path begins with a slash and lies below a database. Other names are completed by database and prefix.

Source of limits and of texts about names: `ydb/core/tx/schemeshard/schemeshard_path.cpp` of
https://github.com/ydb-platform/ydb.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from mayflydb.frontends.ydb.schemes.faults import Invalid

MAX_PARTS: Final = 32
MAX_PART_LENGTH: Final = 255
SYSTEM_DIRECTORY: Final = ".sys"
RESERVED: Final = (SYSTEM_DIRECTORY, ".metadata", ".tmp")
INDEX_TABLE: Final = "indexImplTable"


def join_path(*parts: str) -> str:
    """Join parts to one absolute path without double slashes."""
    return "/" + "/".join(each for part in parts for each in part.split("/") if each)


def resolve_path(database: str, prefix: str | None, name: str) -> str:
    """Return the absolute path of a name.

    `prefix`: the value of PRAGMA TablePathPrefix, absolute or below the database.

    Parts `.` of a relative name are left out: `./sub/t` is `sub/t`.
    """
    if name.startswith("/"):
        return join_path(name)
    name = "/".join(part for part in name.split("/") if part != ".")
    if prefix and prefix.startswith("/"):
        return join_path(prefix, name)
    return join_path(database, prefix or "", name)


def split_path(databases: Iterable[str], path: str) -> tuple[str, str] | None:
    """Split an absolute path into the longest database that contains it, and the rest; None if no database contains it."""
    path = join_path(path)
    found = [each for each in databases if path == each or path.startswith(each + "/")]
    if not found:
        return None
    # Databases may lie in each other: `/Root` and `/Root/test`.
    database = max(found, key=len)
    return database, path[len(database) + 1 :]


def parents(name: str) -> list[str]:
    """Return the directories above a name, outermost first."""
    parts = name.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def leaf(path: str) -> str:
    """Return the last part of a path."""
    return path.rpartition("/")[2]


def check_new_path(path: str) -> None:
    """Check the path of a new entry, below its database. Invalid: the first violation."""
    parts = path.strip("/").split("/")
    if len(parts) > MAX_PARTS:
        raise Invalid(f"Check failed: path: '{path}', error: paths depth limit exceeded, limit: {MAX_PARTS}")
    for part in parts:
        problem = _part_violation(part)
        if problem is not None:
            raise Invalid(f"Check failed: path: '{path}', error: {problem}")


def _part_violation(part: str) -> str | None:
    if len(part) > MAX_PART_LENGTH:
        return f"path part is too long: {len(part)}, limit: {MAX_PART_LENGTH}"
    if part in RESERVED:
        return f"path part '{part}' is reserved by the system"
    if not part.strip("."):
        return f"is not allowed path part contains only dots '{part}'"
    for character in part:
        # Printable ASCII without the blank. Slashes are gone by the split.
        if not "!" <= character <= "~":
            return f"symbol '{character}' is not allowed in the path part '{part}'"
    return None
