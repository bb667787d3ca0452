"""The pytest plugin. pytest loads it in every environment that has Mayfly, so it imports little but pytest."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from azure.cosmos import CosmosClient
    from pymongo import MongoClient

    from mayflydb.embedded import ServerHandle

LAST_EXPIRIES = 10

CLOCK = pytest.StashKey[str]()
"""The clock of a test: virtual or system."""

SERVER = pytest.StashKey["ServerHandle"]()
"""The server of a test."""


class _AsCompiled:
    """Finds Mayfly's modules before pytest does.

    pytest rewrites the asserts of every package that brings a plugin, which made the first run in a fresh environment seconds
    longer. Mayfly's asserts are not those of a test.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return PathFinder.find_spec(fullname, path, target) if fullname.startswith("mayflydb.") else None


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Install the finder before a conftest imports a module of Mayfly."""
    finder = _AsCompiled()
    sys.meta_path.insert(0, finder)
    early_config.add_cleanup(lambda: sys.meta_path.remove(finder) if finder in sys.meta_path else None)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("mayfly")
    url = "a running server for tests, which empty it: its address, or its ready file; its clock is virtual"
    group.addoption("--mayfly-url", metavar="URL", help=url)
    parser.addini("mayfly_url", url)
    mode = "where the server runs: thread (default) or process"
    group.addoption("--mayfly-mode", choices=("thread", "process"), help=mode)
    parser.addini("mayfly_mode", mode)
    clock = "virtual (default), which tests move, or system: that of the tests' process, as time-machine and freezegun move it"
    group.addoption("--mayfly-clock", choices=("virtual", "system"), help=clock)
    parser.addini("mayfly_clock", clock)
    seed = "a file or folder of resources that each test finds; may be repeated"
    group.addoption("--mayfly-seed", action="append", metavar="PATH", help=seed)
    parser.addini("mayfly_seed", seed, type="paths")


def pytest_configure(config: pytest.Config) -> None:
    # Before a test loads gRPC: see `serving.ydb_port.DISABLE_GRPC_FORK_HANDLERS`.
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
    config.addinivalue_line(
        "markers",
        "mayfly(start, clock, seed, keep): the time at which the test's clock stands, such as 2026-01-01T00:00:00Z; system for a"
        " clock that goes with the process's, as time-machine and freezegun move it; files of records, beside the test's file;"
        " True for a test that goes on with what the test before has left",
    )


@pytest.fixture(scope="session")
def mayfly_server(pytestconfig: pytest.Config) -> Iterator[ServerHandle]:
    """A server for the whole session: in memory, on free ports, with a virtual clock, unless the options say otherwise."""
    from mayflydb.testing.fixtures import start_server

    with start_server(pytestconfig, dict.fromkeys(("url", "mode", "clock", "seed"))) as server:
        yield server


@pytest.fixture
def mayfly(request: pytest.FixtureRequest, mayfly_server: ServerHandle) -> ServerHandle:
    """The server, empty, its clock frozen at a whole second: the session's start, or the time in the test's marker.

    With the marker's `clock="system"`, or that option, its clock goes with the process's. With `seed`, files of resources are
    applied. With `keep`, records and clock are those that the test before has left.
    """
    from mayflydb.testing.fixtures import as_files, begin

    marker = request.node.get_closest_marker("mayfly")
    given = {} if marker is None else _check_marker(request.node, marker)
    request.node.stash[SERVER] = mayfly_server
    request.node.stash[CLOCK] = begin(mayfly_server, given)
    mayfly_server.seed(*(request.node.path.parent / each for each in as_files(given.get("seed"))))
    return mayfly_server


def _check_marker(item: pytest.Item, marker: pytest.Mark) -> dict[str, Any]:
    """Return the marker's keywords. UsageError for others, and for a start that is no whole second."""
    given = dict(marker.kwargs)
    if marker.args or not given or given.keys() - {"start", "clock", "seed", "keep"}:
        raise pytest.UsageError(
            f"{item.nodeid}: the marker mayfly takes start=TIME, clock=CLOCK, seed=FILE and keep=True"
        )
    if given.get("clock", "virtual") not in ("virtual", "system"):
        raise pytest.UsageError(f"{item.nodeid}: clock is virtual or system, not {given['clock']!r}")
    if given.get("clock") == "system" and "start" in given:
        raise pytest.UsageError(
            f"{item.nodeid}: start is the time of a virtual clock; with clock='system' travel with time_machine or freezegun"
        )
    if given.get("keep", False) not in (True, False) or (given.get("keep") and "start" in given):
        raise pytest.UsageError(f"{item.nodeid}: keep is True or False, and goes without start")
    if "start" in given:
        _check_start(item, given["start"])
    return given


def _check_start(item: pytest.Item, start: Any) -> None:
    from mayflydb.embedded import instant_of

    try:
        instant = instant_of(start)
    except (ValueError, AttributeError) as error:
        raise pytest.UsageError(f"{item.nodeid}: start={start!r}: {error}") from error
    if instant % 1_000_000:
        raise pytest.UsageError(f"{item.nodeid}: start={start!r} is no whole second")


@pytest.fixture
def mayfly_cosmos(mayfly: ServerHandle) -> Iterator[CosmosClient]:
    """The vendor's client for Cosmos DB, connected. The test is skipped if it is not installed."""
    pytest.importorskip("azure.cosmos", reason='needs the vendor\'s client: pip install "mayflydb[demo]"')
    with mayfly.cosmos.client() as client:
        yield client


@pytest.fixture
def mayfly_mongo(mayfly: ServerHandle) -> Iterator[MongoClient[dict[str, Any]]]:
    """A client of pymongo's, connected. The test is skipped if it is not installed."""
    pytest.importorskip("pymongo", reason='needs the vendor\'s client: pip install "mayflydb[mongo]"')
    with mayfly.mongo.client() as client:
        yield client


@pytest.fixture
def mayfly_ydb(mayfly: ServerHandle) -> Iterator[Any]:
    """A driver of YDB's client, connected. The test is skipped if the client is not installed."""
    pytest.importorskip("ydb", reason='needs the vendor\'s client: pip install "mayflydb[demo]"')
    with mayfly.ydb.driver() as driver:
        yield driver


@pytest.fixture
def mayfly_env(mayfly: ServerHandle, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """COSMOS_ENDPOINT, COSMOS_KEY, COSMOS_CONNECTION_STRING, MONGODB_URI and YDB_CONNECTION_STRING in the environment."""
    variables = mayfly.env()
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return variables


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the clock, the counts and the last expiry events to the report of a test that failed, or whose fixture did."""
    report = yield
    if report.when != "teardown" and report.failed and (found := _server_of(item)) is not None:
        try:
            shown = _describe_state(*found)
        except Exception as error:  # noqa: BLE001 - a server that is gone is told of here; raised, it would end the whole run
            shown = f"the server could not be asked: {error!r}"
        report.sections.append(("mayfly", shown))
    return report


def _server_of(item: pytest.Item) -> tuple[ServerHandle, str] | None:
    """Return the server of a test and its clock; None: the test has not asked for one."""
    server = item.stash.get(SERVER, None)
    if server is not None:
        return server, item.stash.get(CLOCK, "virtual")
    cases = sys.modules.get("mayflydb.testing.cases")
    case = getattr(item, "cls", None)
    if cases is None or case is None or not issubclass(case, cases.MayflyMixin) or not hasattr(case, "mayfly"):
        return None
    return case.mayfly, case.mayfly_clock


def _describe_state(server: ServerHandle, clock: str) -> str:
    if clock == "system":
        # The test's travel may be over: a look at the process's clock would show another state than the test has seen.
        server.clock.freeze()
    stats = server.stats()
    lines = [f"clock {stats['now']}"]
    lines += [
        f"{name}: {row['records']} records, {row['hidden']} hidden, next expiry {row['next_expiry'] or 'none'}"
        for name, row in stats["targets"].items()
    ]
    lines += [
        f"expired {each.due.isoformat()} {each.target} {each.id} pk={each.pk!r} ({each.reason})"
        for each in server.events.expired[-LAST_EXPIRIES:]
    ]
    return "\n".join(lines)
