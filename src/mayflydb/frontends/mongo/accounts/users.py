"""The users of a server, kept in the catalogue, and what their connections may do."""

from __future__ import annotations

import msgspec

from mayflydb.engine.catalog import Definition, Node
from mayflydb.engine.engine import Engine
from mayflydb.frontends.mongo.accounts.roles import Right, User
from mayflydb.frontends.mongo.state import ConnectionState
from mayflydb.model.errors import Conflict
from mayflydb.model.instant import Instant
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.values import Document, shell

SPACE, COMPANIONS = "mongo", "mongo users"


class Accounts:
    """The users of one server: those given at its start, and those that commands made, which are rows of the catalogue."""

    def __init__(self, engine: Engine, enforced: bool, fixed: tuple[User, ...]) -> None:
        """`enforced`: who has not logged in may do next to nothing."""
        self._engine = engine
        self.enforced = enforced
        self.fixed = {user.key: user for user in fixed}
        self._present: dict[int, ConnectionState] = {}

    def admit(self, connection: ConnectionState, user: User) -> None:
        """This connection has proved to be this user's."""
        connection.user = user
        self._present[connection.id] = connection

    def dismiss(self, connection: ConnectionState) -> None:
        """This connection is nobody's any more."""
        connection.user = connection.login = None
        self._present.pop(connection.id, None)

    def _update_connections(self, key: str, user: User | None) -> None:
        """What a user may do holds from now on for connections too that are logged in already."""
        for connection in list(self._present.values()):
            if connection.user is not None and connection.user.key == key:
                if user is None:
                    self.dismiss(connection)
                else:
                    connection.user = user

    def authorize(self, user: User | None, right: Right, database: str, name: str, body: Document) -> None:
        """MqlError 13 unless a user, None without a login, has the right on a database. `name`, `body`: the command's."""
        if right == "open" or not self.enforced:
            return
        if user is None:
            raise MqlError(13, f"Command {name} requires authentication")
        if right == "anyone" or user.may(right, database):
            return
        # Only the name of what it is about: arguments may hold what nobody should find in a log.
        about = next(iter(body.values()), None)
        told = shell({name: about if isinstance(about, str | int | float) else 1})
        raise MqlError(13, f"not authorized on {database} to execute command {told}")

    async def find(self, db: str, name: str) -> User | None:
        """The user, if there is one."""
        fixed = self.fixed.get(f"{db}.{name}")
        if fixed is not None:
            return fixed
        home = await self._home()
        node = None if home is None else await self._engine.node(*home, f"{db}.{name}")
        return None if node is None else _user_of(node)

    async def all(self) -> list[User]:
        """Every user, by database and name."""
        home = await self._home()
        root = None if home is None else await self._engine.node(*home)
        rows = [] if root is None else await self._engine.children(root.id)
        return sorted([*self.fixed.values(), *map(_user_of, rows)], key=lambda user: (user.db, user.name))

    async def create(self, user: User, now: Instant) -> None:
        """MqlError 51003 if there is one of this name."""
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
        """Another description of a user that there is. MqlError 11 if it has gone."""
        node = await self._node(user)
        await self._engine.companions.replace(node.id, user.key, lambda _: _definition(user, now), now)
        self._update_connections(user.key, user)

    async def drop(self, user: User) -> None:
        """MqlError 11 if it has gone already."""
        node = await self._node(user)
        if not await self._engine.companions.drop(node.parent, node.name):
            raise missing_user(user.name, user.db)
        self._update_connections(user.key, None)

    async def _home(self) -> tuple[str, str] | None:
        space = await self._engine.node(SPACE)
        return None if space is None else (COMPANIONS, str(space.id))

    async def _node(self, user: User) -> Node:
        if user.key in self.fixed:
            raise MqlError(20, f"{user.name}@{user.db} is given by the server's settings, and only changed there")
        home = await self._home()
        node = None if home is None else await self._engine.node(*home, user.key)
        if node is None:
            raise missing_user(user.name, user.db)
        return node


def missing_user(name: str, db: str) -> MqlError:
    """11."""
    return MqlError(11, f"User '{name}@{db}' not found")


def _definition(user: User, now: Instant) -> Definition:
    return Definition(msgspec.to_builtins(user), now)


def _user_of(node: Node) -> User:
    return msgspec.convert(node.body, User)
