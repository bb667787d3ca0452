"""Killed while it archives: each record that expired is in exactly one file."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from mayflydb.embedded import serve
from mayflydb.engine.lifecycle.erasure_log import SELF_TEST
from mayflydb.store.interface import Expiries
from mayflydb.store.sqlite.store import SqliteStore
from reliability.kill9 import archiving

KILLS = 3


def run_until_killed(program: ModuleType, arguments: Sequence[Path], turns: int, after: float) -> None:
    """Run a program for some turns, and kill the process within one."""
    command = [sys.executable, str(program.__file__), *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(turns)]
        try:
            process.wait(after)
        except subprocess.TimeoutExpired:
            process.kill()
    assert lines[-1].strip() == b"%d" % (turns - 1)


async def read_expiries(file: Path) -> Counter[tuple[int, int]]:
    """(container, lsn) of all that expired."""
    store = await SqliteStore.open(str(file))
    events = await store.read(Expiries(None, 0, 10**6))
    await store.close()
    return Counter([(event.container, event.lsn) for event in events if event.how != SELF_TEST])


def test_files_after_kills(tmp_path: Path, seed: int) -> None:
    chance, file, root = random.Random(seed), tmp_path / "store.db", tmp_path / "archives"
    for _ in range(KILLS):
        run_until_killed(archiving, (file, root), chance.randint(1, 12), chance.random() / 20)
    with serve(file, port=0, mongo_port=-1, ydb_port=-1, clock="virtual", archive_dir=root) as server:
        server.clock.advance(seconds=5)
        assert server.flush_archives()["error"] is None
    archived: Counter[tuple[int, int]] = Counter()
    for each in (root / "cold").rglob("*.jsonl"):
        container = int(each.name.split("-")[1])
        rows = [json.loads(line) for line in each.read_bytes().splitlines()]
        archived.update((container, row["lsn"]) for row in rows)
    expired = asyncio.run(read_expiries(file))
    assert archived == expired
    assert len(expired) >= KILLS * 20
    assert [each for each in root.rglob(".*") if each.is_file()] == [], "no file is left that was begun"
