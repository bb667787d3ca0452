"""The suites: whose tests they are, how the server is started for them, and what they have to know of it."""

from __future__ import annotations

import shlex
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
from server import MAYFLY, mayfly
from suite.applicability import NOT_APPLICABLE

from mayflydb.frontends.cosmos.auth import WELL_KNOWN_KEY

HERE = Path(__file__).parent

Environment = Mapping[str, str]


class Suite(msgspec.Struct, frozen=True):
    """One client's tests. `word` chooses it on the command line; `package` is what publishes it; `title` heads its section.

    `root`: where pytest is started, below the unpacked distribution. `names` lists the files with tests below a root. `plugins`
    of pytest, `settings` its ini file, `path` what is importable besides; `serving` starts a server for one file, logging to a
    path, and gives what the file's environment has to say of it; `needs` tells from the message of a skip what the test needs
    that is not here, None for the suite's own skips.
    """

    word: str
    package: str
    title: str
    head: str
    root: str
    names: Callable[[Path], list[str]]
    serving: Callable[[Path], Any]
    needs: Callable[[str], str | None]
    settings: Path
    plugins: tuple[str, ...] = ()
    path: tuple[Path, ...] = ()

    @property
    def version(self) -> str:
        return metadata.version(self.package)

    def tests(self, place: Path) -> Path:
        """Where its tests lie, unpacked in `place`."""
        return place / f"{self.package.replace('-', '_')}-{self.version}" / self.root


# --- azure-cosmos ----------------------------------------------------------------------------------------------------

COSMOS_HEAD = """The source distribution of Microsoft's `azure-cosmos` for Python carries the tests its authors run. Each Mayfly
is started with `--advertise 127.0.0.1`, which is where Microsoft's emulator sends clients that came by `localhost`.

What the suite needs and the source distribution has not (`devtools_testutils`) is replaced by `compatibility/suite`.
The suite takes port 8081 for an emulator's; the run tells it that its own port is as well. Otherwise its files are as published.
*Not applicable* are tests of what no server on one machine has; *skipped* is what the suite itself skips on an emulator.
Many tests that pass exercise the client alone, with the server replaced by a mock."""

# Asked for as localhost, the vendor's emulator names this; the suite counts on clients going from one to the other.
ADVERTISED = "127.0.0.1"


def _cosmos_names(tests: Path) -> list[str]:
    found = (path.relative_to(tests).as_posix() for path in tests.rglob("test_*.py"))
    return sorted(name for name in found if name != "test_config.py")


@contextmanager
def _cosmos_serving(log: Path) -> Iterator[Environment]:
    with mayfly(log, "--scheme", "https", "--advertise", ADVERTISED, "--mongo-port", "-1") as announced:
        port = urlsplit(announced["admin"]).port
        yield {"ACCOUNT_HOST": f"https://localhost:{port}/", "ACCOUNT_KEY": WELL_KNOWN_KEY}


def _needs(said: str) -> str | None:
    return said.removeprefix(NOT_APPLICABLE) if said.startswith(NOT_APPLICABLE) else None


COSMOS = Suite(
    word="cosmos",
    package="azure-cosmos",
    title="Azure Cosmos DB: `azure-cosmos`",
    head=COSMOS_HEAD,
    root="tests",
    names=_cosmos_names,
    serving=_cosmos_serving,
    needs=_needs,
    settings=HERE / "suite" / "pytest.ini",
    plugins=("pytest_asyncio.plugin", "suite_plugin"),
    path=(HERE / "suite",),
)

# --- pymongo ---------------------------------------------------------------------------------------------------------

MONGO_HEAD = """The source distribution of `pymongo` carries MongoDB's unified specification tests, which every driver runs, with
the runner for them: what is sent, what comes back, what the collections hold afterwards. They are as published, and find a
`mongos` with commands for tests. *Not applicable* is what they hold for replica sets, other releases or other set-ups, by
requirements of their own."""

# Those of its files that run the specifications' tests. The others are tests of the client by itself, or prose.
MONGO_FILES = (
    "change_stream",
    "collection_management",
    "command_logging",
    "command_monitoring",
    "crud_unified",
    "gridfs_spec",
    "index_management",
    "read_write_concern_spec",
    "retryable_reads_unified",
    "retryable_writes_unified",
    "run_command",
    "sessions_unified",
    "transactions_unified",
    "unified_format",
    "versioned_api_integration",
)
REQUIREMENTS = "another topology, release or set-up of the server (the test's `runOnRequirements`)"


def _mongo_names(tests: Path) -> list[str]:
    return [name for name in (f"test/test_{each}.py" for each in MONGO_FILES) if (tests / name).exists()]


@contextmanager
def _mongo_serving(log: Path) -> Iterator[Environment]:
    """The suite takes what answers on the next port for another door to the same cluster: nothing may."""
    while True:
        with ExitStack() as stack:
            announced = stack.enter_context(mayfly(log, "--mongo-port", "0", "--mongo-test-commands"))
            port = urlsplit(announced["mongo"]["uri"]).port or 0
            neighbour = stack.enter_context(socket.socket())
            try:
                neighbour.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            yield {"DB_IP": "127.0.0.1", "DB_PORT": str(port)}
            return


def _mongo_needs(said: str) -> str | None:
    return REQUIREMENTS if "not satisfied" in said else None


MONGO = Suite(
    word="mongo",
    package="pymongo",
    title="MongoDB: `pymongo`",
    head=MONGO_HEAD,
    root="",
    names=_mongo_names,
    serving=_mongo_serving,
    needs=_mongo_needs,
    settings=HERE / "mongo.ini",
)

# --- ydb -------------------------------------------------------------------------------------------------------------

YDB_HEAD = """The source distribution of the vendor's `ydb` for Python carries its authors' tests, of the client by itself and
against a container. They are as published; the container that they start, kill and start again is a Mayfly
(`compatibility/ydb`).
*Not applicable* is what is about topics and coordination nodes, which Mayfly has not."""

# That of the user root in the vendor's container, where nobody has to log in.
YDB_PASSWORD = "1234"


def _ydb_names(tests: Path) -> list[str]:
    return sorted(path.relative_to(tests).as_posix() for path in (tests / "tests").rglob("test_*.py"))


@contextmanager
def _ydb_serving(log: Path) -> Iterator[Environment]:
    password = log.with_suffix(".password")
    password.write_text(YDB_PASSWORD, encoding="utf-8")
    options = ("--mongo-port", "-1", "--ydb-password-file", str(password), "--no-ydb-auth", "--ydb-port")
    with mayfly(log, *options, "0") as announced:
        port = urlsplit(announced["ydb"]["endpoint"]).port or 0
        again = [str(MAYFLY), "serve", "--memory", "-p", "0", *options, str(port)]
        yield {
            "SUITE_SERVER_PORT": str(port),
            "SUITE_SERVER_PID": str(announced["pid"]),
            "SUITE_SERVER_COMMAND": shlex.join(again),
        }


YDB = Suite(
    word="ydb",
    package="ydb",
    title="YDB: `ydb`",
    head=YDB_HEAD,
    root="",
    names=_ydb_names,
    serving=_ydb_serving,
    needs=_needs,
    settings=HERE / "ydb" / "pytest.ini",
    plugins=("pytest_asyncio.plugin", "marked_fixtures", "ydb_plugin"),
    path=(HERE / "ydb",),
)

# --- ydb-sqlalchemy --------------------------------------------------------------------------------------------------

SQLALCHEMY_HEAD = """The source distribution of `ydb-sqlalchemy` carries its tests and, through
them, SQLAlchemy's own suite for dialects. They are as published. What the dialect says it cannot do is *skipped* by the suite."""


@contextmanager
def _sqlalchemy_serving(log: Path) -> Iterator[Environment]:
    with mayfly(log, "--mongo-port", "-1", "--ydb-port", "0") as announced:
        place = announced["ydb"]["endpoint"].removeprefix("grpc://")
        yield {"PYTEST_ADDOPTS": f"--dburi yql+ydb://{place}/local"}


SQLALCHEMY = Suite(
    word="sqlalchemy",
    package="ydb-sqlalchemy",
    title="YDB: `ydb-sqlalchemy`",
    head=SQLALCHEMY_HEAD,
    root="",
    names=_ydb_names,
    serving=_sqlalchemy_serving,
    needs=_needs,
    settings=HERE / "ydb" / "pytest.ini",
    plugins=("marked_fixtures", "sqlalchemy_plugin"),
    path=(HERE / "ydb",),
)

ALL = (COSMOS, MONGO, YDB, SQLALCHEMY)
