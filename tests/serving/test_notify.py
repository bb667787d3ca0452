"""A service manager is told about the server, and the files of `deploy/` name options that exist."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from mayflydb.cli.serve import serve

ROOT = Path(__file__).parents[2]
PROGRAM = "from mayflydb.cli.main import main; main()"
PATIENCE = 30.0


@pytest.mark.parametrize("kind", ["path", "abstract"])
def test_systemd_hears_ready_alive_and_stopping(tmp_path: Path, kind: str) -> None:
    name = str(tmp_path / "notify") if kind == "path" else f"@mayfly-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(name.replace("@", "\0", 1))
        manager.settimeout(PATIENCE)
        told = {"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "200000", "XDG_DATA_HOME": str(tmp_path)}
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, "serve", "-m", "-p", "0", "--mongo-port", "-1", "--ydb-port", "-1"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | told,
        )
        try:
            first = manager.recv(1024).decode().split("\n")
            assert first == ["READY=1", "STATUS=serving memory", f"MAINPID={process.pid}"]
            assert process.stdout is not None and json.loads(process.stdout.readline())["event"] == "ready"
            assert [manager.recv(1024) for _ in range(3)] == [b"WATCHDOG=1"] * 3
            process.send_signal(signal.SIGTERM)
            heard = [manager.recv(1024)]
            while heard[-1] == b"WATCHDOG=1":
                heard.append(manager.recv(1024))
            assert heard[-1].startswith(b"STOPPING=1\n")
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()
            process.communicate()


def arguments_in(text: str) -> list[list[str]]:
    """Each call of `mayfly serve`: in a line of a shell or unit, a JSON list, or a list of YAML."""
    found = [shlex.split(each) for each in re.findall(r"mayfly serve ([^>\n]+)", text)]
    found += [json.loads(each)[1:] for each in re.findall(r'^(?:CMD|\s+command:) (\["serve".*\])$', text, re.MULTILINE)]
    for block in re.findall(r"args:\n\s+- serve\n((?:\s+- \S+\n)+)", text):
        found.append(re.findall(r"- (\S+)", block))
    return found


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("mayfly.service", 2),
        ("Containerfile", 1),
        ("compose.yaml", 1),
        ("kubernetes.yaml", 1),
        ("github-actions.yaml", 1),
    ],
)
def test_files_of_deployments_name_options_that_exist(name: str, count: int) -> None:
    calls = arguments_in((ROOT / "deploy" / name).read_text(encoding="utf-8"))
    assert len(calls) == count
    for arguments in calls:
        with serve.make_context("serve", list(arguments)) as context:
            assert not context.args


def test_a_server_for_other_machines_starts_as_its_files_say(tmp_path: Path) -> None:
    [arguments] = arguments_in((ROOT / "deploy" / "compose.yaml").read_text(encoding="utf-8"))
    chosen = [str(tmp_path / "mayfly.db") if each.startswith("/data/") else each for each in arguments]
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "serve", *chosen, "-p", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"XDG_DATA_HOME": str(tmp_path)},
    )
    try:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        port = ready["admin"].removesuffix("/_mayfly").rpartition(":")[2]
        status = ["--url", f"https://127.0.0.1:{port}", "status", "--wait", "0"]  # Its health check.
        asked = subprocess.run(
            [sys.executable, "-c", PROGRAM, *status],
            env=os.environ | {"XDG_DATA_HOME": str(tmp_path)},
            capture_output=True,
            check=False,
        )
        assert asked.returncode == 0, asked.stderr
    finally:
        process.kill()
        process.communicate()
