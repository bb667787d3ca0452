"""The suites: whose tests they are, how the server is started for them, and what they have to know of it."""

from __future__ import annotations

import re
import shlex
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
from runners import GO, PYTEST, Runner, go_tests
from server import MAYFLY, mayfly
from suite.applicability import NOT_APPLICABLE

from mayflydb.frontends.cosmos.auth import WELL_KNOWN_KEY

HERE = Path(__file__).parent

Environment = Mapping[str, str]

# The versions that Mayfly's own checks in Go are pinned to, by the last name of a module that is no version.
GO_MODULES = {
    re.sub(r"/v\d+$", "", module).rpartition("/")[2]: version
    for module, version in re.findall(
        r"^\s(\S+/\S+) v(\S+)",
        (HERE.parent / "tests" / "clients" / "go" / "go.mod").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
}


class Suite(msgspec.Struct, frozen=True):
    """One client's tests. `word` chooses it on the command line; `package` is what publishes it; `title` heads its section.

    `root`: where the runner is started, below the unpacked distribution. `names` lists the files with tests below a root.
    `serving` starts a server for one file, logging to a path, and gives what the file's environment has to say of it; `needs`
    tells from the message of a skip what the test needs that is not here, None for the suite's own skips. `plugins` of pytest,
    `settings` its ini file, `path` what is importable besides.
    """

    word: str
    package: str
    title: str
    head: str
    root: str
    names: Callable[[Path], list[str]]
    serving: Callable[[Path], Any]
    needs: Callable[[str], str | None]
    settings: Path | None = None
    plugins: tuple[str, ...] = ()
    path: tuple[Path, ...] = ()
    runner: Runner = PYTEST

    @property
    def version(self) -> str:
        return GO_MODULES.get(self.package) or metadata.version(self.package)

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

MONGO_HEAD = """The source distribution of `pymongo` carries MongoDB's specification tests, with the runner for those in the
unified format. These are the tests of the same files that pymongo's authors wrote in Python. They are as published, and find a
`mongos` with commands for tests. *Not applicable* is what they hold for replica sets, other releases or other set-ups, by
requirements of their own."""

UNIFIED_HEAD = """[MongoDB's specifications](https://github.com/mongodb/specifications) have tests in a unified format, which
every driver runs: what is sent, what comes back, what the collections hold afterwards. The source distribution of `pymongo`
carries them with a runner, and a file in Python for each specification. They are as published, and find a `mongos` with
commands for tests. *Not applicable* is what they hold for replica sets, other releases or other set-ups, by requirements of
their own. Client-side encryption, which is the driver's own and needs services of a cloud, is not run."""

# Those of its files with tests in the unified format, of which client-side encryption and logins by OIDC are left out.
_MAKES_UNIFIED = "generate_test_classes("
_LEFT_OUT = ("test/test_encryption.py", "test/test_auth_oidc.py")
# Those that also have others, which ask a server.
MONGO_FILES = (
    "change_stream",
    "index_management",
    "read_write_concern_spec",
    "unified_format",
    "versioned_api_integration",
)
REQUIREMENTS = "another topology, release or set-up of the server (the test's `runOnRequirements`)"


def _mongo_names(tests: Path) -> list[str]:
    return [name for name in (f"test/test_{each}.py" for each in MONGO_FILES) if (tests / name).exists()]


def _unified_names(tests: Path) -> list[str]:
    made = [path for path in (tests / "test").glob("test_*.py") if _MAKES_UNIFIED in path.read_text(encoding="utf-8")]
    return [name for name in sorted(path.relative_to(tests).as_posix() for path in made) if name not in _LEFT_OUT]


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
    settings=HERE / "mongo" / "pytest.ini",
    plugins=("prose_alone",),
    path=(HERE / "mongo",),
)

UNIFIED = Suite(
    word="unified",
    package="pymongo",
    title="MongoDB: the unified specifications",
    head=UNIFIED_HEAD,
    root="",
    names=_unified_names,
    serving=_mongo_serving,
    needs=_mongo_needs,
    settings=HERE / "mongo" / "pytest.ini",
    plugins=("unified_alone",),
    path=(HERE / "mongo",),
)

# --- ydb -------------------------------------------------------------------------------------------------------------

YDB_HEAD = """The source distribution of the vendor's `ydb` for Python carries its authors' tests, of the client by itself and
against a container. They are as published; the container that they start, kill and start again is a Mayfly
(`compatibility/ydb`).
*Not applicable* is what is about coordination nodes, which Mayfly does not have."""

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

# --- ydb-go-sdk ------------------------------------------------------------------------------------------------------

GO_HEAD = """The module `github.com/ydb-platform/ydb-go-sdk/v3` carries its authors' integration tests, which ask a running YDB.
They are as published, in the version that Mayfly's own checks in Go use, and are told that the server is YDB 25.3. A test with
subtests counts as its subtests."""

# The suite skips what is newer than the server.
GO_YDB_VERSION = "25.3"


def _go_names(tests: Path) -> list[str]:
    return sorted(path.name for path in tests.glob("*_test.go") if go_tests(path))


@contextmanager
def _go_serving(log: Path) -> Iterator[Environment]:
    password, certificate = log.with_suffix(".password"), log.with_suffix(".pem")
    password.write_text(YDB_PASSWORD, encoding="utf-8")
    ports = ("--mongo-port", "-1", "--ydb-port", "0", "--ydb-tls-port", "0")
    with mayfly(log, *ports, "--ydb-password-file", str(password), "--no-ydb-auth") as announced:
        export = [str(MAYFLY), "--url", announced["admin"], "cert", "export", str(certificate)]
        subprocess.run(export, check=True, stdout=subprocess.DEVNULL)
        ydb = announced["ydb"]
        yield {
            "YDB_CONNECTION_STRING": ydb["endpoint"].replace("127.0.0.1", "localhost") + ydb["database"],
            "YDB_CONNECTION_STRING_SECURE": ydb["tls_endpoint"].replace("127.0.0.1", "localhost") + ydb["database"],
            "YDB_SSL_ROOT_CERTIFICATES_FILE": str(certificate),
            "YDB_VERSION": GO_YDB_VERSION,
            "HIDE_APPLICATION_OUTPUT": "1",
        }


YDB_GO = Suite(
    word="ydb-go",
    package="ydb-go-sdk",
    title="YDB: `ydb-go-sdk`",
    head=GO_HEAD,
    root="tests/integration",
    names=_go_names,
    serving=_go_serving,
    needs=_needs,
    runner=GO,
)

ALL = (COSMOS, MONGO, UNIFIED, YDB, SQLALCHEMY, YDB_GO)
