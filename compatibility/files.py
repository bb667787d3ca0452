"""A file of a suite in a process of its own, so that one that hangs costs no other."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import msgspec
from runners import FILE_LIMIT
from suites import Environment, Suite

LAST_WORDS = 30


class Ran(msgspec.Struct, frozen=True):
    """The runner's report, which may be missing, and whether it ended in order, after all tests of the file."""

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
    runner = bench.suite.runner
    report = bench.reports / f"{stem(name)}.report"
    report.unlink(missing_ok=True)
    with (bench.reports / f"{stem(name)}.log").open("wb") as log:
        process = subprocess.Popen(
            runner.command(bench.suite, bench.tests, name, report),
            cwd=bench.tests,
            env=_environment(bench, server),
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        _wait(process)
    return Ran(report, process.returncode in runner.in_order)


def stem(name: str) -> str:
    """The name of a file as one of reports and logs."""
    return Path(name).with_suffix("").as_posix().replace("/", ".")


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
    """Interrupted, a runner still writes its report."""
    for end, patience in ((signal.SIGINT, FILE_LIMIT), (signal.SIGKILL, LAST_WORDS)):
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, end)
        else:
            return
    process.wait()
