"""Every command for every kind of user: who is refused with 13, and who is not.

The rights stand here once more, by hand: a command that is new, or that lost its check, is missed or found here.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import pytest

from mayflydb.clock import VirtualClock
from mayflydb.engine.catalog import Definition
from mayflydb.engine.open import open_engine
from mayflydb.frontends.mongo.accounts.roles import Role, User
from mayflydb.frontends.mongo.app import MongoApp
from mayflydb.frontends.mongo.commands.explain import _READS as EXPLAINED
from mayflydb.frontends.mongo.commands.table import HANDLERS
from mayflydb.frontends.mongo.options import Options
from mayflydb.frontends.mongo.protocol.messages import OP_MSG, Message
from mayflydb.frontends.mongo.state import ConnectionState
from mayflydb.model.instant import from_rfc3339
from mayflydb.query.mongo.values import decode, encode
from store_suite.conftest import STORES

Body = dict[str, Any]
OTHERS_FIND: Final[Body] = {"resource": {"db": "other", "collection": ""}, "actions": ["find"]}
NO_MATCH: Final[Body] = {"delete": 0, "filter": {"a": 1}}

USERS: Final[dict[str, tuple[Role, ...] | None]] = {
    "none": None,
    "plain": (),
    "stranger": (Role("dbOwner", "other"), Role("dbOwner", "local"), Role("read", "admin")),
    "reader": (Role("read", "shop"),),
    "writer": (Role("readWrite", "shop"),),
    "shaper": (Role("dbAdmin", "shop"),),
    "keeper": (Role("userAdmin", "shop"),),
    "owner": (Role("dbOwner", "shop"),),
    "everywhere": (Role("readAnyDatabase", "admin"),),
    "monitor": (Role("clusterMonitor", "admin"),),
    "host": (Role("hostManager", "admin"),),
    "root": (Role("root", "admin"),),
}
"""Users by their roles; None: no login."""

ALL: Final = frozenset(USERS)
LOGGED_IN: Final = ALL - {"none"}
READERS: Final = frozenset({"reader", "writer", "owner", "everywhere", "root"})
WRITERS: Final = frozenset({"writer", "owner", "root"})
SHAPERS: Final = frozenset({"writer", "shaper", "owner", "root"})
KEEPERS: Final = frozenset({"keeper", "owner", "root"})
ROOT: Final = frozenset({"root"})
MONITORS: Final = frozenset({"monitor", "root"})
HOSTS: Final = frozenset({"host", "root"})
STATISTICIANS: Final = READERS | {"shaper", "monitor"}

WHO: Final[dict[frozenset[str], tuple[str, ...]]] = {
    ALL: (
        "hello", "isMaster", "ismaster", "ping", "buildInfo", "buildinfo", "authenticate", "saslStart", "saslContinue", "logout",
        "whatsmyuri", "connectionStatus", "endSessions", "features",
    ),
    LOGGED_IN: (
        "startSession", "refreshSessions", "killSessions", "commitTransaction", "abortTransaction", "listCommands",
        "getLastRequestStatistics", "listDatabases", "validateDBMetadata",
    ),
    READERS: (
        "find", "getMore", "killCursors", "count", "distinct", "listIndexes", "listCollections", "aggregate", "explain", "dbHash",
        "dbhash", "mapReduce", "mapreduce", "validate",
    ),
    STATISTICIANS: ("collStats", "collstats", "dbStats", "dbstats", "profile", "planCacheListFilters"),
    WRITERS: ("insert", "update", "delete", "findAndModify", "findandmodify"),
    SHAPERS: (
        "create", "drop", "dropDatabase", "createIndexes", "dropIndexes", "deleteIndexes", "collMod", "createSearchIndexes",
        "updateSearchIndex", "dropSearchIndex", "customAction", "convertToCapped", "reIndex", "compact",
        "cloneCollectionAsCapped",
        "planCacheClear", "planCacheClearFilters",
        "planCacheSetFilter",
    ),
    KEEPERS: (
        "createUser", "updateUser", "dropUser", "dropAllUsersFromDatabase", "grantRolesToUser", "revokeRolesFromUser",
        "createRole", "updateRole", "dropRole", "dropAllRolesFromDatabase", "grantRolesToRole", "revokeRolesFromRole",
        "grantPrivilegesToRole", "revokePrivilegesFromRole",
    ),
    MONITORS: (
        "getParameter", "serverStatus", "hostInfo", "getCmdLineOpts", "getLog", "replSetGetStatus", "replSetGetConfig",
        "currentOp", "top", "lockInfo", "connPoolStats", "listShards", "balancerStatus", "getDefaultRWConcern",
        "getDiagnosticData",
    ),
    HOSTS: (
        "setParameter", "configureFailPoint", "killAllSessions", "killOp", "fsync", "fsyncUnlock", "setDefaultRWConcern",
        "setFeatureCompatibilityVersion", "invalidateUserCache",
    ),
}  # fmt: skip
"""The commands by those who may run them on the database `shop`, or `admin` where a command belongs there."""

BY_ARGUMENTS: Final = (
    "bulkWrite", "renameCollection", "shardCollection", "usersInfo", "rolesInfo", "dataSize", "datasize",
)  # fmt: skip
"""Commands that any login may send, and whose arguments decide: they have rows below."""

OF_ARGUMENTS: Final[list[tuple[str, Body, frozenset[str]]]] = [
    ("admin", {"bulkWrite": 1, "ops": [NO_MATCH], "nsInfo": [{"ns": "shop.c"}]}, WRITERS),
    ("admin", {"bulkWrite": 1, "ops": [NO_MATCH], "nsInfo": [{"ns": "other.c"}]}, frozenset({"stranger", "root"})),
    ("admin", {"renameCollection": "shop.c", "to": "shop.d"}, SHAPERS),
    ("admin", {"renameCollection": "shop.c", "to": "other.d"}, ROOT),
    ("admin", {"renameCollection": "other.c", "to": "shop.d"}, ROOT),
    ("admin", {"shardCollection": "shop.c", "key": {"a": "hashed"}}, SHAPERS),
    ("shop", {"usersInfo": 1}, KEEPERS),
    ("shop", {"rolesInfo": 1}, KEEPERS),
    ("shop", {"rolesInfo": "someone"}, KEEPERS),
    ("shop", {"rolesInfo": {"role": "read", "db": "shop"}}, KEEPERS | {"reader"}),
    ("shop", {"createRole": "x", "roles": [], "privileges": [OTHERS_FIND]}, frozenset({"keeper", "owner", "root"})),
    ("admin", {"createRole": "x", "roles": [], "privileges": [OTHERS_FIND]}, ROOT),
    ("other", {"dataSize": "shop.c"}, READERS),
    ("other", {"datasize": "shop.c"}, READERS),
    ("shop", {"aggregate": "c", "cursor": {}, "pipeline": [{"$collStats": {}}]}, STATISTICIANS),
    ("shop", {"aggregate": "c", "cursor": {}, "pipeline": [{"$indexStats": {}}]}, STATISTICIANS),
    ("shop", {"aggregate": "c", "cursor": {}, "pipeline": [{"$indexStats": {}}, {"$unionWith": "d"}]}, READERS),
    ("admin", {"aggregate": 1, "cursor": {}, "pipeline": [{"$currentOp": {}}]}, LOGGED_IN),
    ("admin", {"aggregate": 1, "cursor": {}, "pipeline": [{"$currentOp": {"allUsers": True}}]}, MONITORS),
    ("shop", {"listCollections": 1, "nameOnly": True, "authorizedCollections": True}, LOGGED_IN),
    ("shop", {"usersInfo": "someone"}, KEEPERS),
    ("admin", {"usersInfo": {"forAllDBs": True}}, ROOT),
    ("admin", {"usersInfo": 1}, ROOT),
    ("shop", {"aggregate": "c", "cursor": {}, "pipeline": [{"$out": "d"}]}, WRITERS),
    ("shop", {"aggregate": "c", "cursor": {}, "pipeline": [{"$merge": "d"}]}, WRITERS),
    ("shop", {"aggregate": "c", "cursor": {}, "pipeline": [{"$out": {"db": "other", "coll": "d"}}]}, ROOT),
    ("shop", {"aggregate": "c", "cursor": {}, "pipeline": [{"$merge": {"into": {"db": "other", "coll": "d"}}}]}, ROOT),
    ("shop", {"aggregate": "c", "cursor": {}, "pipeline": [{"$lookup": {"from": "d", "as": "x", "pipeline": []}}]}, READERS),
    ("shop", {"aggregate": "c", "cursor": {}, "pipeline": [{"$unionWith": "d"}]}, READERS),
    ("shop", {"aggregate": 1, "cursor": {}, "pipeline": [{"$listLocalSessions": {"allUsers": True}}]}, MONITORS),
    ("shop", {"aggregate": "c", "explain": True, "pipeline": [{"$out": "d"}]}, WRITERS),
    ("shop", {"explain": {"aggregate": "c", "cursor": {}, "pipeline": [{"$merge": "d"}]}}, WRITERS),
    ("shop", {"explain": {"aggregate": "c", "cursor": {}, "pipeline": []}}, READERS),
    ("shop", {"createUser": "x", "pwd": "p", "roles": []}, KEEPERS),
    ("shop", {"createUser": "x", "pwd": "p", "roles": [{"role": "read", "db": "other"}]}, ROOT),
    ("shop", {"createUser": "x", "pwd": "p", "roles": [{"role": "root", "db": "admin"}]}, ROOT),
    ("admin", {"grantRolesToUser": "root", "roles": ["root"]}, ROOT),
    ("admin", {"dropUser": "root"}, ROOT),
]  # fmt: skip
"""(database, command, those who are not refused)."""

EXPLAINS: Final = {
    "find": READERS, "aggregate": READERS, "count": READERS, "distinct": READERS,
    "update": WRITERS, "delete": WRITERS, "findAndModify": WRITERS, "findandmodify": WRITERS,
}  # fmt: skip

ROWS: Final = [(name, who) for who, names in WHO.items() for name in names]


class Front:
    """A front end that demands logins, and connections of all users."""

    def __init__(self, runner: asyncio.Runner) -> None:
        self.runner = runner
        self.store = runner.run(self._open())
        clock = VirtualClock(from_rfc3339("2030-01-01T00:00:00Z"))
        clock.freeze()
        self.engine = runner.run(open_engine(self.store, clock))
        options = Options(auth=True, test_commands=True)
        self.app = MongoApp(self.engine, options, random.SystemRandom(), lambda: 0)

    async def _open(self) -> Any:
        return await STORES["contract-sqlite"](lambda kind: ":memory:")

    def code(self, user: str, database: str, body: Body) -> int | None:
        """Run a command on a connection of its own, and return the code of its error."""
        roles = USERS[user]
        found = None if roles is None else User(user, "admin", roles)
        message = Message(0, OP_MSG, encode({**body, "$db": database}), {})
        answer = decode(self.runner.run(self.app.answer(message, ConnectionState(1, user=found))))
        return None if answer["ok"] == 1 else int(answer["code"])

    def admitted(self, database: str, body: Body) -> set[str]:
        return {user for user in USERS if self.code(user, database, body) != 13}

    def close(self) -> None:
        self.runner.run(self.engine.indexes.close())
        self.runner.run(self.store.close())


@pytest.fixture(scope="module")
def front() -> Iterator[Front]:
    with asyncio.Runner() as runner:
        made = Front(runner)
        for name in ("c", "d"):
            for database in ("shop", "other"):
                assert made.code("root", database, {"insert": name, "documents": [{"_id": 1}]}) is None
        yield made
        made.close()


def test_every_command_has_its_row() -> None:
    assert sorted([name for name, _ in ROWS] + [*BY_ARGUMENTS]) == sorted(HANDLERS)
    assert {next(iter(body)) for _, body, _ in OF_ARGUMENTS} >= {*BY_ARGUMENTS}
    assert set(EXPLAINS) == set(EXPLAINED)


@pytest.mark.parametrize(("name", "who"), ROWS, ids=[name for name, _ in ROWS])
def test_who_may_run_a_command(front: Front, name: str, who: frozenset[str]) -> None:
    database = "admin" if HANDLERS[name].admin_only else "shop"
    # Not complete: those who may run it get another error, and nothing is changed.
    assert front.admitted(database, {name: "x"}) == who


@pytest.mark.parametrize(("database", "body", "who"), OF_ARGUMENTS, ids=[str(body)[:60] for _, body, _ in OF_ARGUMENTS])
def test_who_may_run_it_so(front: Front, database: str, body: Body, who: frozenset[str]) -> None:
    assert front.admitted(database, body) == who


@pytest.mark.parametrize(("name", "who"), EXPLAINS.items())
def test_a_plan_is_shown_to_those_who_may_run_the_command(front: Front, name: str, who: frozenset[str]) -> None:
    arguments: dict[str, Body] = {
        "update": {"updates": [{"q": {}, "u": {"$set": {"a": 1}}}]},
        "delete": {"deletes": [{"q": {}, "limit": 0}]},
        "aggregate": {"pipeline": [], "cursor": {}},
        "distinct": {"key": "a"},
    }
    for verbosity in ("queryPlanner", "executionStats"):
        body = {"explain": {name: "c", **arguments.get(name, {})}, "verbosity": verbosity}
        assert {user for user in USERS if front.code(user, "shop", body) is None} == who


def test_a_user_sees_the_databases_that_it_may_read(front: Front) -> None:
    def names(user: str) -> list[str]:
        roles = USERS[user]
        message = Message(0, OP_MSG, encode({"listDatabases": 1, "nameOnly": True, "$db": "admin"}), {})
        state = ConnectionState(1, user=None if roles is None else User(user, "admin", roles))
        return [each["name"] for each in decode(front.runner.run(front.app.answer(message, state)))["databases"]]

    seen = {user: [name for name in names(user) if name in ("shop", "other")] for user in LOGGED_IN}
    both = ["other", "shop"]
    assert {user: sorted(found) for user, found in seen.items()} == {
        "plain": [], "stranger": ["other"], "reader": ["shop"], "writer": ["shop"], "shaper": [], "keeper": [],
        "owner": ["shop"], "everywhere": both, "monitor": both, "host": [], "root": both,
    }  # fmt: skip


def test_a_user_who_was_dropped_elsewhere_is_refused_at_the_next_command(front: Front) -> None:
    """Another node writes to the catalogue alone: no call of this process tells of it."""

    async def change() -> list[int | None]:
        accounts, companions, state = front.app.services.accounts, front.engine.companions, ConnectionState(99)
        now = await front.engine.now()
        user = User("ann", "shop", (Role("read", "shop"),), id="1")
        await accounts.create(user, now)
        await accounts.log_in(state, user)

        async def code(body: Body) -> int | None:
            answer = decode(await front.app.answer(Message(0, OP_MSG, encode({**body, "$db": "shop"}), {}), state))
            return None if answer["ok"] == 1 else int(answer["code"])

        async def define(after: User) -> None:
            home = await front.engine.node(*(await accounts._shelf.home_path() or ()), user.key)
            assert home is not None
            definition = Definition(msgspec.to_builtins(after), now)
            await companions.replace(home.id, user.key, lambda _: definition, now)

        found = [await code({"count": "c"}), await code({"delete": "c", "deletes": [{"q": {"a": 1}, "limit": 0}]})]
        await define(msgspec.structs.replace(user, roles=(Role("readWrite", "shop"),)))
        found.append(await code({"delete": "c", "deletes": [{"q": {"a": 1}, "limit": 0}]}))
        await define(msgspec.structs.replace(user, id="2"))
        found.append(await code({"count": "c"}))
        assert state.user is None
        return found

    assert front.runner.run(change()) == [None, 13, None, 13]
