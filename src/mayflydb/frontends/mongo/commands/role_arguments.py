"""Arguments that name roles, of commands about users and about roles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from mayflydb.frontends.mongo.accounts.roles import Role
from mayflydb.frontends.mongo.calls import Call
from mayflydb.frontends.mongo.services import Services
from mayflydb.query.mongo.faults import bad_value, type_mismatch
from mayflydb.query.mongo.values import type_name

MAX_ROLES: Final = 1000
"""The most roles of a user, or of a role. A right is looked for in all of them, at each command."""


async def permitted_roles(services: Services, call: Call) -> tuple[Role, ...]:
    """The roles in a command. Raise MqlError 13 for a role on a database whose users the sender does not manage, 31, 14, 2."""
    roles = _parse_roles(call)
    await services.accounts.roles.check(roles)
    for role in roles:
        # The right to manage the users of one database must not give rights on another.
        services.require_right(call, "users", role.db)
    return roles


def _parse_roles(call: Call) -> tuple[Role, ...]:
    given = call.body.get("roles")
    if not isinstance(given, list):
        raise type_mismatch(f"{call.name}.roles", type_name(given), "array")
    check_count(given)
    return tuple(dict.fromkeys(parse_role(call, each) for each in given))


def check_count(roles: Sequence[object]) -> None:
    """Raise MqlError 2 for too many roles."""
    if len(roles) > MAX_ROLES:
        raise bad_value(f"A user or a role has at most {MAX_ROLES} roles")


def parse_role(call: Call, given: Any) -> Role:
    """Parse the name of a role, or {role, db}. Raise MqlError 2."""
    if isinstance(given, str):
        return Role(given, call.database)
    if (
        isinstance(given, dict)
        and given.keys() == {"role", "db"}
        and all(isinstance(each, str) for each in given.values())
    ):
        return Role(given["role"], given["db"])
    raise bad_value("Role names must be either strings or objects with role and db")
