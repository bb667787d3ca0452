"""The vendor's JavaScript client, driven from Node: each scenario of flows.mjs and scenarios.mjs is a test."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import stores
from mayflydb.embedded import serve

HERE = Path(__file__).parent
TEXT = "".join((HERE / name).read_text(encoding="utf-8") for name in ("flows.mjs", "scenarios.mjs"))
SCENARIOS = re.findall(r"^    async (\w+)\(\)", TEXT, re.MULTILINE)
START = "2030-01-01T00:00:00Z"
PATIENCE = 120

pytestmark = pytest.mark.skipif(
    shutil.which("node") is None or not (HERE / "node_modules").is_dir(),
    reason="Node or its packages are missing: tools/javascript.sh says why",
)

Outcomes = dict[str, str | None]
"""Scenario -> what was wrong, if anything."""


@pytest.fixture(scope="session", params=stores.STORES)
def outcomes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    """All scenarios, one after the other, on one server."""
    directory = tmp_path_factory.mktemp(f"javascript-{request.param}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(directory))
        place = stores.place(request.param, request, directory)
        with serve(**place, port=0, clock="virtual", clock_start=START) as server:
            cosmos = server.cosmos
            trust = {"NODE_EXTRA_CA_CERTS": str(cosmos.ca_file)}
            url = cosmos.url.rstrip("/")
            done = subprocess.run(
                ["node", "scenarios.mjs", url, cosmos.key, url],
                check=False,
                cwd=HERE,
                env=os.environ | trust,
                capture_output=True,
                text=True,
                timeout=PATIENCE,
            )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {line["name"]: line["error"] for line in lines}


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario(outcomes: Outcomes, name: str) -> None:
    assert outcomes[name] is None, outcomes[name]


def test_all_of_them_ran(outcomes: Outcomes) -> None:
    assert list(outcomes) == SCENARIOS and len(SCENARIOS) > 10
