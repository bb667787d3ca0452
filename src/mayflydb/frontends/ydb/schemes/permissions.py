"""Permissions of entries: stored and described by YDB's names, and never checked.

Names: https://ydb.tech/docs/en/yql/reference/syntax/grant#permissions-list.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from mayflydb.query.yql.definitions import Grant
from mayflydb.query.yql.faults import fault

FULL_PERMISSION: Final = "ydb.generic.full"
GRANT_PERMISSION: Final = "ydb.access.grant"

_NAMES_BY_KEYWORD: Final[Mapping[str, str]] = {
    "ALL": FULL_PERMISSION,
    "ALL PRIVILEGES": FULL_PERMISSION,
    "CONNECT": "ydb.database.connect",
    "CREATE": "ydb.database.create",
    "DROP": "ydb.database.drop",
    "MODIFY TABLES": "ydb.tables.modify",
    "SELECT TABLES": "ydb.tables.read",
    "LIST": "ydb.generic.list",
    "SELECT": "ydb.generic.read",
    "INSERT": "ydb.generic.write",
    "GRANT": GRANT_PERMISSION,
    "USE": "ydb.generic.use",
    "USE LEGACY": "ydb.generic.use_legacy",
    "MANAGE": "ydb.generic.manage",
    "FULL": FULL_PERMISSION,
    "FULL LEGACY": "ydb.generic.full_legacy",
    "SELECT ROW": "ydb.granular.select_row",
    "UPDATE ROW": "ydb.granular.update_row",
    "ERASE ROW": "ydb.granular.erase_row",
    "SELECT ATTRIBUTES": "ydb.granular.read_attributes",
    "MODIFY ATTRIBUTES": "ydb.granular.write_attributes",
    "CREATE DIRECTORY": "ydb.granular.create_directory",
    "CREATE TABLE": "ydb.granular.create_table",
    "CREATE QUEUE": "ydb.granular.create_queue",
    "REMOVE SCHEMA": "ydb.granular.remove_schema",
    "DESCRIBE SCHEMA": "ydb.granular.describe_schema",
    "ALTER SCHEMA": "ydb.granular.alter_schema",
}


def permission_names(statement: Grant) -> tuple[str, ...]:
    """Return YDB's names of the permissions in a statement. Faults: an unknown permission."""
    names: list[str] = []
    for each in statement.permissions:
        name = _NAMES_BY_KEYWORD.get(each.upper(), each.lower() if each.lower().startswith("ydb.") else None)
        if name is None:
            raise fault(f"Unknown permission name: {each}", statement.at)
        names.append(name)
    return (*names, GRANT_PERMISSION) if statement.grant_option else tuple(names)


def grant(body: Mapping[str, Any], subjects: Iterable[str], names: Sequence[str]) -> dict[str, Any]:
    """Return the body of an entry with these permissions added."""
    return _replace_permissions(
        body, {each: tuple(dict.fromkeys((*_permissions_of(body, each), *names))) for each in subjects}
    )


def revoke(body: Mapping[str, Any], subjects: Iterable[str], names: Sequence[str]) -> dict[str, Any]:
    """Return the body of an entry without these permissions; ALL removes all."""
    # REVOKE ALL takes everything, also what was granted by name.
    left = {
        each: () if FULL_PERMISSION in names else tuple(n for n in _permissions_of(body, each) if n not in names)
        for each in subjects
    }
    return _replace_permissions(body, left)


def set_permissions(body: Mapping[str, Any], subject: str, names: Sequence[str]) -> dict[str, Any]:
    """Return the body of an entry in which a subject has exactly these permissions."""
    return _replace_permissions(body, {subject: tuple(names)})


def clear_permissions(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of an entry without permissions."""
    return {**body, "permissions": {}}


def set_owner(body: Mapping[str, Any], owner: str) -> dict[str, Any]:
    """Return the body of an entry with another owner."""
    return {**body, "owner": owner}


def _permissions_of(body: Mapping[str, Any], subject: str) -> tuple[str, ...]:
    return tuple(body.get("permissions", {}).get(subject, ()))


def _replace_permissions(body: Mapping[str, Any], changes: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    merged = {**body.get("permissions", {}), **{subject: list(names) for subject, names in changes.items()}}
    return {**body, "permissions": {subject: names for subject, names in merged.items() if names}}
