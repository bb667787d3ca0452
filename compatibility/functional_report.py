"""The section of the functional tests: counts by directory, and failures by directory and error instead of one by one."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable

from functional_suite import TESTS, WHOLE_DIRECTORIES, Measured
from outcomes import Outcome, Test

TITLE = "MongoDB: `functional-tests`"
HEAD = """The [DocumentDB project](https://github.com/documentdb/functional-tests) describes MongoDB 8.2 in some 57,000 tests,
with the codes of errors. `make compatibility ARGS=functional` clones them at one commit and runs a sample. `SEED=n` draws the
same one again; `SAMPLE=all` runs all of them, as `make soak` does; `FUNCTIONAL_TESTS=directory` takes them from a copy of their
repository. They are as published. A plugin (`compatibility/functional`) tells them what Mayfly can do, as the suite asks of
every server.
*Refused by name* are tests that fail after Mayfly has answered that it has no geospatial queries, no collations of
languages, no search indexes, or no encrypted fields."""

_ORDER = (Outcome.PASSED, Outcome.FAILED, Outcome.REFUSED, Outcome.SKIPPED)
_DEPTH = 3


def section(measured: Measured) -> str:
    """What the document says of a run."""
    sample = measured.sample
    parts = [
        f"## {TITLE}\n\n{HEAD}",
        f"{_run(measured)}: {summary(sample)}. Passed: {share(sample):.1%} of those that passed or failed.",
        "### TTL and collMod\n\nAll tests of these directories run, whatever the sample.\n\n"
        + _directories(measured.tests, whole_directory),
        "### Directories\n\n" + _directories(sample, directory),
        "### Failures\n\nBy directory and by what came instead.\n\n" + failures(sample),
        "### Failures of TTL and collMod\n\n"
        + failures([test for test in measured.tests if whole_directory(test.id)], examples=10),
        "### Refused\n\n" + _counted("Feature", (t.said for t in sample if t.outcome is Outcome.REFUSED)),
        "### Capabilities\n\nWhat tests need that Mayfly has not, of all tests there are.\n\n"
        + _counted("Capability", (", ".join(test.lacks) for test in measured.collected if test.lacks)),
    ]
    return "\n\n".join(parts)


def _run(measured: Measured) -> str:
    return f"functional-tests {measured.commit[:12]}, {drawn(measured)}"


def drawn(measured: Measured) -> str:
    """How many tests of how many, and how they are drawn again."""
    applicable = sum(not test.lacks for test in measured.collected)
    if measured.seed is None:
        return f"all {applicable:,} tests that apply"
    return f"{len(measured.drawn):,} of the {applicable:,} tests that apply, drawn with `SEED={measured.seed}`"


def summary(tests: list[Test]) -> str:
    """All counts in one line."""
    counts = Counter(test.outcome for test in tests)
    return ", ".join(f"{counts[outcome]} {outcome}" for outcome in _ORDER)


def share(tests: list[Test]) -> float:
    """Passed, of passed and failed."""
    counts = Counter(test.outcome for test in tests)
    return counts[Outcome.PASSED] / max(1, counts[Outcome.PASSED] + counts[Outcome.FAILED])


def failures(tests: list[Test], examples: int = 1) -> str:
    """A table of clusters, the largest first."""
    clusters: dict[tuple[str, str], list[Test]] = defaultdict(list)
    for test in tests:
        if test.outcome is Outcome.FAILED:
            clusters[below(test.id).rpartition("/")[0], what(test.said)].append(test)
    if not clusters:
        return "None."
    rows = sorted(clusters.items(), key=lambda cluster: (-len(cluster[1]), cluster[0]))
    lines = [
        f"| `{place}` | {_cell(happened)} | {len(failed)} | {_named(failed[:examples])} |"
        for (place, happened), failed in rows
    ]
    return "\n".join(["| Directory | What came | Tests | Such as |", "|---|---|---:|---|", *lines])


def _named(tests: list[Test]) -> str:
    return ", ".join(f"`{_cell(name(test.id))}`" for test in tests)


def name(id: str) -> str:
    """The test without its directory and without the server that it is about."""
    return (
        id.rpartition("/" if "/" not in id.partition("::")[2] else "::")[2]
        .replace("[mayfly-", "[")
        .replace("[mayfly]", "")
    )


def below(id: str) -> str:
    """The file, below the directory of all tests."""
    return id.partition("::")[0].removeprefix(f"{TESTS}/")


def directory(id: str) -> str:
    parts = below(id).split("/")[:-1]
    return "/".join(parts[:_DEPTH])


def whole_directory(id: str) -> str:
    return next((each for each in WHOLE_DIRECTORIES if below(id).startswith(f"{each}/")), "")


_ERROR = r"'code': (\d+|None)(?:, 'msg': ['\"](.*))?"
_ACTUAL = re.compile(r"Expected:\s+(?:E\s+)?\{'code': (\d+).*?Actual:\s+(?:E\s+)?\{'code': (\d+|None)", re.DOTALL)
_PLAIN = re.compile(r"^E\s+(.+)$", re.MULTILINE)
_VARYING = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`|\{.*|\[.*|-?\d[\d.eE+]*|coll_\w+|test_\w+")


def what(said: str) -> str:
    """The error that a failed test tells of, without the values in it."""
    if "[UNEXPECTED_SUCCESS]" in said:
        return "success instead of an error"
    if "[ERROR_MISMATCH]" in said and (codes := _ACTUAL.search(said)):
        return f"error {codes[2]} instead of {codes[1]}"
    if "[UNEXPECTED_ERROR]" in said and (error := re.search(_ERROR, said)):
        return f"error {error[1]}: {plain(error[2] or '')}"
    if "[RESULT_MISMATCH]" in said:
        return "another result"
    first = _PLAIN.search(said)
    return plain(first[1] if first else said.partition("\n")[0])


def plain(message: str) -> str:
    return _VARYING.sub("…", message)[:80].strip()


def _cell(text: str) -> str:
    return text.replace("|", "/").replace("`", "'").replace("\n", " ")


def _directories(tests: list[Test], owner: Callable[[str], str]) -> str:
    counts: dict[str, Counter[Outcome]] = defaultdict(Counter)
    for test in tests:
        if owned := owner(test.id):
            counts[owned][test.outcome] += 1
    head = ["| Directory | " + " | ".join(_ORDER) + " |", "|---|" + "---:|" * len(_ORDER)]
    return "\n".join(
        head
        + [
            f"| `{place}` | {' | '.join(str(found[o] or '') for o in _ORDER)} |"
            for place, found in sorted(counts.items())
        ]
    )


def _counted(title: str, names: Iterable[str]) -> str:
    counts = sorted(Counter(names).items(), key=lambda pair: (-pair[1], pair[0]))
    return (
        "\n".join([f"| {title} | Tests |", "|---|---:|", *(f"| {text} | {count} |" for text, count in counts)])
        if counts
        else "None."
    )
