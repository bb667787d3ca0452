"""YDB's two SDKs for Node: each scenario of ydb/*.mjs is a test."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from mayflydb.embedded import RunningServer, serve

HERE = Path(__file__).parent / "ydb"
FILES = ("connections", "tables", "queries", "templates")
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


def _ran(server: RunningServer, guarded: RunningServer) -> Outcomes:
    strings = [server.ydb.connection_string, f"{server.ydb.tls_endpoint}?database={server.ydb.database}"]
    done = subprocess.run(
        [
            "node",
            "scenarios.mjs",
            *strings,
            guarded.ydb.connection_string,
            server.admin_url,
            str(server.cosmos.ca_file),
        ],
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


@pytest.fixture(scope="module")
def ydb_outcomes(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    """All scenarios, one after the other, on one server; beside it, one that wants a password."""
    home = tmp_path_factory.mktemp("ydb-javascript")
    password = home / "password"
    password.write_text("secret")
    password.chmod(0o600)
    options: dict[str, Any] = {"memory": True, "port": 0, "mongo_port": -1, "clock": "virtual", "clock_start": START}
    with pytest.MonkeyPatch.context() as patch:
        # A certificate authority is made for TLS, and kept here.
        patch.setenv("XDG_DATA_HOME", str(home))
        with (
            serve(**options, ydb_tls_port=0) as server,
            serve(**options, ydb_auth=True, ydb_password_file=str(password)) as guarded,
        ):
            return _ran(server, guarded)


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario(ydb_outcomes: Outcomes, name: str) -> None:
    assert ydb_outcomes[name] is None, ydb_outcomes[name]


def test_all_of_them_ran(ydb_outcomes: Outcomes) -> None:
    assert list(ydb_outcomes) == SCENARIOS and len(SCENARIOS) > 30
