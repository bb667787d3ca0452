"""The users of a server, stored in the catalogue, and the rights of their connections."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from mayflydb.engine.catalog import Definition, Node
from mayflydb.engine.engine import Engine
from mayflydb.frontends.mongo.accounts.roles import Right, User
from mayflydb.frontends.mongo.state import ConnectionState
from mayflydb.model.errors import Conflict
from mayflydb.model.instant import Instant
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.values import Document, format_value

SPACE, COMPANIONS = "mongo", "mongo users"


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
        self.enforced = enforced
        self.fixed = {user.key: user for user in fixed}
        self._logged_in: dict[int, ConnectionState] = {}
        self._seen_version = engine.catalog_version

    def log_in(self, connection: ConnectionState, user: User) -> None:
        """Log a connection in as a user whose proof has been checked."""
        connection.user = user
        self._logged_in[connection.id] = connection

    def log_out(self, connection: ConnectionState) -> None:
        """Log a connection out."""
        connection.user = connection.login = None
        self._logged_in.pop(connection.id, None)

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
            self._update_connections(key, found if found is not None and found.id == user.id else None)

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

    def authorize(self, user: User | None, right: Right, database: str, name: str, body: Document) -> None:
        """Raise MqlError 13 unless a user has the right on a database.

        `user`: None without a login. `name`, `body`: the command's.
        """
        if self.has_right(user, right, database):
            return
        if user is None:
            raise MqlError(13, f"Command {name} requires authentication")
        # Only the command's first value is shown: other arguments may hold secrets, and errors are logged.
        about = next(iter(body.values()), None)
        shown = format_value({name: about if isinstance(about, str | int | float) else 1})
        raise MqlError(13, f"not authorized on {database} to execute command {shown}")

    async def find(self, db: str, name: str) -> User | None:
        """Find a user; None: there is none."""
        fixed = self.fixed.get(f"{db}.{name}")
        if fixed is not None:
            return fixed
        home = await self._home_path()
        node = None if home is None else await self._engine.node(*home, f"{db}.{name}")
        return None if node is None else _user_of(node)

    async def list_users(self) -> list[User]:
        """All users, ordered by database and name."""
        home = await self._home_path()
        root = None if home is None else await self._engine.node(*home)
        rows = [] if root is None else await self._engine.children(root.id)
        return sorted([*self.fixed.values(), *map(_user_of, rows)], key=lambda user: (user.db, user.name))

    async def create(self, user: User, now: Instant) -> None:
        """Create a user. Raise MqlError 51003 if one of this name exists."""
        taken = MqlError(51003, f'User "{user.name}@{user.db}" already exists')
        if user.key in self.fixed:
            raise taken
        space = await self._engine.definitions.space(SPACE, now)
        home = await self._engine.companions.home(COMPANIONS, space.id, now)
        try:
            await self._engine.companions.create(home.id, user.key, lambda _: _definition(user, now))
        except Conflict:
            raise taken from None

    async def replace(self, user: User, now: Instant) -> None:
        """Replace the definition of a user. Raise MqlError 11 if the user is gone, 20 if the settings define it."""
        node = await self._get_node(user)
        await self._engine.companions.replace(node.id, user.key, lambda _: _definition(user, now), now)
        self._update_connections(user.key, user)

    async def drop(self, user: User) -> None:
        """Drop a user. Raise MqlError 11 if the user is gone, 20 if the settings define it."""
        node = await self._get_node(user)
        if not await self._engine.companions.drop(node.parent, node.name):
            raise missing_user(user.name, user.db)
        # A connection that is logged in loses its rights at once.
        self._update_connections(user.key, None)

    async def _home_path(self) -> tuple[str, str] | None:
        space = await self._engine.node(SPACE)
        return None if space is None else (COMPANIONS, str(space.id))

    async def _get_node(self, user: User) -> Node:
        if user.key in self.fixed:
            raise MqlError(20, f"{user.name}@{user.db} is given by the server's settings, and only changed there")
        home = await self._home_path()
        node = None if home is None else await self._engine.node(*home, user.key)
        if node is None:
            raise missing_user(user.name, user.db)
        return node


def missing_user(name: str, db: str) -> MqlError:
    """The error 11 of a user who does not exist."""
    return MqlError(11, f"User '{name}@{db}' not found")


def _definition(user: User, now: Instant) -> Definition:
    return Definition(msgspec.to_builtins(user), now)


def _user_of(node: Node) -> User:
    return msgspec.convert(node.body, User)
