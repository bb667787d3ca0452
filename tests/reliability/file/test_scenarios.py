"""A file that is taken away from its server: acknowledging stops within a second, and what still exists is complete."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from reliability.file import scenarios
from reliability.file.scenarios import Measured
from reliability.kill9.process import Server

EXPECTED: dict[Callable[[Path], Coroutine[Any, Any, Measured]], tuple[bool, str]] = {
    # Whether everything that was acknowledged is in what is left, and what readiness and the log say.
    scenarios.removed_file: (False, "mayfly.db was removed while"),
    scenarios.renamed_file: (True, "mayfly.db was renamed (or its directory) while"),
    scenarios.renamed_directory: (True, "mayfly.db was renamed (or its directory) while"),
    scenarios.replaced_file: (True, "mayfly.db was renamed (or its directory), and another file has its name while"),
    scenarios.overwritten_file: (False, "mayfly.db was overwritten while"),
    scenarios.removed_log: (True, "mayfly.db-wal was removed while"),
}


def test_every_scenario_is_expected() -> None:
    assert {*EXPECTED} == {*scenarios.SCENARIOS}


@pytest.mark.parametrize("scenario", EXPECTED, ids=lambda scenario: scenario.__name__)
def test_a_file_that_is_taken_away(scenario: Callable[[Path], Coroutine[Any, Any, Measured]], tmp_path: Path) -> None:
    complete, words = EXPECTED[scenario]
    found = asyncio.run(scenario(tmp_path))
    assert found.acknowledged >= scenarios.BEFORE
    assert found.lost == (0 if complete else found.acknowledged)
    # Half a second of play for a busy machine: the bound is of the scenario `overwritten_file`, which looks twice.
    assert found.seconds < 1.5, found
    assert found.refusals == {"503 ServiceUnavailable", "read: 503 ServiceUnavailable"}
    assert found.ready.startswith("False: ") and words in found.ready
    assert words in found.log and "critical" in found.log and "Traceback" not in found.log


def test_what_a_start_makes_of_an_overwritten_file(tmp_path: Path) -> None:
    asyncio.run(scenarios.overwritten_file(tmp_path))
    before = (tmp_path / "mayfly.db").read_bytes()
    with Server(tmp_path) as server:
        assert "mayfly.db-wal does not belong to the file beside it" in server.start_refused()
        # The backup that was copied over the file is as it was copied: without the log, it is served.
        assert (tmp_path / "mayfly.db").read_bytes() == before == (tmp_path / "other.db").read_bytes()
        (tmp_path / "mayfly.db-wal").unlink()
        server.start()
        server.stop()
