"""The document, and its short form for the terminal."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import functional_report
import languages
from outcomes import File, Outcome, Test
from reasons import UNEXPLAINED, why
from suites import ALL, Suite

HEAD = """# The clients' own tests

Clients come with the tests that their authors run. `make compatibility` fetches them and runs each of their files against a
Mayfly of its own, in memory and on the real clock. This page is written by that run; `make compatibility ARGS=ydb`, or
`cosmos`, `mongo`, `unified`, `sqlalchemy`, `ydb-go`, runs one suite and writes its section. What fails is listed by name, under
its reason; *broken as published* are tests that fail in their own code before they ask any server, and are listed as well.
`make compatibility ARGS=functional` runs tests of MongoDB's server that belong to no client.

Clients in Go, Java and Rust are driven by Mayfly's own checks, below `tests/clients`; `make compatibility ARGS=clients` runs
them and writes their sections.

No client for .NET is run. What it alone sends is played as bytes, laid out as its sources say: batches in HybridRow
(`tests/frontends/cosmos/unit/test_hybrid_row.py`, `tests/frontends/cosmos/sdk/test_hybrid_batches.py`) and binary JSON
(`tests/frontends/cosmos/unit/test_binary_json.py`). Clients for Java, Go, JavaScript and Python send batches in JSON.
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


def section(suite: Suite, files: list[File]) -> str:
    """What the document says of one suite."""
    parts = [
        f"## {suite.title}\n\n{suite.head}",
        f"{suite.package} {suite.version}: {summary(files)}. Passed: {_share(files):.1%} of those that passed or failed.",
        _cut_short(files),
        "### Failures\n\n" + (failures(files) or "None."),
        "### Broken as published\n\n" + (failures(files, Outcome.BROKEN) or "None."),
        "### Not applicable\n\nWhat a test needs that is not here, and how many tests need it.\n\n"
        + _needs(files, Outcome.NOT_APPLICABLE),
        "### Skipped\n\nWhat the suite says of those that it skips itself.\n\n" + _needs(files, Outcome.SKIPPED),
        "### Files\n\n" + _table(files),
    ]
    return "\n\n".join(part.strip("\n") for part in parts if part)


def document(before: str, section: str) -> str:
    """docs/compatibility.md with one section anew; `before`: as it was, with the others' sections."""
    found = {part.partition("\n")[0]: part for part in f"\n{before}".split("\n## ")[1:]}
    title = section.removeprefix("## ").partition("\n")[0]
    found[title] = section.removeprefix("## ")
    titles = [*(suite.title for suite in ALL), functional_report.TITLE, *languages.TITLES]
    parts = [f"## {found[title]}" for title in titles if title in found]
    return "\n\n".join(part.strip("\n") for part in (HEAD, *parts)) + "\n"


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
        f"#### {reason} ({len(tests)})\n\n" + "\n".join(_bullet(test, reason) for test in tests)
        for reason, tests in groups
    )


def _bullet(test: Test, reason: str) -> str:
    """What is not explained says at least what happened."""
    first = test.said.partition("\n")[0].replace("`", "'")[:160] if reason == UNEXPLAINED else ""
    return f"* `{test.id}`" + (f": `{first}`" if first else "")


def _needs(files: list[File], outcome: Outcome) -> str:
    groups = _grouped((test, test.said.replace("|", "/")) for test in _all(files, outcome))
    if not groups:
        return "None."
    rows = [f"| {reason} | {len(tests)} | {_files_of(tests)} |" for reason, tests in groups]
    return "\n".join(["| Reason | Tests | In |", "|---|---:|---|", *rows])


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
