"""Removal runs after a kill: the interval does not begin anew, and no run comes early or is lost."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from postgres_cluster import Cluster
from ydb_world import HOUR, MINUTE, START

ydb: Any = pytest.importorskip("ydb")

PROGRAM = "from mayflydb.cli.main import main; main()"
TABLE = (
    "CREATE TABLE t (id Uint64, at Timestamp, s Utf8, PRIMARY KEY (id), INDEX by_s GLOBAL ON (s))"
    ' WITH (TTL = Interval("PT0S") ON at)'
)


class Served:
    """The program, and its clients."""

    def __init__(self, ready: dict[str, Any]) -> None:
        self._admin = ready["admin"]
        self.driver = ydb.Driver(endpoint=ready["ydb"]["endpoint"], database="/local")
        self.driver.wait(timeout=20, fail_fast=True)
        self.pool = ydb.QuerySessionPool(self.driver, size=1)

    def ids(self, rest: str = "") -> list[int]:
        return [
            row.id
            for part in self.pool.execute_with_retries(f"SELECT id FROM t {rest} ORDER BY id")
            for row in part.rows
        ]

    def put(self, *ids: int) -> None:
        rows = ", ".join(f"({id}, CurrentUtcTimestamp(), 's')" for id in ids)
        self.pool.execute_with_retries(f"UPSERT INTO t (id, at, s) VALUES {rows}")

    def advance(self, seconds: int) -> int:
        """Rows that are erased on the way."""
        request = Request(f"{self._admin}/clock/advance", data=json.dumps({"seconds": seconds}).encode())
        request.add_header("Content-Type", "application/json")
        with urlopen(request) as answer:
            return int(json.loads(answer.read())["purged"])

    def pause(self) -> None:
        request = Request(f"{self._admin}/ttl/pause", data=b"{}", headers={"Content-Type": "application/json"})
        urlopen(request).close()

    def row(self) -> dict[str, Any]:
        with urlopen(f"{self._admin}/ttl") as answer:
            (found,) = json.loads(answer.read())["targets"]
        return dict(found)


@contextlib.contextmanager
def killed(directory: Path, *arguments: str) -> Iterator[Served]:
    """A server that is killed with the block: it has no time for anything."""
    places = {"XDG_DATA_HOME": str(directory), "HOME": str(directory), "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "serve", *arguments, "-p", "0", "--mongo-port", "-1", "--ydb-port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=directory,
        env=os.environ | places,
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, process.communicate()[1]
            served = Served(json.loads(line))
            try:
                yield served
            finally:
                process.kill()
                served.pool.stop()
                # The server is gone: the driver would wait 10 s for its discovery.
                served.driver.stop(timeout=0.1)
        finally:
            process.kill()
            process.communicate()


@pytest.mark.parametrize("store", ["file", "postgres"])
def test_runs_go_on(store: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if store == "file":
        place: tuple[str, ...] = (str(tmp_path / "mayfly.db"),)
    else:
        cluster: Cluster = request.getfixturevalue("postgres")
        place = ("--storage", cluster.fresh(), "--allow-time-travel")
    arguments = (*place, "--clock", "virtual")
    with killed(tmp_path, *arguments, "--clock-start", START) as served:
        served.pool.execute_with_retries(TABLE)
        served.put(1, 2)
        assert served.advance(MINUTE) == 2
        served.put(3)
        served.advance(20 * MINUTE)
        before = served.row()
    with killed(tmp_path, *arguments) as served:
        after = served.row()
        for name in ("last_run", "next_run", "erased", "processed", "due", "records"):
            assert after[name] == before[name], name
        assert after["next_run"] == "2030-01-01T01:01:00Z"
        assert (served.ids(), served.ids("VIEW by_s")) == ([3], [3])
        assert served.advance(39 * MINUTE) == 0
        served.pool.execute_with_retries("ALTER TABLE t RESET (TTL)")
    with killed(tmp_path, *arguments) as served:
        # Nor does a restart between RESET and SET bring a run nearer.
        served.pool.execute_with_retries('ALTER TABLE t SET (TTL = Interval("PT0S") ON at)')
        assert served.row()["next_run"] == "2030-01-01T01:01:00Z"
        assert served.advance(MINUTE) == 1
        assert (served.ids(), served.ids("VIEW by_s")) == ([], [])
        served.put(4)
        served.pause()
    with killed(tmp_path, *arguments) as served:
        assert served.row()["paused"] == "purge"
        assert served.advance(2 * HOUR) == 0
        assert served.ids() == [4]
