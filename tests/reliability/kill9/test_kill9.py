"""The real server, killed under load again and again. It proves the order of answers and the recovery, never durability: the
kernel keeps what a killed process has written."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from mayflydb.frontends.cosmos.auth import WELL_KNOWN_KEY
from reliability.kill9.load import CLIENTS, Life
from reliability.kill9.process import Server

LIVES, ROUNDS, WRITES = 4, 25, 260
"""Files, kills of each, acknowledged writes of each round on average: 100 rounds, 26,000 writes."""

FLOOR_ROUNDS, FLOOR_WRITES = 100, 20_000
TRACED_ROUNDS = 10
SDK_ROUNDS = 3


def test_there_are_enough_rounds() -> None:
    assert LIVES * ROUNDS >= FLOOR_ROUNDS and LIVES * ROUNDS * WRITES >= FLOOR_WRITES and CLIENTS >= 8


async def rounds(life: Life, number: int) -> None:
    """Load, kill, start, check."""
    for _ in range(number):
        writes = life.random.randint(WRITES // 2, WRITES * 3 // 2)
        await life.load(writes, lambda: os.kill(life.server.pid, signal.SIGKILL))
        life.server.ended()
        life.server.start()
        await life.check()


def lived(directory: Path, seed: int, number: int) -> Life:
    with Server(directory) as server:
        server.start()
        life = Life(server, seed)
        asyncio.run(_whole(life, number))
        server.kill()
        life.tally["deaths"] = life.check_events(server.file)
    return life


async def _whole(life: Life, number: int) -> None:
    await life.set_up()
    await rounds(life, number)


@pytest.mark.parametrize("number", range(LIVES))
def test_nothing_acknowledged_is_lost_to_a_kill(
    number: int, seed: int, tmp_path: Path, figure: Callable[[str], None]
) -> None:
    life = lived(tmp_path, seed, ROUNDS)
    assert life.acknowledged * LIVES >= FLOOR_WRITES
    assert life.tally["deaths"] > ROUNDS // 3 and life.hidden > ROUNDS // 3, life.tally
    figure(
        f"N={ROUNDS} rounds (3/N = {3 / ROUNDS:.0%}), {life.acknowledged} acknowledged writes, {life.checked} reads,"
        f" {life.hidden} of the dead, {dict(life.tally)}"
    )


def _why_not_strace() -> str | None:
    if shutil.which("strace") is None:
        return "strace is not installed"
    tried = subprocess.run(["strace", "-qq", "-o", "/dev/null", "true"], capture_output=True, check=False)
    return None if tried.returncode == 0 else "strace may not trace here"


def test_nothing_acknowledged_is_lost_to_a_kill_at_a_sync(
    seed: int, tmp_path: Path, figure: Callable[[str], None]
) -> None:
    """The process ends exactly when it is about to sync for the n-th time."""
    reason = _why_not_strace()
    if reason is not None:
        pytest.skip(f"NOT RUN: {reason}")
    draw = random.Random(seed)
    early = 0
    with Server(tmp_path) as server:
        server.start()
        life = Life(server, seed)

        async def check() -> None:
            nonlocal early
            await life.set_up()
            server.kill()
            for _ in range(TRACED_ROUNDS):
                n = draw.choice((draw.randint(1, 12), draw.randint(12, 150)))
                if server.start_traced("-e", "trace=fdatasync", "-e", f"inject=fdatasync:signal=SIGKILL:when={n}"):
                    await asyncio.wait_for(life.load(1 << 30, lambda: None), 60)
                else:
                    early += 1
                server.ended()
                server.start()
                await life.check()
                server.kill()

        asyncio.run(check())
        deaths = life.check_events(server.file)
    figure(
        f"N={TRACED_ROUNDS} rounds, {early} while starting, {life.acknowledged} acknowledged writes, {deaths} deaths"
    )


def _sdk_client(port: int, done: dict[str, int], stop: threading.Event) -> None:
    """Upserts through the official SDK until the server is gone; `done` is what was acknowledged."""
    from azure.core.exceptions import AzureError
    from azure.cosmos import CosmosClient

    options: dict[str, Any] = {"retry_total": 0, "connection_timeout": 5, "enable_endpoint_discovery": False}
    with suppress(AzureError):
        container = (
            CosmosClient(f"http://127.0.0.1:{port}/", WELL_KNOWN_KEY, **options)
            .get_database_client("d")
            .get_container_client("off")
        )
        for n in range(1 << 30):
            body: dict[str, Any] = {
                "id": f"sdk-{n % 20}",
                "p": "sdk",
                "n": n + done.get("base", 0),
                "u": f"sdk {n % 20}",
            }
            container.upsert_item(body)
            done[body["id"]] = body["n"]
            if stop.is_set():
                break


def test_nothing_the_sdk_was_told_is_lost(seed: int, tmp_path: Path, figure: Callable[[str], None]) -> None:
    from azure.cosmos import CosmosClient

    writes = 0
    with Server(tmp_path) as server:
        server.start()
        life = Life(server, seed)
        asyncio.run(life.set_up())
        done: dict[str, int] = {"base": 0}
        for _ in range(SDK_ROUNDS):
            stop = threading.Event()
            thread = threading.Thread(target=_sdk_client, args=(server.port, done, stop))
            thread.start()
            try:
                asyncio.run(life.load(life.random.randint(300, 900), lambda: os.kill(server.pid, signal.SIGKILL)))
            finally:
                stop.set()
                thread.join(60)
            server.ended()
            server.start()
            asyncio.run(life.check())
            with CosmosClient(f"http://127.0.0.1:{server.port}/", WELL_KNOWN_KEY) as client:
                stored = client.get_database_client("d").get_container_client("off")
                for id, n in done.items():
                    if id != "base":
                        found = stored.read_item(id, "sdk")["n"]
                        # The write that was under way may have happened, too.
                        assert found == n or found > max(done.values()), f"{id}: {found}, and {n} was acknowledged"
            writes = max(done.values())
            done["base"] = writes + 100
    assert writes > 0, "the SDK wrote nothing"
    figure(f"N={SDK_ROUNDS} rounds, {sum(id != 'base' for id in done)} items through the SDK")


@pytest.mark.soak
def test_kills_for_hours(
    seed: int, tmp_path: Path, soaking: Callable[[float], Iterator[int]], figure: Callable[[str], None]
) -> None:
    writes = 0
    for number in soaking(0.2):
        directory = tmp_path / str(number)
        directory.mkdir()
        writes += lived(directory, seed + number, 100).acknowledged
        figure(f"N={(number + 1) * 100} rounds, {writes} acknowledged writes")
