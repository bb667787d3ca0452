"""`make compatibility ARGS=functional`: a sample of the functional tests, or all of them, and their section of the document."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import functional_report as report
import functional_suite as suite
from functional_suite import WORD

__all__ = ["WORD", "run"]


def run(place: Path, words: list[str]) -> tuple[str | None, int]:
    """The section, None with words: they choose tests by their ids, and then nothing is written. And the exit code.

    SEED draws the sample, SAMPLE is its size or `all`, WORKERS the number of servers at a time; FUNCTIONAL_COMMIT names the
    commit that was cloned.
    """
    commit = os.environ["FUNCTIONAL_COMMIT"]
    bench = suite.Bench(place / f"functional-tests-{commit}", place / "plugins", place / "reports" / WORD)
    bench.reports.mkdir(parents=True, exist_ok=True)
    collected = suite.collect(bench)
    workers = int(os.environ.get("WORKERS") or os.cpu_count() or 1)
    if words:
        tests = suite.measure(bench, suite.named(collected, words), workers)
        print(f"\n{report.summary(tests)}\n\n{report.failures(tests, examples=5)}")
        return None, 0 if tests else 1
    measured = measure(bench, commit, collected, workers)
    print(f"\n{report.drawn(measured)}: {report.summary(measured.sample)}\n")
    return report.section(measured), 0


def measure(bench: suite.Bench, commit: str, collected: list[suite.Collected], workers: int) -> suite.Measured:
    """Runs a sample and the whole directories, and prints the seed first and last."""
    asked = os.environ.get("SAMPLE") or str(suite.SAMPLE)
    size = None if asked == "all" else int(asked)
    seed = int(os.environ.get("SEED") or secrets.randbits(32))
    again = f"SEED={seed} SAMPLE={asked}"
    print(again, flush=True)
    drawn = suite.draw(collected, size, seed)
    tests = suite.measure(bench, drawn | suite.whole_directories(collected), workers)
    print(again, flush=True)
    return suite.Measured(commit, collected, None if size is None else seed, drawn, tests)
