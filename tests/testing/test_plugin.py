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
            "cosmos:d/c: 0 records, 0 hidden",
            "expired * cosmos:d/c x pk='y' (*",
        ]
    )


MARKERS = [
    "mayfly",
    "mayfly('2026-01-01T00:00:00Z')",
    "mayfly(clock='system')",
    "mayfly(start='yesterday')",
    "mayfly(start='2026-01-01T00:00:00.5Z')",
    "mayfly(start=1)",
]


def test_a_marker_that_says_something_else_is_an_error(run: pytest.Pytester) -> None:
    tests = [f"@pytest.mark.{marker}\ndef test_{n}(mayfly): pass\n" for n, marker in enumerate(MARKERS)]
    outcome(run, "import pytest\n" + "\n".join(tests), "--strict-markers", errors=len(MARKERS))


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
    assert mayfly_mongo.list_database_names() == []
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
