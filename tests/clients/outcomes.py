"""The outcomes of checks written in other languages, from the report that each language's own test runner makes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"

_ACTIONS = {"pass": PASSED, "fail": FAILED, "skip": SKIPPED}
_WORDS = {"ok": PASSED, "FAILED": FAILED, "ignored": SKIPPED}
_CARGO_LINE = re.compile(
    r"^test (\S+)(?: - should panic)? \.\.\. (.*?)(ok|FAILED|ignored)(?:, [^\n]*)?$", re.MULTILINE | re.DOTALL
)
_CARGO_RESULT = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored", re.MULTILINE)
_CARGO_SAID = re.compile(r"^---- (\S+) stdout ----\n(.*?)(?=^---- |^failures:$)", re.MULTILINE | re.DOTALL)


class Check(NamedTuple):
    """One check. `name` is `wire/...`, the wire `cosmos`, `mongo`, `ydb` or `spring`.

    `said` is the output of one that did not pass.
    """

    name: str
    outcome: str
    said: str = ""

    @property
    def wire(self) -> str:
        return self.name.partition("/")[0]


def from_go(text: str) -> list[Check]:
    """The checks of `go test -json`: a test without subtests, or the subtests at the end of each branch.

    A test that failed by itself, while its subtests passed, is a check as well. The wire is the package's last name.

    Raises:
        ValueError: a package did not build, or a test has no outcome.
    """
    outcomes: dict[str, str] = {}
    said: dict[str, list[str]] = {}
    for line in text.splitlines():
        if not line.startswith("{"):
            continue
        event = json.loads(line)
        action = event["Action"]
        if action == "build-fail" or event.get("FailedBuild"):
            raise ValueError("a package does not build")
        if "Test" not in event:
            continue
        name = f"{event['Package'].rpartition('/')[2]}/{event['Test']}"
        if action == "run":
            outcomes[name] = ""
        elif action == "output":
            said.setdefault(name, []).append(event["Output"])
        elif action in _ACTIONS:
            outcomes[name] = _ACTIONS[action]
    if unfinished := [name for name, outcome in outcomes.items() if not outcome]:
        raise ValueError(f"{unfinished[0]} did not end")
    return [Check(name, outcomes[name], "".join(said.get(name, ()))) for name in outcomes if _counts(name, outcomes)]


def from_cargo(text: str) -> list[Check]:
    """The checks of `cargo test -- --test-threads=1`; `cosmos::ttl::row` is named `cosmos/ttl/row`.

    Raises:
        ValueError: the run did not end, or its lines are not those that it counted.
    """
    lines = [(found[1], _WORDS[found[3]]) for found in _CARGO_LINE.finditer(text)]
    counted = [tuple(map(int, found.groups())) for found in _CARGO_RESULT.finditer(text)]
    seen = tuple(sum(outcome == kind for _, outcome in lines) for kind in (PASSED, FAILED, SKIPPED))
    if not counted or tuple(map(sum, zip(*counted, strict=True))) != seen:
        raise ValueError(f"the run counted {counted or 'nothing'}, and its lines are {seen}")
    said = dict(_CARGO_SAID.findall(text))
    return [Check(name.replace("::", "/"), outcome, said.get(name, "")) for name, outcome in lines]


def from_surefire(directory: Path) -> list[Check]:
    """The checks of Surefire's XML files; `any.cosmos.TtlTest`'s method `row` is named `cosmos/TtlTest/row`.

    Raises:
        ValueError: there is no report.
    """
    files = sorted(directory.glob("TEST-*.xml"))
    if not files:
        raise ValueError(f"{directory} has no report")
    return [_case(case) for file in files for case in ET.parse(file).getroot().iter("testcase")]


def _counts(name: str, outcomes: dict[str, str]) -> bool:
    below = [outcome for other, outcome in outcomes.items() if other.startswith(f"{name}/")]
    return not below or (outcomes[name] == FAILED and FAILED not in below)


def _case(case: ET.Element) -> Check:
    name = "/".join([*case.attrib["classname"].split(".")[-2:], case.attrib["name"]])
    for kind, outcome in (("failure", FAILED), ("error", FAILED), ("skipped", SKIPPED)):
        found = case.find(kind)
        if found is not None:
            return Check(name, outcome, f"{found.get('message') or ''}\n{found.text or ''}".strip())
    return Check(name, PASSED)


def failed(checks: Iterable[Check]) -> list[Check]:
    """Those that failed, in order."""
    return [check for check in checks if check.outcome == FAILED]
