"""The Mayfly that a file of a suite talks to, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

PATIENCE = 20.0
POLL = 0.05
MAYFLY = Path(sys.executable).with_name("mayfly")


@contextmanager
def mayfly(log: Path, *options: str) -> Iterator[dict[str, Any]]:
    """What it announces, until the block ends. It keeps everything in memory and goes by the real clock; it logs to `log`.

    Raises:
        RuntimeError: it ended, or said nothing for twenty seconds.
    """
    ready = log.with_suffix(".ready.json")
    ready.unlink(missing_ok=True)
    command = [str(MAYFLY), "serve", "--memory", "-p", "0", "--ready-file", str(ready), *options]
    # Neither the settings of whoever started the run nor a mayfly.toml are the server's.
    ours = {name: value for name, value in os.environ.items() if not name.startswith("MAYFLY_")}
    with (
        log.open("wb") as sink,
        subprocess.Popen(command, cwd=log.parent, env=ours, stdout=sink, stderr=sink) as process,
    ):
        try:
            yield _announced(process, ready)
        finally:
            process.terminate()
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()


def _announced(process: subprocess.Popen[bytes], ready: Path) -> dict[str, Any]:
    deadline = monotonic() + PATIENCE
    while monotonic() < deadline:
        if ready.exists():
            announced: dict[str, Any] = json.loads(ready.read_text(encoding="utf-8"))
            return announced
        try:
            code = process.wait(POLL)
        except subprocess.TimeoutExpired:
            continue
        raise RuntimeError(f"the server ended with {code} before it was ready")
    raise RuntimeError(f"the server was not ready in {PATIENCE:.0f} s")
