"""MongoDB's driver for Node and applications over it: each scenario of mongo/*.mjs is a test."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from mayflydb.embedded import serve

HERE = Path(__file__).parent / "mongo"
FILES = ("driver", "models", "sessions", "limiters")
TEXT = "".join((HERE / f"{name}.mjs").read_text(encoding="utf-8") for name in FILES)
SCENARIOS = re.findall(r"^    async (\w+)\(\)", TEXT, re.MULTILINE)
START = "2030-01-01T00:00:00Z"
PATIENCE = 120

pytestmark = pytest.mark.skipif(
    shutil.which("node") is None or not (HERE / "node_modules").is_dir(),
    reason="Node or its packages are missing: tools/javascript.sh says why",
)

Outcomes = dict[str, str | None]
"""Scenario -> what was wrong, if anything."""


@pytest.fixture(scope="module")
def mongo_outcomes(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    """All scenarios, one after the other, on one server."""
    options: dict[str, Any] = {"clock": "virtual", "clock_start": START, "mongo_test_commands": True}
    with pytest.MonkeyPatch.context() as patch:
        # A certificate authority is made for TLS, and kept here.
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("mongo-javascript")))
        with serve(memory=True, port=0, mongo_port=0, **options) as server:
            done = subprocess.run(
                ["node", "scenarios.mjs", server.mongo.uri, server.admin_url, str(server.cosmos.ca_file)],
                check=False,
                cwd=HERE,
                env=os.environ,
                capture_output=True,
                text=True,
                timeout=PATIENCE,
            )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {line["name"]: line["error"] for line in lines}


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario(mongo_outcomes: Outcomes, name: str) -> None:
    assert mongo_outcomes[name] is None, mongo_outcomes[name]


def test_all_of_them_ran(mongo_outcomes: Outcomes) -> None:
    assert list(mongo_outcomes) == SCENARIOS and len(SCENARIOS) > 10
