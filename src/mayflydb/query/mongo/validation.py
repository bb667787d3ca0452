"""Rules for the names of databases and collections, and for `_id`.

Names: https://www.mongodb.com/docs/manual/reference/limits/#naming-restrictions
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from bson import ObjectId, Regex

from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.paths import REFERENCE
from mayflydb.query.mongo.values import Value, type_name

MAX_DATABASE: Final = 63
"""The maximum size of a database name in bytes."""

MAX_NAMESPACE: Final = 255
"""The maximum size of `<database>.<collection>` in bytes."""

_NOT_IN_DATABASE: Final = frozenset('/\\. "$*<>:|?\0')


def check_database(name: str, existing: Iterable[str] = ()) -> None:
    """Raise MqlError 73 for an invalid database name, 13297 for one that differs from an existing name in case only."""
    if not name or len(name.encode("utf-8", "surrogateescape")) > MAX_DATABASE or not _NOT_IN_DATABASE.isdisjoint(name):
        raise MqlError(73, f"Invalid database name: '{name}'")
    # The server names files after databases, and some file systems ignore case.
    folded = name.lower()
    for other in existing:
        if other != name and other.lower() == folded:
            raise MqlError(
                13297,
                f"db already exists with different case already have: [{other}] trying to create [{name}]",
            )


def check_collection(database: str, name: Value) -> str:
    """Return the collection name. MqlError 73 for an invalid name or another type."""
    if type(name) is not str:
        raise MqlError(73, f"collection name has invalid type {type_name(name)}")
    namespace = f"{database}.{name}"
    if not name or name.startswith(".") or name.endswith(".") or "$" in name or "\0" in name:
        raise MqlError(73, f"Invalid namespace specified '{namespace}'")
    size = len(namespace.encode("utf-8", "surrogateescape"))
    if size > MAX_NAMESPACE:
        raise MqlError(
            73,
            f"Fully qualified namespace is too long. Namespace: {namespace} Max: {MAX_NAMESPACE}",
        )
    return name


_SYSTEM: Final = frozenset({"system.views", "system.profile", "system.js", "system.users", "system.version"})


def check_new_collection(database: str, name: Value) -> str:
    """Return the name of a collection to create. MqlError 73 for an invalid name or one reserved for the server."""
    text = check_collection(database, name)
    if text.startswith("system.") and text not in _SYSTEM:
        raise MqlError(73, f"Invalid system namespace: {database}.{text}")
    return text


def check_id(value: Value) -> None:
    """Raise MqlError 53 for an array or regular expression as `_id`, 52 for an `_id` with fields that begin with a dollar."""
    if type(value) is ObjectId:
        return
    if type(value) is list or isinstance(value, Regex | re.Pattern):
        raise MqlError(53, f"The '_id' value cannot be of type {type_name(value)}")
    _check_names(value)


def _check_names(value: Value) -> None:
    if type(value) is list:
        for each in value:
            _check_names(each)
    elif type(value) is dict:
        for name, each in value.items():
            if name.startswith("$") and name not in REFERENCE:
                raise MqlError(52, f"_id fields may not contain '$'-prefixed fields: {name} is not valid for storage.")
            _check_names(each)
