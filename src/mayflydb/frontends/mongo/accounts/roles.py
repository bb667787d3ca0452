"""Users as data: their roles, and the rights that roles give."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from mayflydb.frontends.mongo.accounts.scram import Credential
from mayflydb.query.mongo.faults import MqlError

Right = Literal["open", "anyone", "read", "write", "schema", "users", "server"]
"""The right that a command demands of its sender.

`open`: none. `anyone`: a login. Each of the others is given by a role on the database that the command names.
"""

_ALL: Final = frozenset({"read", "write", "schema", "users"})

RIGHTS: Final[Mapping[str, frozenset[str]]] = {
    "read": frozenset({"read"}),
    "readWrite": frozenset({"read", "write", "schema"}),
    "dbAdmin": frozenset({"schema"}),
    "userAdmin": frozenset({"users"}),
    "dbOwner": _ALL,
}
"""The rights that a role gives on its database."""

ALL_DATABASE_RIGHTS: Final[Mapping[str, frozenset[str]]] = {
    "readAnyDatabase": RIGHTS["read"],
    "readWriteAnyDatabase": RIGHTS["readWrite"],
    "dbAdminAnyDatabase": RIGHTS["dbAdmin"],
    "userAdminAnyDatabase": RIGHTS["userAdmin"],
    "root": _ALL | {"server"},
}
"""The rights that a role of the database `admin` gives on every database.

`server`: commands about the server as a whole.
"""


class Role(msgspec.Struct, frozen=True):
    """A role on a database."""

    role: str
    db: str


class User(msgspec.Struct, frozen=True):
    """A user of the server.

    `db`: the database at which the user logs in. `credentials`: by mechanism. `custom`: the administrator's own data
    about the user, as BSON in base64. `id`: a UUID. `fixed`: the user comes from the settings, and no command changes
    it.
    """

    name: str
    db: str
    roles: tuple[Role, ...] = ()
    credentials: dict[str, Credential] = {}
    custom: str = ""
    id: str = ""
    fixed: bool = False

    @property
    def key(self) -> str:
        """The user's unique name, `db.name`."""
        return f"{self.db}.{self.name}"

    def has_right(self, right: str, database: str) -> bool:
        """Return True if one of the user's roles gives this right on a database."""
        for role in self.roles:
            here = role.db == database and right in RIGHTS.get(role.role, ())
            if here or (role.db == "admin" and right in ALL_DATABASE_RIGHTS.get(role.role, ())):
                return True
        return False


def rights_of(user: User) -> dict[str, tuple[str, ...]]:
    """The rights of a user by database; the empty name stands for every database."""
    found: dict[str, set[str]] = {}
    for role in user.roles:
        if role.db == "admin" and role.role in ALL_DATABASE_RIGHTS:
            found.setdefault("", set()).update(ALL_DATABASE_RIGHTS[role.role])
        else:
            found.setdefault(role.db, set()).update(RIGHTS.get(role.role, ()))
    return {database: tuple(sorted(rights)) for database, rights in found.items()}


def check_role(role: Role) -> None:
    """Raise MqlError 31 for a role that does not exist."""
    if role.role in RIGHTS or (role.db == "admin" and role.role in ALL_DATABASE_RIGHTS):
        return
    raise MqlError(31, f"Could not find role: {role.role}@{role.db}")
