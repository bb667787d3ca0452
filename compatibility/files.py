"""A file of a suite in a pytest of its own, so that one that hangs costs no other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
from suites import Environment, Suite

# Seconds. A test that takes longer fails; a file that does is interrupted, and reports what it has.
TEST_LIMIT = 90
FILE_LIMIT = 900
LAST_WORDS = 30
# Exit codes of pytest: all passed, some failed, none there.
_IN_ORDER = (0, 1, 5)


class Ran(msgspec.Struct, frozen=True):
    """A JUnit report, which may be missing, and whether pytest ended in order, after all tests of the file."""

    report: Path
    whole: bool


class Bench(msgspec.Struct, frozen=True):
    """Where files of a suite are run: its unpacked tests, the plugins, the reports."""

    suite: Suite
    tests: Path
    plugins: Path
    reports: Path


def run(bench: Bench, name: str, server: Environment) -> Ran:
    """Run the tests of one file, FILE_LIMIT seconds at most. `server`: what it has to know of the server."""
    stem = name.removesuffix(".py").replace("/", ".")
    report = bench.reports / f"{stem}.xml"
    report.unlink(missing_ok=True)
    with (bench.reports / f"{stem}.log").open("wb") as log:
        process = subprocess.Popen(
            _command(bench.suite, name, report),
            cwd=bench.tests,
            env=_environment(bench, server),
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        _wait(process)
    return Ran(report, process.returncode in _IN_ORDER)


def _command(suite: Suite, name: str, report: Path) -> list[str]:
    plugins = [part for plugin in ("pytest_timeout", *suite.plugins) for part in ("-p", plugin)]
    return [
        *(sys.executable, "-m", "pytest", name, "-c", str(suite.settings), "--rootdir", "."),
        *(*plugins, "-p", "no:cacheprovider"),
        *("--timeout", str(TEST_LIMIT), "--tb", "native", "--junit-xml", str(report)),
    ]


def _environment(bench: Bench, server: Environment) -> dict[str, str]:
    path = [str(part) for part in (*bench.suite.path, bench.plugins, bench.tests)]
    strange = ("MAYFLY_", "PYTEST_", "AZURE_", "DB_", "MONGO", "YDB_")
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(strange)},
        **server,
        # Mayfly's own plugin and whatever else is installed have no business in a suite.
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONPATH": os.pathsep.join(path),
        "PYTHONWARNINGS": "ignore",
    }


def _wait(process: subprocess.Popen[bytes]) -> None:
    """Interrupted, pytest still writes its report."""
    for end, patience in ((signal.SIGINT, FILE_LIMIT), (signal.SIGKILL, LAST_WORDS)):
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, end)
        else:
            return
    process.wait()
