"""One language: how its checks are run and read, and the record of them that docs/compatibility.md is written from."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from clients.outcomes import FAILED, SKIPPED, Check, failed

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RECORDS = ROOT / ".compatibility" / "clients"
PREPARED = ROOT / ".venv" / ".clients"
PATIENCE = 540.0
TAIL = 6_000
"""Characters of a runner's output that a failure shows."""


class Client(NamedTuple):
    """A vendor's client: what its project calls it, and the version that is pinned."""

    name: str
    version: str


class Language(NamedTuple):
    """`word` names the folder below tests/clients and the record; `title` is for people.

    `read` makes checks of what the command printed; it raises ValueError where the run is not whole. `clients`: by wire, the
    first part of a check's name. `least` is how many checks there are at least, so that none is lost unseen.
    """

    word: str
    title: str
    command: Sequence[str]
    read: Callable[[str], list[Check]]
    clients: Mapping[str, Client]
    least: int

    @property
    def place(self) -> Path:
        return HERE / self.word


def prepared(word: str) -> pytest.MarkDecorator:
    """Skips where tools/clients.sh has not found, or could not download, what the language needs."""
    return pytest.mark.skipif(
        not (PREPARED / word).exists(), reason=f"{word} or what its checks need is missing: tools/clients.sh says why"
    )


def verify(language: Language, environment: Mapping[str, str], subtests: pytest.Subtests) -> None:
    """Run all checks of a language; each is a subtest with its own output."""
    checks = _ran(language, environment)
    assert {check.wire for check in checks} == language.clients.keys()
    assert len(checks) >= language.least
    _record(language, checks)
    for check in checks:
        with subtests.test(check.name):
            if check.outcome == FAILED:
                pytest.fail(check.said or "no output", pytrace=False)
            if check.outcome == SKIPPED:
                pytest.skip(check.said.strip() or "no reason")


def _ran(language: Language, environment: Mapping[str, str]) -> list[Check]:
    done = subprocess.run(
        language.command,
        check=False,
        cwd=language.place,
        env=os.environ | dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE,
    )
    try:
        checks = language.read(done.stdout)
    except ValueError as error:
        pytest.fail(f"{error}\n{done.stdout[-TAIL:]}", pytrace=False)
    if bool(done.returncode) != bool(failed(checks)):
        pytest.fail(f"exit code {done.returncode}, {len(failed(checks))} failed\n{done.stdout[-TAIL:]}", pytrace=False)
    return checks


def _record(language: Language, checks: Sequence[Check]) -> None:
    """`.compatibility/clients/<word>.json`: language, and for each client its name, version, checks, and failures by name."""
    clients = [
        {
            "client": client.name,
            "version": client.version,
            "checks": sum(check.wire == wire for check in checks),
            "failed": [check.name for check in failed(checks) if check.wire == wire],
            "skipped": [check.name for check in checks if check.wire == wire and check.outcome == SKIPPED],
        }
        for wire, client in language.clients.items()
    ]
    RECORDS.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"language": language.title, "clients": clients}, indent=2)
    (RECORDS / f"{language.word}.json").write_text(text + "\n", encoding="utf-8")
