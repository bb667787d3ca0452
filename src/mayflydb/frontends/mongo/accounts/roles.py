"""Users as data: their roles, and the rights that roles give."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from mayflydb.frontends.mongo.accounts.scram import Credential
from mayflydb.query.mongo.faults import MqlError

Right = Literal["open", "anyone", "read", "stats", "write", "schema", "users", "monitor", "server"]
"""The right that a command demands of its sender.

`open`: none. `anyone`: a login. Each of the others is given by a role on the database that the command names. `monitor` is for
commands that look at the server as a whole, `server` for those that change it.
"""

_ALL: Final = frozenset({"read", "stats", "write", "schema", "users"})

RIGHTS: Final[Mapping[str, frozenset[str]]] = {
    "read": frozenset({"read", "stats"}),
    "readWrite": frozenset({"read", "stats", "write", "schema"}),
    "dbAdmin": frozenset({"schema", "stats"}),
    "userAdmin": frozenset({"users"}),
    "dbOwner": _ALL,
}
"""The rights that a role gives on its database."""

ALL_DATABASE_RIGHTS: Final[Mapping[str, frozenset[str]]] = {
    "readAnyDatabase": RIGHTS["read"],
    "readWriteAnyDatabase": RIGHTS["readWrite"],
    "dbAdminAnyDatabase": RIGHTS["dbAdmin"],
    "userAdminAnyDatabase": RIGHTS["userAdmin"],
    "clusterMonitor": frozenset({"monitor", "stats"}),
    "hostManager": frozenset({"server"}),
    "clusterAdmin": frozenset({"monitor", "stats", "server"}),
    "root": _ALL | {"monitor", "server"},
}
"""The rights that a role of the database `admin` gives on every database."""


class Role(msgspec.Struct, frozen=True):
    """A role on a database."""

    role: str
    db: str


class User(msgspec.Struct, frozen=True, omit_defaults=True):
    """A user of the server.

    `db`: the database at which the user logs in. `credentials`: by mechanism. `custom`: the administrator's own data
    about the user, as BSON in base64. `id`: a UUID. `fixed`: the user comes from the settings, and no command changes
    it.

    `inherited`, `grants`: what the roles that commands created give, as built-in roles and as actions by resource. They are found
    at the login and after each change, and never stored.
    """

    name: str
    db: str
    roles: tuple[Role, ...] = ()
    credentials: dict[str, Credential] = {}
    custom: str = ""
    id: str = ""
    fixed: bool = False
    inherited: tuple[Role, ...] = ()
    grants: dict[str, frozenset[str]] = {}

    @property
    def key(self) -> str:
        """The user's unique name, `db.name`."""
        return f"{self.db}.{self.name}"

    @property
    def all_roles(self) -> tuple[Role, ...]:
        """The user's roles, with those that they inherit."""
        return tuple(dict.fromkeys((*self.roles, *self.inherited)))

    def has_right(self, right: str, database: str) -> bool:
        """Return True if one of the user's roles gives this right on a database."""
        for role in (*self.roles, *self.inherited):
            here = role.db == database and right in RIGHTS.get(role.role, ())
            if here or (role.db == "admin" and right in ALL_DATABASE_RIGHTS.get(role.role, ())):
                return True
        return False


def is_built_in(role: Role) -> bool:
    """Return True if a role exists on every server."""
    return role.role in RIGHTS or (role.db == "admin" and role.role in ALL_DATABASE_RIGHTS)


def missing_role(role: Role) -> MqlError:
    """The error 31 of a role that does not exist."""
    return MqlError(31, f"Could not find role: {role.role}@{role.db}")
