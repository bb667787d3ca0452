"""A process that serves YDB may start others in whichever way."""

from __future__ import annotations

import os
import subprocess
import sys

SCRIPT = """
import subprocess
import mayflydb

with mayflydb.serve(memory=True, port=0, mongo_port=-1, ydb_port=0) as server:
    import ydb
    driver = ydb.Driver(endpoint=server.ydb.endpoint, database="/local")
    driver.wait(timeout=30, fail_fast=True)
    pool = ydb.QuerySessionPool(driver)
    for _ in range(40):
        pool.execute_with_retries("SELECT 1")
        # With something to do before the program begins, the process is forked.
        subprocess.run(["true"], check=True, preexec_fn=lambda: None)
    pool.stop()
    driver.stop()
"""


def test_forked_children_of_a_server_do_not_crash() -> None:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GRPC_")}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], check=False, env=environ, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
