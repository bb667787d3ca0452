"""The document, and its short form for the terminal."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from outcomes import File, Outcome, Test
from reasons import UNEXPLAINED, why

HEAD = """# The SDK's own tests

The source distribution of Microsoft's `azure-cosmos` for Python carries the tests its authors run. `make compatibility` fetches
it and runs each of its files against a Mayfly of its own, in memory and on the real clock. This page is written by that run.
Each is started with `--advertise 127.0.0.1`, which is where Microsoft's emulator sends clients that came by `localhost`.

What the suite needs and the source distribution has not (`devtools_testutils`) is replaced by `compatibility/suite`.
The suite takes port 8081 for an emulator's; the run tells it that its own port is as well. Otherwise its files are as published.
*Not applicable* are tests of what no server on one machine has; *skipped* is what the suite itself skips on an emulator.
*Broken as published* are tests that fail in their own code before they ask any server; they are listed below as well.
Many tests that pass exercise the client alone, with the server replaced by a mock.
"""


def line(file: File) -> str:
    """One file in one line."""
    counts = [f"{file.count(outcome)} {outcome}" for outcome in _ORDER if file.count(outcome)]
    return f"{file.name}: " + ", ".join(counts + ([] if file.whole else ["not all of it ran"]))


def summary(files: list[File]) -> str:
    """All counts in one line."""
    return ", ".join(f"{sum(file.count(outcome) for file in files)} {outcome}" for outcome in _ORDER)


def failures(files: list[File], outcome: Outcome = Outcome.FAILED) -> str:
    """Every failed test, or every broken one, under its reason, the reason with most tests first."""
    return _listed(_grouped((test, why(test)) for test in _all(files, outcome)))


def document(version: str, files: list[File]) -> str:
    """docs/compatibility.md."""
    parts = [
        HEAD,
        f"azure-cosmos {version}: {summary(files)}. Passed: {_share(files):.1%} of those that passed or failed.",
        _cut_short(files),
        "## Failures\n\n" + (failures(files) or "None."),
        "## Broken as published\n\n" + (failures(files, Outcome.BROKEN) or "None."),
        "## Not applicable\n\nWhat a test needs that is not here, and how many tests need it.\n\n"
        + _not_applicable(files),
        "## Files\n\n" + _table(files),
    ]
    return "\n\n".join(part.strip("\n") for part in parts if part) + "\n"


_ORDER = (Outcome.PASSED, Outcome.FAILED, Outcome.BROKEN, Outcome.SKIPPED, Outcome.NOT_APPLICABLE)


def _share(files: list[File]) -> float:
    """Passed, of passed and failed."""
    passed, failed = len(_all(files, Outcome.PASSED)), len(_all(files, Outcome.FAILED))
    return passed / max(1, passed + failed)


def _all(files: list[File], outcome: Outcome) -> list[Test]:
    return [test for file in files for test in file.tests if test.outcome is outcome]


def _grouped(pairs: Iterable[tuple[Test, str]]) -> list[tuple[str, list[Test]]]:
    groups: dict[str, list[Test]] = defaultdict(list)
    for test, reason in pairs:
        groups[reason].append(test)
    return sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))


def _listed(groups: list[tuple[str, list[Test]]]) -> str:
    return "\n\n".join(
        f"### {reason} ({len(tests)})\n\n" + "\n".join(_bullet(test, reason) for test in tests)
        for reason, tests in groups
    )


def _bullet(test: Test, reason: str) -> str:
    """What is not explained says at least what happened."""
    first = test.said.partition("\n")[0].replace("`", "'")[:160] if reason == UNEXPLAINED else ""
    return f"* `{test.id}`" + (f": `{first}`" if first else "")


def _not_applicable(files: list[File]) -> str:
    groups = _grouped((test, test.said) for test in _all(files, Outcome.NOT_APPLICABLE))
    rows = [f"| {reason} | {len(tests)} | {_files_of(tests)} |" for reason, tests in groups]
    return "\n".join(["| Needs | Tests | In |", "|---|---:|---|", *rows])


def _files_of(tests: list[Test]) -> str:
    return ", ".join(f"`{name}`" for name in dict.fromkeys(test.id.partition("::")[0] for test in tests))


def _cut_short(files: list[File]) -> str:
    names = [f"`{file.name}`" for file in files if not file.whole]
    return f"Not run to their end, so that some of their tests are not counted: {', '.join(names)}." if names else ""


def _table(files: list[File]) -> str:
    head = ["| File | " + " | ".join(_ORDER) + " |", "|---|" + "---:|" * len(_ORDER)]
    return "\n".join(head + [f"| `{file.name}` | " + " | ".join(_cells(file)) + " |" for file in files])


def _cells(file: File) -> list[str]:
    return [str(file.count(outcome) or "") for outcome in _ORDER]
