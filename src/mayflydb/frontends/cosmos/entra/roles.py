"""Role definitions and role assignments, and the data actions that they permit at a scope. Pure.

https://learn.microsoft.com/azure/cosmos-db/reference-data-plane-security
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec

PREFIX: Final = "Microsoft.DocumentDB/databaseAccounts/"
_CONTAINERS: Final = PREFIX + "sqlDatabases/containers/"

READ_METADATA: Final = PREFIX + "readMetadata"
CREATE_ITEM: Final = _CONTAINERS + "items/create"
READ_ITEM: Final = _CONTAINERS + "items/read"
REPLACE_ITEM: Final = _CONTAINERS + "items/replace"
UPSERT_ITEM: Final = _CONTAINERS + "items/upsert"
DELETE_ITEM: Final = _CONTAINERS + "items/delete"
EXECUTE_QUERY: Final = _CONTAINERS + "executeQuery"
READ_CHANGE_FEED: Final = _CONTAINERS + "readChangeFeed"
EXECUTE_STORED_PROCEDURE: Final = _CONTAINERS + "executeStoredProcedure"
MANAGE_CONFLICTS: Final = _CONTAINERS + "manageConflicts"

DATA_ACTIONS: Final = frozenset(
    {
        READ_METADATA, CREATE_ITEM, READ_ITEM, REPLACE_ITEM, UPSERT_ITEM, DELETE_ITEM,
        EXECUTE_QUERY, READ_CHANGE_FEED, EXECUTE_STORED_PROCEDURE, MANAGE_CONFLICTS,
    }
)  # fmt: skip
_ITEM_ACTIONS: Final = frozenset(each for each in DATA_ACTIONS if each.startswith(_CONTAINERS + "items/"))
WILDCARDS: Final[Mapping[str, frozenset[str]]] = {
    _CONTAINERS + "*": DATA_ACTIONS - _ITEM_ACTIONS - {READ_METADATA},
    _CONTAINERS + "items/*": _ITEM_ACTIONS,
}
"""The data actions that a wildcard stands for. `containers/*` does not include those of items."""

DATA_READER: Final = "00000000-0000-0000-0000-000000000001"
DATA_CONTRIBUTOR: Final = "00000000-0000-0000-0000-000000000002"
BUILT_IN_ROLES: Final[Mapping[str, frozenset[str]]] = {
    DATA_READER: frozenset({READ_METADATA, READ_ITEM, EXECUTE_QUERY, READ_CHANGE_FEED}),
    DATA_CONTRIBUTOR: DATA_ACTIONS,
}
"""The service's roles, which exist in every account."""

ACCOUNT: Final = "/"
"""The scope of the whole account."""


class Permission(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Data actions, among them wildcards, that a role permits."""

    data_actions: tuple[str, ...]


class RoleDefinition(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A role, with the members that Azure's tools give it. `assignable_scopes`: those in which it may be assigned."""

    id: str
    permissions: tuple[Permission, ...]
    role_name: str = ""
    type: str = "CustomRole"
    assignable_scopes: tuple[str, ...] = (ACCOUNT,)


class RoleAssignment(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A role of one principal within a scope: the account, a database or a container."""

    principal_id: str
    role_definition_id: str
    scope: str = ACCOUNT


class InvalidRoles(ValueError):
    """Definitions or assignments contradict each other, or name what does not exist."""


class Grant(msgspec.Struct, frozen=True):
    """Data actions that a principal has within a scope."""

    scope: str
    actions: frozenset[str]


class RoleTable:
    """The grants of each principal."""

    def __init__(self, definitions: Sequence[RoleDefinition] = (), assignments: Sequence[RoleAssignment] = ()) -> None:
        """Raise InvalidRoles, naming the cause."""
        roles = _read_definitions(definitions)
        self._grants: dict[str, list[Grant]] = {}
        for assignment in assignments:
            grant = _read_assignment(assignment, roles)
            self._grants.setdefault(assignment.principal_id.lower(), []).append(grant)

    def permits(self, principals: Collection[str], action: str, scope: str) -> bool:
        """Return whether one of the principals (a user and its groups) has a data action at a scope or above it."""
        return any(
            action in grant.actions and contains(grant.scope, scope)
            for principal in principals
            for grant in self._grants.get(principal.lower(), ())
        )

    def permits_anywhere(self, principals: Collection[str], action: str) -> bool:
        """Return whether one of the principals has a data action at any scope."""
        grants = (grant for principal in principals for grant in self._grants.get(principal.lower(), ()))
        return any(action in grant.actions for grant in grants)


def database_scope(database: str) -> str:
    """Return the scope of a database."""
    return f"/dbs/{database}"


def container_scope(database: str, container: str) -> str:
    """Return the scope of a container."""
    return f"/dbs/{database}/colls/{container}"


def contains(outer: str, inner: str) -> bool:
    """Return whether a scope is another one or lies in it."""
    return outer in (ACCOUNT, inner) or inner.startswith(outer + "/")


def _read_definitions(definitions: Sequence[RoleDefinition]) -> dict[str, tuple[RoleDefinition, frozenset[str]]]:
    roles = {id: (RoleDefinition(id, ()), actions) for id, actions in BUILT_IN_ROLES.items()}
    for definition in definitions:
        id = _last_segment(definition.id)
        if id in roles:
            raise InvalidRoles(f"two role definitions have the id {id}")
        actions = frozenset[str]().union(
            *(_expand(action, id) for each in definition.permissions for action in each.data_actions)
        )
        scopes = tuple(_read_scope(scope) for scope in definition.assignable_scopes)
        roles[id] = (msgspec.structs.replace(definition, assignable_scopes=scopes), actions)
    return roles


def _expand(action: str, role: str) -> frozenset[str]:
    if action in DATA_ACTIONS:
        return frozenset({action})
    if action not in WILDCARDS:
        raise InvalidRoles(f"the role definition {role} names {action}, which is no data action of the API for NoSQL")
    return WILDCARDS[action]


def _read_assignment(assignment: RoleAssignment, roles: Mapping[str, tuple[RoleDefinition, frozenset[str]]]) -> Grant:
    id, scope = _last_segment(assignment.role_definition_id), _read_scope(assignment.scope)
    if id not in roles:
        raise InvalidRoles(f"the role of {assignment.principal_id}, {id}, is not defined")
    definition, actions = roles[id]
    if not any(contains(outer, scope) for outer in definition.assignable_scopes):
        raise InvalidRoles(f"the role {id} cannot be assigned in the scope {scope}")
    return Grant(scope, actions)


def _last_segment(id: str) -> str:
    """Return the GUID at the end of a resource id of Azure."""
    return id.rstrip("/").rpartition("/")[2].lower()


def _read_scope(scope: str) -> str:
    """Return a scope without the part that names an account of Azure."""
    _, _, within = scope.rpartition("/databaseAccounts/")
    path = scope if not within or within == scope else within.partition("/")[2]
    parts = path.strip("/").split("/") if path.strip("/") else []
    if tuple(parts[::2]) not in ((), ("dbs",), ("dbs", "colls")) or len(parts) % 2 or not all(parts):
        raise InvalidRoles(f"the scope {scope} is none of /, /dbs/NAME and /dbs/NAME/colls/NAME")
    return ACCOUNT + "/".join(parts)
