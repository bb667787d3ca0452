"""Users as data: their roles, and what a role lets them do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from mayflydb.frontends.mongo.accounts.scram import Credential
from mayflydb.query.mongo.faults import MqlError

Right = Literal["open", "anyone", "read", "write", "schema", "users", "server"]
"""What a command demands of its sender: nothing, a login, or a role that has this on the database it names."""

_ALL: Final = frozenset({"read", "write", "schema", "users"})

RIGHTS: Final[Mapping[str, frozenset[str]]] = {
    "read": frozenset({"read"}),
    "readWrite": frozenset({"read", "write", "schema"}),
    "dbAdmin": frozenset({"schema"}),
    "userAdmin": frozenset({"users"}),
    "dbOwner": _ALL,
}
"""What a role allows on its database."""

ANYWHERE: Final[Mapping[str, frozenset[str]]] = {
    "readAnyDatabase": RIGHTS["read"],
    "readWriteAnyDatabase": RIGHTS["readWrite"],
    "dbAdminAnyDatabase": RIGHTS["dbAdmin"],
    "userAdminAnyDatabase": RIGHTS["userAdmin"],
    "root": _ALL | {"server"},
}
"""What a role of the database `admin` allows on every database. `server`: what concerns the server as a whole."""


class Role(msgspec.Struct, frozen=True):
    """A role on a database."""

    role: str
    db: str


class User(msgspec.Struct, frozen=True):
    """`db` is where the user logs in; `credentials` by mechanism. `custom`: people's own data, as BSON in base64.

    `id`: a UUID. `fixed`: given at the start, not changed by commands."""

    name: str
    db: str
    roles: tuple[Role, ...] = ()
    credentials: dict[str, Credential] = {}
    custom: str = ""
    id: str = ""
    fixed: bool = False

    @property
    def key(self) -> str:
        """Its name among all users."""
        return f"{self.db}.{self.name}"

    def may(self, right: str, database: str) -> bool:
        """Whether one of its roles allows this on a database."""
        for role in self.roles:
            here = role.db == database and right in RIGHTS.get(role.role, ())
            if here or (role.db == "admin" and right in ANYWHERE.get(role.role, ())):
                return True
        return False


def rights_of(user: User) -> dict[str, tuple[str, ...]]:
    """What a user may do, by database; `` is every database."""
    found: dict[str, set[str]] = {}
    for role in user.roles:
        if role.db == "admin" and role.role in ANYWHERE:
            found.setdefault("", set()).update(ANYWHERE[role.role])
        else:
            found.setdefault(role.db, set()).update(RIGHTS.get(role.role, ()))
    return {database: tuple(sorted(rights)) for database, rights in found.items()}


def check_role(role: Role) -> None:
    """MqlError 31 for a role that there is not."""
    if role.role in RIGHTS or (role.db == "admin" and role.role in ANYWHERE):
        return
    raise MqlError(31, f"Could not find role: {role.role}@{role.db}")
