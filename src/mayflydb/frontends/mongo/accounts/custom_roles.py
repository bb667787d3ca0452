"""The roles that commands created, and what they give with all that they inherit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

from mayflydb.engine.engine import Engine
from mayflydb.frontends.mongo.accounts.privileges import Privilege, merge, privileges_of
from mayflydb.frontends.mongo.accounts.roles import Role, is_built_in, missing_role
from mayflydb.frontends.mongo.accounts.storage import Shelf
from mayflydb.model.errors import Conflict
from mayflydb.model.instant import Instant
from mayflydb.query.mongo.faults import MqlError

COMPANIONS: Final = "mongo roles"

MAX_ROLES: Final = 1000
"""The most roles that commands create. All are read when one of them, or a user, changes."""

MAX_PRIVILEGES: Final = 1000
"""The most privileges of a role."""


class CustomRole(msgspec.Struct, frozen=True, omit_defaults=True):
    """A role that a command created. `roles`: those that it inherits."""

    name: str
    db: str
    roles: tuple[Role, ...] = ()
    privileges: tuple[Privilege, ...] = ()

    @property
    def key(self) -> str:
        """The role's unique name, `db.name`."""
        return f"{self.db}.{self.name}"

    @property
    def role(self) -> Role:
        """The role as users and other roles name it."""
        return Role(self.name, self.db)


class Given(NamedTuple):
    """The yield of roles: all roles with those that they inherit, and the privileges of those that commands created."""

    roles: tuple[Role, ...]
    privileges: tuple[Privilege, ...]

    @property
    def all_privileges(self) -> tuple[Privilege, ...]:
        """The privileges with those of built-in roles."""
        built_in = [each for role in self.roles if is_built_in(role) for each in privileges_of(role)]
        return merge((*self.privileges, *built_in))


class CustomRoles:
    """The roles of one server that commands created."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._shelf = Shelf(engine, COMPANIONS)
        self._version = -1
        self._known: dict[Role, CustomRole] = {}

    async def load(self) -> Mapping[Role, CustomRole]:
        """All roles, as the catalogue has them now."""
        version = self._engine.catalog_version
        if version != self._version:
            rows = await self._shelf.list_all()
            found = [msgspec.convert(row.body, CustomRole) for row in rows]
            self._known, self._version = {each.role: each for each in found}, version
        return self._known

    async def get(self, role: Role) -> CustomRole:
        """Find a role. Raise MqlError 31 if there is none, 49 for a built-in one."""
        if is_built_in(role):
            raise MqlError(49, f"{role.role}@{role.db} is a built-in role and cannot be modified")
        found = (await self.load()).get(role)
        if found is None:
            raise MqlError(31, f"Role '{role.role}@{role.db}' not found")
        return found

    async def check(self, roles: Iterable[Role]) -> None:
        """Raise MqlError 31 for a role that does not exist."""
        known = await self.load()
        for role in roles:
            if not is_built_in(role) and role not in known:
                raise missing_role(role)

    async def resolve(self, roles: Iterable[Role]) -> Given:
        """Return what roles give. A role that is gone gives nothing."""
        known = await self.load()
        reached: dict[Role, None] = {}
        waiting = list(roles)[::-1]
        privileges: list[Privilege] = []
        while waiting:
            role = waiting.pop()
            if role in reached:
                continue
            own = known.get(role)
            if own is not None:
                waiting.extend(reversed(own.roles))
                privileges.extend(own.privileges)
            if own is not None or is_built_in(role):
                reached[role] = None
        return Given(tuple(reached), merge(privileges))

    async def create(self, role: CustomRole, now: Instant) -> None:
        """Create a role. Raise MqlError 51002 if one of this name exists, 2 for too many."""
        if is_built_in(role.role):
            raise MqlError(2, "Cannot create roles with the same name as a built-in role")
        if len(await self.load()) >= MAX_ROLES:
            raise MqlError(2, f"A server has at most {MAX_ROLES} roles beside the built-in ones")
        try:
            await self._shelf.create(role.key, msgspec.to_builtins(role), now)
        except Conflict:
            raise MqlError(51002, f'Role "{role.name}@{role.db}" already exists') from None

    async def replace(self, role: CustomRole, now: Instant) -> None:
        """Replace the definition of a role. Raise MqlError 31 if it is gone."""
        node = await self._shelf.find(role.key)
        if node is None:
            raise MqlError(31, f"Role '{role.name}@{role.db}' not found")
        await self._shelf.replace(node, msgspec.to_builtins(role), now)

    async def drop(self, roles: Iterable[Role], now: Instant) -> None:
        """Drop roles, and take them from the roles that inherit them."""
        gone = set(roles)
        for each in list((await self.load()).values()):
            if each.role not in gone and not gone.isdisjoint(each.roles):
                left = tuple(role for role in each.roles if role not in gone)
                await self.replace(msgspec.structs.replace(each, roles=left), now)
        for role in gone:
            node = await self._shelf.find(f"{role.db}.{role.role}")
            if node is not None:
                await self._shelf.drop(node)
