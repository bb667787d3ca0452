"""The users of a server, stored in the catalogue, and the rights of their connections."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from mayflydb.engine.catalog import Node
from mayflydb.engine.engine import Engine
from mayflydb.frontends.mongo.accounts.custom_roles import CustomRoles
from mayflydb.frontends.mongo.accounts.privileges import grants_of
from mayflydb.frontends.mongo.accounts.roles import Right, Role, User, is_built_in
from mayflydb.frontends.mongo.accounts.storage import Shelf
from mayflydb.frontends.mongo.state import ConnectionState
from mayflydb.model.errors import Conflict
from mayflydb.model.instant import Instant
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.values import Document, format_value

COMPANIONS = "mongo users"


class Accounts:
    """The users of one server: those of the settings, and those that commands created, which are rows of the catalogue."""

    def __init__(
        self, engine: Engine, enforced: bool, fixed: tuple[User, ...], end_sessions: Callable[[str], None]
    ) -> None:
        """`enforced`: a connection without a login may run only commands of the right `open`.

        `end_sessions`: ends the sessions of a user who is gone, by the user's key.
        """
        self._end_sessions = end_sessions
        self._engine = engine
        self._shelf = Shelf(engine, COMPANIONS)
        self.roles = CustomRoles(engine)
        self.enforced = enforced
        self.fixed = {user.key: user for user in fixed}
        self._logged_in: dict[int, ConnectionState] = {}
        self._seen_version = engine.catalog_version

    async def log_in(self, connection: ConnectionState, user: User) -> None:
        """Log a connection in as a user whose proof has been checked."""
        connection.user = user
        # Known at once, so that a change of the user meanwhile finds the connection.
        self._logged_in[connection.id] = connection
        with_grants = await self.add_grants(user)
        if connection.user is user:
            connection.user = with_grants

    def log_out(self, connection: ConnectionState) -> None:
        """Log a connection out."""
        connection.user = connection.login = None
        self._logged_in.pop(connection.id, None)

    async def add_grants(self, user: User) -> User:
        """Return a user with what the roles give that commands created."""
        if all(map(is_built_in, user.roles)):
            return user
        given = await self.roles.resolve(user.roles)
        return msgspec.structs.replace(user, inherited=given.roles, grants=grants_of(given.privileges))

    @property
    def may_have_changed(self) -> bool:
        """True if the catalogue has changed since `refresh`, here or on another node."""
        return self.enforced and self._engine.catalog_version != self._seen_version

    async def refresh(self) -> None:
        """Give connections that are logged in the rights that their users have now; a user who is gone is logged out."""
        # Noted before the users are read: a change in between is found at the next command.
        self._seen_version = self._engine.catalog_version
        users = {each.user.key: each.user for each in self._logged_in.values() if each.user is not None}
        for key, user in users.items():
            found = await self.find(user.db, user.name)
            # Another id: the user was dropped, and another one of that name created.
            is_same = found is not None and found.id == user.id
            self._update_connections(key, await self.add_grants(found) if found is not None and is_same else None)

    def _update_connections(self, key: str, user: User | None) -> None:
        """Apply changed rights of a user, or its removal (None), to connections that are logged in already."""
        if user is None:
            self._end_sessions(key)
        for connection in list(self._logged_in.values()):
            if connection.user is not None and connection.user.key == key:
                if user is None:
                    self.log_out(connection)
                else:
                    connection.user = user

    def has_right(self, user: User | None, right: Right, database: str) -> bool:
        """Return True if a user has the right on a database. `user`: None without a login."""
        if right == "open" or not self.enforced:
            return True
        return user is not None and (right == "anyone" or user.has_right(right, database))

    def refusal(self, user: User | None, database: str, name: str, body: Document) -> MqlError:
        """The error 13 of a command that a user may not run. `user`: None without a login."""
        if user is None:
            return MqlError(13, f"Command {name} requires authentication")
        # Only the command's first value is shown: other arguments may hold secrets, and errors are logged.
        about = next(iter(body.values()), None)
        shown = format_value({name: about if isinstance(about, str | int | float) else 1})
        return MqlError(13, f"not authorized on {database} to execute command {shown}")

    async def find(self, db: str, name: str) -> User | None:
        """Find a user; None: there is none."""
        fixed = self.fixed.get(f"{db}.{name}")
        if fixed is not None:
            return fixed
        node = await self._shelf.find(f"{db}.{name}")
        return None if node is None else _user_of(node)

    async def list_users(self) -> list[User]:
        """All users, ordered by database and name."""
        rows = await self._shelf.list_all()
        return sorted([*self.fixed.values(), *map(_user_of, rows)], key=lambda user: (user.db, user.name))

    async def create(self, user: User, now: Instant) -> None:
        """Create a user. Raise MqlError 51003 if one of this name exists."""
        taken = MqlError(51003, f'User "{user.name}@{user.db}" already exists')
        if user.key in self.fixed:
            raise taken
        try:
            await self._shelf.create(user.key, _body_of(user), now)
        except Conflict:
            raise taken from None

    async def replace(self, user: User, now: Instant) -> None:
        """Replace the definition of a user. Raise MqlError 11 if the user is gone, 20 if the settings define it."""
        node = await self._get_node(user)
        await self._shelf.replace(node, _body_of(user), now)
        self._update_connections(user.key, await self.add_grants(user))

    async def drop(self, user: User) -> None:
        """Drop a user. Raise MqlError 11 if the user is gone, 20 if the settings define it."""
        node = await self._get_node(user)
        if not await self._shelf.drop(node):
            raise missing_user(user.name, user.db)
        # A connection that is logged in loses its rights at once.
        self._update_connections(user.key, None)

    async def drop_roles(self, roles: Iterable[Role], now: Instant) -> None:
        """Drop roles that commands created, and take them from all users and roles."""
        gone = set(roles)
        for user in await self.list_users():
            if not user.fixed and not gone.isdisjoint(user.roles):
                left = tuple(role for role in user.roles if role not in gone)
                await self.replace(msgspec.structs.replace(user, roles=left), now)
        await self.roles.drop(gone, now)
        await self.refresh()

    async def _get_node(self, user: User) -> Node:
        if user.key in self.fixed:
            raise MqlError(20, f"{user.name}@{user.db} is given by the server's settings, and only changed there")
        node = await self._shelf.find(user.key)
        if node is None:
            raise missing_user(user.name, user.db)
        return node


def missing_user(name: str, db: str) -> MqlError:
    """The error 11 of a user who does not exist."""
    return MqlError(11, f"User '{name}@{db}' not found")


def _body_of(user: User) -> dict[str, Any]:
    body: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(user, inherited=(), grants={}))
    return body


def _user_of(node: Node) -> User:
    return msgspec.convert(node.body, User)
