"""A file of the suite in a pytest of its own, so that one that hangs costs no other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec

HERE = Path(__file__).parent
OURS = HERE / "suite"
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
    """Where files are run: the unpacked `tests`, the plugins, the reports, and the server with its key."""

    tests: Path
    plugins: Path
    reports: Path
    endpoint: str
    key: str


def names(tests: Path) -> list[str]:
    """All files with tests, by their paths below `tests`."""
    found = (path.relative_to(tests).as_posix() for path in tests.rglob("test_*.py"))
    return sorted(name for name in found if name != "test_config.py")


def run(bench: Bench, name: str) -> Ran:
    """Run the tests of one file, FILE_LIMIT seconds at most."""
    stem = name.removesuffix(".py").replace("/", ".")
    report = bench.reports / f"{stem}.xml"
    report.unlink(missing_ok=True)
    with (bench.reports / f"{stem}.log").open("wb") as log:
        process = subprocess.Popen(
            _command(name, report),
            cwd=bench.tests,
            env=_environment(bench),
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        _wait(process)
    return Ran(report, process.returncode in _IN_ORDER)


def _command(name: str, report: Path) -> list[str]:
    return [
        *(sys.executable, "-m", "pytest", name, "-c", str(OURS / "pytest.ini"), "--rootdir", "."),
        *("-p", "pytest_asyncio.plugin", "-p", "pytest_timeout", "-p", "suite_plugin", "-p", "no:cacheprovider"),
        *("--timeout", str(TEST_LIMIT), "--tb", "native", "--junit-xml", str(report)),
    ]


def _environment(bench: Bench) -> dict[str, str]:
    path = [str(part) for part in (OURS, bench.plugins, bench.tests)]
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(("MAYFLY_", "PYTEST_", "AZURE_"))},
        "ACCOUNT_HOST": bench.endpoint,
        "ACCOUNT_KEY": bench.key,
        # Mayfly's own plugin and whatever else is installed have no business in this suite.
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
