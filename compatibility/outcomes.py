"""What the JUnit reports say."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from xml.etree import ElementTree as ET

import msgspec


class Outcome(StrEnum):
    """How a test ended, worst last. BROKEN: it fails in the suite's own code, before any server is asked."""

    NOT_APPLICABLE = "not applicable"
    SKIPPED = "skipped"
    PASSED = "passed"
    BROKEN = "broken as published"
    FAILED = "failed"


class Test(msgspec.Struct, frozen=True):
    """One test: `id` as `test_ttl.py::TestTimeToLive::test_x`, and what was said when it did not pass."""

    id: str
    outcome: Outcome
    said: str = ""


class File(msgspec.Struct, frozen=True):
    """One file. `whole` is false if there is no report, or the run was interrupted before all tests had run."""

    name: str
    tests: list[Test]
    whole: bool = True

    def count(self, outcome: Outcome) -> int:
        return sum(test.outcome is outcome for test in self.tests)


def read(name: str, report: Path, whole: bool, not_applicable: str) -> File:
    """The outcomes of one file. Skips whose reason begins with `not_applicable` are ours, the others the suite's own."""
    try:
        root = ET.parse(report).getroot()
    except (OSError, ET.ParseError):
        return File(name, [], whole=False)
    found: dict[str, Test] = {}
    for case in root.iter("testcase"):
        test = _test(name, case, not_applicable)
        known = found.get(test.id)
        if known is None or _RANK[test.outcome] > _RANK[known.outcome]:
            found[test.id] = test
    return File(name, list(found.values()), whole)


_RANK = {outcome: rank for rank, outcome in enumerate(Outcome)}


def _test(file: str, case: ET.Element, not_applicable: str) -> Test:
    module = file.removesuffix(".py").replace("/", ".")
    owner = case.get("classname", "").removeprefix(module).lstrip(".")
    id = "::".join(part for part in (file, owner, case.get("name", "")) if part)
    for element in case:
        if element.tag in ("failure", "error"):
            return Test(id, Outcome.FAILED, f"{element.get('message', '')}\n{element.text or ''}")
    for element in case:
        if element.tag == "skipped":
            said = element.get("message", "")
            if said.startswith(not_applicable):
                return Test(id, Outcome.NOT_APPLICABLE, said.removeprefix(not_applicable))
            return Test(id, Outcome.SKIPPED, said)
    return Test(id, Outcome.PASSED)
