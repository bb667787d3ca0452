"""The functional tests of the DocumentDB project: which of them run, in batches with a server each, and their outcomes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from time import monotonic

import msgspec
from outcomes import Outcome, Test
from refusals import refused
from runners import TEST_LIMIT
from server import mayfly

WORD = "functional"
HERE = Path(__file__).parent
TESTS = "documentdb_tests/compatibility/tests"
# A sample has so many tests. Directories of their own rows run whole.
SAMPLE = 4000
WHOLE_DIRECTORIES = ("core/indexes/properties/ttl", "core/collections/commands/collMod")
# A batch is interrupted when all of its tests together take longer, in seconds.
BATCH = 250
BATCH_LIMIT = 1800

_OUTCOMES = {"passed": Outcome.PASSED, "failed": Outcome.FAILED, "skipped": Outcome.SKIPPED}


class Collected(msgspec.Struct, frozen=True):
    """One test of the suite, and the capabilities of a server that it needs and Mayfly has not."""

    id: str
    lacks: list[str]


class Record(msgspec.Struct, frozen=True):
    """A line of `functional_plugin`: pytest's outcome, what it says of it, and the errors that the server answered."""

    id: str
    outcome: str
    said: str
    heard: list[str]


class Measured(msgspec.Struct, frozen=True):
    """A run: all tests there are, those drawn with a seed (None: all), and outcomes of these and of whole directories."""

    commit: str
    collected: list[Collected]
    seed: int | None
    drawn: frozenset[str]
    tests: list[Test]

    @property
    def sample(self) -> list[Test]:
        return [test for test in self.tests if test.id in self.drawn]


class Bench(msgspec.Struct, frozen=True):
    """The suite at one commit, plugins of pytest that are installed for it, and where its reports go."""

    suite: Path
    plugins: Path
    reports: Path

    def run(self, name: str, arguments: list[str], settings: dict[str, str]) -> int:
        """A pytest over the suite, with its output in a log; its exit code, or -1 if it had to be stopped."""
        path = os.pathsep.join(map(str, (HERE / "functional", self.plugins, self.suite)))
        strange = ("MAYFLY_", "PYTEST_", "MONGO", "FUNCTIONAL_")
        ours = {key: value for key, value in os.environ.items() if not key.startswith(strange)}
        command = [sys.executable, "-m", "pytest", "-c", "documentdb_tests/pytest.ini", "--rootdir", "."]
        command += [
            "-p",
            "functional_plugin",
            "-p",
            "no:cacheprovider",
            "--engine-name",
            "mayfly",
            "-q",
            "--tb",
            "short",
        ]
        with (self.reports / f"{name}.log").open("wb") as log:
            try:
                return subprocess.run(
                    [*command, *arguments],
                    check=False,
                    cwd=self.suite,
                    env={**ours, **settings, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": path},
                    stdout=log,
                    stderr=log,
                    timeout=BATCH_LIMIT,
                ).returncode
            except subprocess.TimeoutExpired:
                return -1


def collect(bench: Bench) -> list[Collected]:
    """All tests, from a file beside the suite that the first run writes: collecting takes a minute.

    Raises:
        RuntimeError: the suite could not be collected.
    """
    lines = bench.suite.with_suffix(".jsonl")
    if not lines.exists():
        print("collecting the tests", flush=True)
        fresh = lines.with_suffix(".new")
        fresh.unlink(missing_ok=True)
        arguments = [TESTS, "--collect-only", "--connection-string", "mongodb://localhost:1"]
        code = bench.run("collecting", arguments, {"FUNCTIONAL_RECORDS": str(fresh)})
        if code:
            raise RuntimeError(f"the tests could not be collected; see {bench.reports / 'collecting.log'}")
        fresh.rename(lines)
    return [msgspec.json.decode(line, type=Collected) for line in lines.read_bytes().splitlines()]


def draw(collected: list[Collected], size: int | None, seed: int) -> frozenset[str]:
    """The ids of a sample of those that apply, or of all of them. A test that is added later displaces one other at most."""

    def lot(id: str) -> bytes:
        return sha256(f"{seed} {id}".encode()).digest()

    return frozenset(sorted((test.id for test in collected if not test.lacks), key=lot)[:size])


def named(collected: list[Collected], words: list[str]) -> frozenset[str]:
    """The ids of those that apply and hold one of the words."""
    return frozenset(test.id for test in collected if not test.lacks and any(word in test.id for word in words))


def whole_directories(collected: list[Collected]) -> frozenset[str]:
    """The ids of those that always run."""
    return named(collected, [f"{TESTS}/{directory}/" for directory in WHOLE_DIRECTORIES])


def measure(bench: Bench, ids: frozenset[str], workers: int) -> list[Test]:
    """The outcomes of these tests, in the order of their ids."""
    bench.reports.mkdir(parents=True, exist_ok=True)
    batches = batched(sorted(ids))

    def one(number: int) -> list[Test]:
        began = monotonic()
        tests = measure_batch(bench, f"batch-{number}", batches[number])
        failed = sum(test.outcome is Outcome.FAILED for test in tests)
        told = f"batch {number + 1} of {len(batches)}: {len(tests)} tests, {failed} failed"
        print(f"{told} ({monotonic() - began:.0f} s)", flush=True)
        return tests

    with ThreadPoolExecutor(workers) as pool:
        return [test for tests in pool.map(one, range(len(batches))) for test in tests]


def batched(ids: list[str]) -> list[list[str]]:
    """Files are not torn, unless one has more tests than a batch."""
    batches: list[list[str]] = []
    for _, group in groupby(ids, key=file_of):
        of_file = list(group)
        for begin in range(0, len(of_file), BATCH):
            part = of_file[begin : begin + BATCH]
            if batches and len(batches[-1]) + len(part) <= BATCH:
                batches[-1] += part
            else:
                batches.append(part)
    return batches


def file_of(id: str) -> str:
    return id.partition("::")[0]


def measure_batch(bench: Bench, name: str, ids: list[str]) -> list[Test]:
    """The outcomes of one batch. A test without a record failed: the process ended before, or its id is another each time."""
    chosen, records = bench.reports / f"{name}.json", bench.reports / f"{name}.jsonl"
    chosen.write_text(json.dumps(ids), encoding="utf-8")
    records.unlink(missing_ok=True)
    settings = {"FUNCTIONAL_CHOSEN": str(chosen), "FUNCTIONAL_RECORDS": str(records)}
    limits = ["-p", "pytest_timeout", "--timeout", str(TEST_LIMIT), "-o", "timeout_method=signal"]
    try:
        with mayfly(bench.reports / f"{name}.server.log", "--mongo-port", "0") as announced:
            server = ["--connection-string", announced["mongo"]["uri"]]
            bench.run(name, [*sorted({file_of(id) for id in ids}), *server, *limits], settings)
    except RuntimeError as error:
        print(f"{name}: {error}", file=sys.stderr)
    found = read(records)
    return [found.get(id, Test(id, Outcome.FAILED, "no outcome was recorded")) for id in ids]


def read(records: Path) -> dict[str, Test]:
    """Outcomes by id. Of several phases of a test, the failed one counts."""
    found: dict[str, Test] = {}
    for line in records.read_text(encoding="utf-8").splitlines() if records.exists() else ():
        record = msgspec.json.decode(line, type=Record)
        if record.id not in found or record.outcome == "failed":
            found[record.id] = _test(record)
    return found


def _test(record: Record) -> Test:
    """What a fixture of several tests was refused stands in what a test says, and not in what it heard."""
    outcome = _OUTCOMES[record.outcome]
    if outcome is Outcome.FAILED and (feature := refused((*record.heard, record.said))):
        return Test(record.id, Outcome.REFUSED, feature)
    return Test(record.id, outcome, record.said)
