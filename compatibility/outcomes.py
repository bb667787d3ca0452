"""What the JUnit reports say."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from xml.etree import ElementTree as ET

import msgspec


class Outcome(StrEnum):
    """How a test ended, worst last. BROKEN: it fails in the suite's own code, before any server is asked. REFUSED: it fails for
    a feature that Mayfly refuses by name, in a suite that counts these apart."""

    NOT_APPLICABLE = "not applicable"
    SKIPPED = "skipped"
    PASSED = "passed"
    BROKEN = "broken as published"
    REFUSED = "refused by name"
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


EXPECTED = "The suite expects it to fail, whatever the server"

Needs = Callable[[str], str | None]


def read(name: str, report: Path, whole: bool, needs: Needs) -> File:
    """The outcomes of one file. `needs`: what a skipped test needs that is not here, by its message; None: the suite skips it."""
    try:
        root = ET.parse(report).getroot()
    except (OSError, ET.ParseError):
        return File(name, [], whole=False)
    found: dict[str, Test] = {}
    for case in root.iter("testcase"):
        test = _test(name, case, needs)
        known = found.get(test.id)
        if known is None or _RANK[test.outcome] > _RANK[known.outcome]:
            found[test.id] = test
    return File(name, list(found.values()), whole)


_OF_MODULE = re.compile(r"'Skipped: (.*)'\)")
_EXCLUDED = re.compile(r"'[^\n]*::[^\n]*' : ")
"""SQLAlchemy's suite names the test in what it says of skipping it."""

_RANK = {outcome: rank for rank, outcome in enumerate(Outcome)}


def _test(file: str, case: ET.Element, needs: Needs) -> Test:
    module = file.removesuffix(".py").replace("/", ".")
    owner = case.get("classname", "").removeprefix(module).lstrip(".")
    id = "::".join(part for part in (file, owner, case.get("name", "")) if part)
    for element in case:
        if element.tag in ("failure", "error"):
            return Test(id, Outcome.FAILED, f"{element.get('message', '')}\n{element.text or ''}")
    for element in case:
        if element.tag == "skipped":
            said = element.get("message", "") or (EXPECTED if element.get("type") == "pytest.xfail" else "")
            if _EXCLUDED.match(said):
                said = "The dialect says that it does not do what the test is about"
            if said == "collection skipped" and (why := _OF_MODULE.search(element.text or "")):
                said = why[1]
            needed = needs(said)
            if needed is not None:
                return Test(id, Outcome.NOT_APPLICABLE, needed)
            return Test(id, Outcome.SKIPPED, said)
    return Test(id, Outcome.PASSED)
