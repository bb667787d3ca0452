"""The pytest plugin, used by test files of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from datetime import timedelta
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

import mayflydb
from mayflydb.model.errors import Forbidden
from mayflydb.testing.remote import connect

pytestmark = pytest.mark.short

pytest_plugins = ["pytester"]

PLUGIN = "mayflydb.testing.plugin"


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.Pytester:
    def forget(snapshot: Any) -> None:
        """Forget test files alone. Pytester forgets all that a run has loaded, of which other modules keep halves."""
        for name, module in list(sys.modules.items()):
            if (getattr(module, "__file__", None) or "").startswith(str(pytester.path)):
                del sys.modules[name]

    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    # The tests of the plugin may themselves be spread over processes.
    monkeypatch.delenv("PYTEST_XDIST_WORKER_COUNT", raising=False)
    monkeypatch.setattr("_pytest.pytester.SysModulesSnapshot.restore", forget)
    return pytester


def outcome(pytester: pytest.Pytester, source: str, *arguments: str, **counts: int) -> pytest.RunResult:
    pytester.makepyfile(source)
    installed = any(point.value == PLUGIN for point in entry_points(group="pytest11"))
    load = [] if installed else ["-p", PLUGIN]
    result = pytester.runpytest_inprocess(*load, "-p", "no:cacheprovider", *arguments)
    result.assert_outcomes(**counts)
    return result


def test_a_session_expires(run: pytest.Pytester) -> None:
    outcome(
        run,
        """
        import pytest
        from azure.cosmos import PartitionKey
        from azure.cosmos.exceptions import CosmosResourceNotFoundError

        def test_session_expires(mayfly):
            c = mayfly.cosmos.client().create_database("shop").create_container(
                "sessions", partition_key=PartitionKey("/userId"), default_ttl=3600)
            c.upsert_item({"id": "s1", "userId": "u1"})
            mayfly.clock.advance(seconds=3599)
            assert c.read_item("s1", "u1")
            mayfly.clock.advance(seconds=1)
            with pytest.raises(CosmosResourceNotFoundError):
                c.read_item("s1", "u1")
            (event,) = mayfly.events.expired
            assert (event.id, event.pk, event.target, event.reason) == ("s1", "u1", "cosmos:shop/sessions", "default")
            assert event.due == event.purged_at == mayfly.clock.now()

        def test_starts_empty(mayfly):
            assert list(mayfly.cosmos.client().list_databases()) == []
            assert mayfly.events.expired == []
            assert mayfly.stats()["records"] == 0
        """,
        passed=2,
    )


def test_the_clock(run: pytest.Pytester) -> None:
    outcome(
        run,
        """
        from datetime import UTC, datetime, timedelta
        import pytest

        START = datetime(2026, 1, 1, tzinfo=UTC)

        @pytest.fixture
        def later(mayfly):
            return mayfly.clock.now()

        def test_without_a_marker(mayfly):
            now = mayfly.clock.now()
            assert now.microsecond == 0
            assert now == mayfly.clock.now()

        @pytest.mark.mayfly(start="2026-01-01T00:00:00Z")
        def test_ways_to_move(mayfly):
            clock = mayfly.clock
            assert clock.now() == START
            clock.advance(seconds=1, minutes=1, hours=1, days=1)
            clock.advance(timedelta(microseconds=1))
            clock.shift("1h30m")
            assert clock.now() == START + timedelta(days=1, hours=2, minutes=31, seconds=1, microseconds=1)
            clock.move_to(datetime(2027, 1, 1, tzinfo=UTC))
            assert clock.now() == datetime(2027, 1, 1, tzinfo=UTC)
            assert clock.next_expiry() is None
            clock.advance_to_next_expiry()
            mayfly.reset()
            assert clock.now() == START
            with pytest.raises(ValueError):
                clock.advance(seconds=-1)
            with pytest.raises(ValueError):
                clock.set(datetime(2028, 1, 1))

        def test_ticking(mayfly):
            mayfly.clock.resume()
            before = mayfly.clock.now()
            while mayfly.clock.now() == before:
                pass
            mayfly.clock.freeze()
            assert mayfly.clock.now() == mayfly.clock.now() > before

        def test_the_next_test_stands_still_again(mayfly, mayfly_server):
            assert mayfly.clock.now() == mayfly.clock.now()
            assert mayfly.clock.now() != START
            assert mayfly is mayfly_server
        """,
        passed=4,
    )


def test_next_expiry_and_purge(run: pytest.Pytester) -> None:
    outcome(
        run,
        """
        from azure.cosmos import PartitionKey
        from datetime import timedelta

        def test_next(mayfly, mayfly_cosmos):
            c = mayfly_cosmos.create_database("d").create_container("c", partition_key=PartitionKey("/k"), default_ttl=-1)
            for n in (30, 20, 10):
                c.create_item({"id": str(n), "k": n, "ttl": n})
            start = mayfly.clock.now()
            for n in (10, 20):
                assert mayfly.clock.next_expiry() == start + timedelta(seconds=n)
                assert mayfly.clock.advance_to_next_expiry()["purged"] == 1
            mayfly.clock.advance(days=1, sweep="none")
            assert [e.id for e in mayfly.events.expired] == ["10", "20"]
            assert mayfly.purge() == {"now": mayfly.stats()["now"], "purged": 1, "by_target": {"cosmos:d/c": 1}}
            assert [(e.id, e.pk, e.reason) for e in mayfly.events.expired][-1] == ("30", 30, "item")
        """,
        passed=1,
    )


def test_environment(run: pytest.Pytester) -> None:
    outcome(
        run,
        """
        import os

        def test_env(mayfly_env, mayfly):
            assert os.environ["COSMOS_ENDPOINT"] == mayfly.cosmos.url
            assert os.environ["COSMOS_KEY"] == mayfly.cosmos.key
            assert os.environ["COSMOS_CONNECTION_STRING"] == mayfly.cosmos.connection_string
            assert mayfly_env == mayfly.env()

        def test_gone():
            assert "COSMOS_ENDPOINT" not in os.environ
        """,
        passed=2,
    )


def test_a_failure_shows_the_clock_and_who_died(run: pytest.Pytester) -> None:
    result = outcome(
        run,
        """
        import pytest
        from azure.cosmos import PartitionKey

        @pytest.mark.mayfly(start="2026-01-01T00:00:00Z")
        def test_fails(mayfly):
            database = mayfly.cosmos.client().create_database("d")
            c = database.create_container("c", partition_key=PartitionKey("/k"), default_ttl=10)
            c.create_item({"id": "x", "k": "y"})
            mayfly.clock.advance(seconds=10)
            assert False
        """,
        failed=1,
    )
    result.stdout.fnmatch_lines(
        [
            "*- mayfly -*",
            "clock 2026-01-01T00:00:10Z",
            "cosmos:d/c: 0 records, 0 hidden, next expiry none",
            "expired * cosmos:d/c x pk='y' (*",
        ]
    )


def test_a_report_lists_the_last_ten_expiries(run: pytest.Pytester) -> None:
    result = outcome(
        run,
        """
        import pytest

        ITEMS = [{"id": f"n{n:02}", "k": "k", "ttl": n} for n in range(1, 13)] + [{"id": "alive", "k": "k"}]
        CONTAINER = {"id": "c", "partition_key": "/k", "default_ttl": -1, "items": ITEMS}

        @pytest.fixture
        def shop(mayfly):
            mayfly.seed({"databases": [{"id": "d", "containers": [CONTAINER]}]})
            mayfly.clock.advance(minutes=1)
            assert mayfly.stats()["records"] == 0

        def test_its_fixture_fails(shop):
            pass

        def test_without_a_server():
            assert False
        """,
        errors=1,
        failed=1,
    )
    told = [line for line in result.outlines if line.startswith("expired ")]
    assert [line.split()[3] for line in told] == [f"n{n:02}" for n in range(3, 13)]
    assert sum(line.startswith("cosmos:d/c: 1 records, 0 hidden") for line in result.outlines) == 1


def test_a_report_without_a_server_does_not_end_the_run(run: pytest.Pytester) -> None:
    result = outcome(
        run,
        """
        import os, signal

        def test_fails_with_its_server(mayfly):
            os.kill(mayfly.announcement.pid, signal.SIGKILL)
            assert False

        def test_goes_on():
            pass
        """,
        "--mayfly-mode",
        "process",
        failed=1,
        passed=1,
    )
    result.stdout.fnmatch_lines(["the server could not be asked: *"])


def test_cases_of_unittest_have_a_report_too(run: pytest.Pytester) -> None:
    result = outcome(
        run,
        """
        import unittest
        from mayflydb.testing import MayflyMixin

        class TestCarts(MayflyMixin, unittest.TestCase):
            mayfly_start = "2026-01-01T00:00:00Z"

            def test_fails(self):
                self.mayfly.clock.advance(seconds=5)
                self.fail()
        """,
        failed=1,
    )
    result.stdout.fnmatch_lines(["*- mayfly -*", "clock 2026-01-01T00:00:05Z"])


@pytest.mark.parametrize(("name", "module"), [("cosmos", "azure.cosmos"), ("mongo", "pymongo"), ("ydb", "ydb")])
def test_a_client_that_is_missing(
    run: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, name: str, module: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    result = outcome(run, f"def test_skipped(mayfly_{name}): pass", "-rs", skipped=1)
    result.stdout.fnmatch_lines(["*needs the vendor's client: pip install *"])


MARKERS = [
    "mayfly",
    "mayfly('2026-01-01T00:00:00Z')",
    "mayfly(clock='real')",
    "mayfly(clock='system', start='2026-01-01T00:00:00Z')",
    "mayfly(start='yesterday')",
    "mayfly(start='2026-01-01T00:00:00.5Z')",
    "mayfly(start=1)",
    "mayfly(keep='yes')",
    "mayfly(keep=True, start='2026-01-01T00:00:00Z')",
    "mayfly(seed='missing.json')",
]


def test_a_marker_that_says_something_else_is_an_error(run: pytest.Pytester) -> None:
    tests = [f"@pytest.mark.{marker}\ndef test_{n}(mayfly): pass\n" for n, marker in enumerate(MARKERS)]
    outcome(run, "import pytest\n" + "\n".join(tests), "--strict-markers", errors=len(MARKERS))


SEED = """
{"databases": [{"id": "shop", "containers": [{"id": "sessions", "partition_key": "/u", "default_ttl": 60,
  "items": [{"id": "s1", "u": "u1"}, {"id": "s2", "u": "u1", "ttl": 120}]}]}],
 "mongo": {"databases": [{"name": "app", "collections": [{"name": "otps",
  "indexes": [{"key": {"_ts": 1}, "expireAfterSeconds": 30}], "documents": [{"_id": 1}]}]}]}}
"""


def test_seeds_and_snapshots(run: pytest.Pytester) -> None:
    run.path.joinpath("shop.json").write_text(SEED)
    run.path.joinpath("carts.yql").write_text("CREATE TABLE carts (id Uint64, PRIMARY KEY (id))")
    outcome(
        run,
        """
        import pytest
        from mayflydb.model.errors import Conflict, NotFound

        @pytest.mark.mayfly(start="2026-01-01T00:00:00Z", seed="shop.json")
        def test_a_file(mayfly):
            assert mayfly.stats()["records"] == 3
            start = mayfly.clock.now()
            mayfly.snapshot()
            mayfly.clock.advance(seconds=60)
            assert [(event.target, event.id) for event in mayfly.events.expired] == [
                ("mongo:app.otps", "1"), ("cosmos:shop/sessions", "s1")]
            mayfly.restore()
            assert (mayfly.stats()["records"], mayfly.clock.now(), mayfly.events.expired) == (3, start, [])
            mayfly.clock.advance(seconds=30)
            with pytest.raises(NotFound):
                mayfly.restore("another")

        @pytest.mark.mayfly(keep=True)
        def test_kept(mayfly):
            assert mayfly.clock.now().second == 30
            assert mayfly.cosmos.client().get_database_client("shop").get_container_client("sessions").read_item("s2", "u1")
            mayfly.seed({"databases": [{"id": "bank"}]})
            with pytest.raises(Conflict):
                mayfly.seed({"databases": [{"id": "shop", "containers": [{"id": "sessions", "partition_key": "/v"}]}]})

        @pytest.mark.mayfly(keep=False, seed=["shop.json", "carts.yql"])
        def test_files(mayfly):
            assert set(mayfly.stats()["targets"]) == {"cosmos:shop/sessions", "mongo:app.otps", "ydb:/local/carts"}

        def test_none(mayfly):
            assert mayfly.stats()["targets"] == {}
        """,
        passed=4,
    )


ANYWHERE = """
import os
from pathlib import Path

import pytest
from azure.cosmos import PartitionKey
from mayflydb.model.errors import BadRequest, Conflict, NotFound

@pytest.mark.mayfly(start="2026-01-01T00:00:00Z")
def test_here(mayfly):
    assert (mayfly.announcement.pid == os.getpid()) is HERE
    assert set(mayfly.stats()["targets"]) == {"cosmos:shop/sessions", "mongo:app.otps"}
    start = mayfly.clock.now()
    assert start.isoformat() == "2026-01-01T00:00:00+00:00"
    sessions = mayfly.cosmos.client().get_database_client("shop").get_container_client("sessions")
    mayfly.snapshot("all")
    assert mayfly.clock.advance(minutes=1, seconds=0.000001)["purged"] == 2
    assert [item["id"] for item in sessions.read_all_items()] == ["s2"]
    assert [(event.id, event.pk, event.due) for event in mayfly.events.expired] == [
        ("1", None, start.replace(second=30)), ("s1", "u1", start.replace(minute=1))]
    mayfly.restore("all")
    assert mayfly.clock.next_expiry() == start.replace(second=30)
    with mayfly.mongo.client() as client:
        assert client.app.otps.count_documents({}) == 1
    mayfly.clock.freeze()
    mayfly.clock.set("2026-01-01T00:01:00Z")
    with pytest.raises(Conflict):
        mayfly.clock.set("2025-01-01T00:00:00Z")
    with pytest.raises(NotFound):
        mayfly.restore("another")
    with pytest.raises(BadRequest):
        mayfly.purge("nonsense")
    assert b"BEGIN CERTIFICATE" in mayfly.cosmos.ca_file.read_bytes()
    mayfly.reset()
    assert mayfly.clock.now() == start
    assert mayfly.stats()["targets"] == {}

@pytest.mark.mayfly(keep=True)
def test_kept(mayfly):
    assert mayfly.stats()["targets"] == {}

def test_the_same_start(mayfly):
    assert mayfly.stats()["records"] == 3
    assert mayfly.clock.now().year > 2025
    assert mayfly.clock.now().microsecond == 0
"""


def test_a_process_of_its_own(run: pytest.Pytester) -> None:
    run.path.joinpath("shop.json").write_text(SEED)
    options = ("--mayfly-mode", "process", "--mayfly-seed", "shop.json")
    outcome(run, ANYWHERE.replace("HERE", "False"), *options, passed=3)


def test_a_server_that_runs(run: pytest.Pytester) -> None:
    run.path.joinpath("shop.json").write_text(SEED)
    run.makeini("[pytest]\nmayfly_mode = process\nmayfly_seed = shop.json\n")
    with mayflydb.serve(memory=True, port=0, clock="virtual") as server:
        # The options above are weaker: the ini file's mode than the command line's address.
        outcome(run, ANYWHERE.replace("HERE", "True"), "--mayfly-url", server.admin_url, passed=3)
        # And those of the command line than the factory's.
        run.makeconftest(
            f"from mayflydb.testing import fixture\nmayfly_server = fixture(url={server.admin_url!r}, seed='shop.json')"
        )
        weaker = ("--mayfly-mode", "process", "--mayfly-seed", "missing.json")
        outcome(run, ANYWHERE.replace("HERE", "True"), *weaker, passed=3)


def test_a_server_that_tests_must_not_empty(run: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "def test_refused(mayfly): pass"
    with mayflydb.serve(memory=True, port=0, mongo_port=-1, ydb_port=-1) as server:
        url = ("--mayfly-url", server.admin_url)
        outcome(run, source, *url, errors=1).stdout.fnmatch_lines(["*Forbidden: tests empty a server*"])
        both = outcome(run, source, *url, "--mayfly-mode", "thread", errors=1)
        both.stdout.fnmatch_lines(["*one of url and mode*"])
        monkeypatch.setenv("PYTEST_XDIST_WORKER_COUNT", "2")
        outcome(run, source, *url, errors=1).stdout.fnmatch_lines(["*several processes of tests*"])
    monkeypatch.delenv("PYTEST_XDIST_WORKER_COUNT")
    outcome(run, source, *url, errors=1).stdout.fnmatch_lines(["*NoServer: no server answers*"])
    for wrong, words in (
        ("https://127.0.0.1:1", "*BadRequest: *is no address of a server for tests*"),
        ("missing.json", "*NoServer: there is no ready file missing.json*"),
    ):
        outcome(run, source, "--mayfly-url", wrong, errors=1).stdout.fnmatch_lines([words])


FOLLOWING = """
from datetime import UTC, datetime, timedelta

import pytest
import time_machine

START = datetime(2031, 1, 1, tzinfo=UTC)
CONTAINER = {"id": "c", "partition_key": "/k", "default_ttl": 60, "items": [{"id": "x", "k": "k"}]}
SHOP = {"databases": [{"id": "shop", "containers": [CONTAINER]}]}

MARKED@pytest.mark.time_machine(START, tick=False)
def test_both_move(mayfly, time_machine):
    assert mayfly.clock.now() == datetime.now(UTC) == START
    mayfly.seed(SHOP)
    time_machine.shift(59)
    assert mayfly.stats()["records"] == 1
    time_machine.shift(1)
    assert mayfly.stats()["records"] == 0
    assert [(event.id, event.purged_at) for event in mayfly.events.expired] == [("x", datetime.now(UTC))]

MARKED@time_machine.travel(START, tick=False)
def test_fails_on_its_trip(mayfly):
    mayfly.seed(SHOP)
    assert mayfly.clock.now() == START
    assert False

MARKED@pytest.mark.mayfly(keep=True)
def test_goes_on_after_a_failure(mayfly):
    assert mayfly.stats()["records"] == 1

@pytest.mark.mayfly(clock="virtual")
def test_a_clock_of_its_own(mayfly):
    now = mayfly.clock.now()
    # The session began on the first test's trip.
    assert now < START
    with time_machine.travel(START + timedelta(days=1)):
        assert mayfly.clock.now() == now
    mayfly.clock.advance(hours=1)
    assert mayfly.clock.now() == now + timedelta(hours=1)

@pytest.mark.mayfly(start="2026-01-01T00:00:00Z")
def test_a_start_of_its_own(mayfly):
    assert mayfly.clock.now() == datetime(2026, 1, 1, tzinfo=UTC)

MARKED@time_machine.travel(datetime(2020, 1, 1, tzinfo=UTC), tick=False)
def test_in_the_past(mayfly):
    assert mayfly.clock.now() == datetime.now(UTC) == datetime(2020, 1, 1, tzinfo=UTC)
"""


@pytest.mark.parametrize("chosen", ["marker", "flag", "ini", "factory"])
def test_a_clock_that_goes_with_the_process(run: pytest.Pytester, chosen: str) -> None:
    mark = '@pytest.mark.mayfly(clock="system")\n' if chosen == "marker" else ""
    source = FOLLOWING.replace("MARKED@pytest.mark.mayfly(keep=True)", '@pytest.mark.mayfly(keep=True, clock="system")')
    if chosen == "ini":
        run.makeini("[pytest]\nmayfly_clock = system\n")
    elif chosen == "factory":
        run.makeconftest("from mayflydb.testing import fixture\nmayfly_server = fixture(clock='system')")
    # The factory is stronger than the command line.
    flags = {"flag": ["--mayfly-clock", "system"], "factory": ["--mayfly-clock", "virtual"]}.get(chosen, [])
    result = outcome(run, source.replace("MARKED", mark), *flags, passed=5, failed=1)
    result.stdout.fnmatch_lines(["clock 2031-01-01T00:00:00Z", "cosmos:shop/c: 1 records, 0 hidden, next expiry 2031*"])


def test_a_process_elsewhere_does_not_see_a_moved_clock(run: pytest.Pytester) -> None:
    source = "import pytest\n@pytest.mark.mayfly(clock='system')\ndef test_refused(mayfly): pass"
    process = ("--mayfly-mode", "process")
    for what in (
        outcome(run, source, *process, errors=1),
        outcome(run, "def test_refused(mayfly): pass", *process, "--mayfly-clock", "system", errors=1),
    ):
        what.stdout.fnmatch_lines(['*a server in another process does not see it: leave out the mode "process"*'])
    with mayflydb.serve(memory=True, port=0, mongo_port=-1, ydb_port=-1, clock="virtual") as server:
        refused = outcome(run, source, "--mayfly-url", server.admin_url, errors=1)
        refused.stdout.fnmatch_lines(["*does not see it: leave out the url*"])
        with connect(server.admin_url) as remote, pytest.raises(Forbidden, match="does not see the clock of this one"):
            remote.follow_process()


WORKER = """
from pathlib import Path

def test_one(mayfly, worker_id):
    mayfly.seed({"databases": [{"id": worker_id}]})
    Path(__file__).with_name(f"{worker_id}.url").write_text(mayfly.admin_url)

def test_two(mayfly):
    assert mayfly.stats()["databases"] == 0
"""


def test_workers_have_a_server_each(run: pytest.Pytester) -> None:
    run.makepyfile(test_first=WORKER, test_second=WORKER)
    # The other plugins of this environment would be loaded three times.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    plugins = ("-p", "xdist.plugin", "-p", PLUGIN, "-p", "no:cacheprovider")
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", *plugins]
    done = subprocess.run(command, cwd=run.path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout
    assert len({file.read_text() for file in run.path.glob("*.url")}) == 2


def test_loading_the_plugin_loads_nothing_else() -> None:
    code = f"import sys, pytest; before = set(sys.modules); import {PLUGIN}; print(*sorted(set(sys.modules) - before))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", code]
    found = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout.split()
    assert set(found) <= {"mayflydb", "mayflydb.version", "mayflydb.testing", PLUGIN}


AS_COMPILED = """
import sys
from pathlib import Path

def test_here(mayfly):
    loaded = [module for name, module in sys.modules.items() if name.startswith("mayflydb.")]
    assert Path(sys.modules["mayflydb"].__file__).is_relative_to(SITE)
    rewritten = {module.__name__ for module in loaded if "Rewriting" in type(module.__spec__.loader).__name__}
    assert rewritten <= {"mayflydb.version", "mayflydb.testing", "mayflydb.testing.plugin"}
    assert len(loaded) > 100
"""


def test_an_installed_package_is_not_rewritten(run: pytest.Pytester, tmp_path: Path) -> None:
    """pytest rewrites whole distributions that bring a plugin; parsing all of Mayfly took as long as a first test run."""
    site = tmp_path / "site"
    shutil.copytree(Path(mayflydb.__file__).parent, site / "mayflydb", ignore=shutil.ignore_patterns("__pycache__"))
    about = site / "mayflydb-0.1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.4\nName: mayflydb\nVersion: 0.1.0\n")
    (about / "entry_points.txt").write_text(f"[pytest11]\nmayflydb = {PLUGIN}\n")
    (about / "RECORD").write_text("".join(f"{file.relative_to(site)},,\n" for file in site.rglob("*.py")))
    run.makepyfile(AS_COMPILED.replace("SITE", repr(str(site))))
    run.makeconftest("import mayflydb.model.instant")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), *sys.path])}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=run.path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    written = {file.name.partition(".")[0] for file in site.rglob("*-pytest-*.pyc")}
    assert written <= {"__init__", "version", "plugin"}


@pytest.mark.mayfly(start="2026-01-01T00:00:00Z")
@pytest.mark.parametrize("turn", [1, 2])
def test_mongodb(mayfly: Any, mayfly_mongo: Any, mayfly_env: dict[str, str], turn: int) -> None:
    """Twice the same, from an empty server each time, a year by either way to die."""
    assert mayfly_mongo.list_database_names() == ["admin"]
    assert mayfly_env["MONGODB_URI"] == mayfly.mongo.uri
    assert mayfly_env["YDB_CONNECTION_STRING"] == f"{mayfly.ydb.endpoint}?database=/local"
    otps = mayfly_mongo.app.otps
    otps.create_index("_ts", expireAfterSeconds=3600)
    otps.create_index("until", expireAfterSeconds=0)
    year = timedelta(days=365)
    otps.insert_many([{"_id": 1}, {"_id": 2, "ttl": -1}, {"_id": 3, "ttl": -1, "until": mayfly.clock.now() + year}])

    mayfly.clock.advance(seconds=3599)
    assert otps.count_documents({}) == 3
    mayfly.clock.advance(seconds=1)
    assert otps.distinct("_id") == [2, 3]
    mayfly.clock.advance(year)
    assert otps.distinct("_id") == [2]
    assert [(event.id, event.pk, event.reason) for event in mayfly.events.expired] == [
        ("1", None, "default"),
        ("3", None, "index"),
    ]
    assert mayfly.stats()["targets"]["mongo:app.otps"]["records"] == 1
