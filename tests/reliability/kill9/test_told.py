"""The real server with an erasure log and a webhook, killed under load: every death is told once by each of them, and alike."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reliability.deaths import Receiver, check_agreement
from reliability.kill9.load import Life
from reliability.kill9.process import Server
from served import Http

ROUNDS, WRITES = 6, 160
OPTIONS = ("--erasure-log",)


async def kill_and_compare(life: Life, receiver: Receiver, rounds: int) -> None:
    """Load, kill, start; then clients, events, lines and messages are compared."""
    await life.set_up()
    Http(life.server.port).post("webhooks", name="audit", url=receiver.url)
    for turn in range(rounds):

        def kill() -> None:
            os.kill(life.server.pid, signal.SIGKILL)

        if turn % 2:
            receiver.interrupt = kill
            await life.load(1 << 30, lambda: None)
        else:
            await life.load(life.random.randint(WRITES // 2, WRITES * 3 // 2), kill)
        life.server.ended()
        life.server.start()
        await life.check()
        # Killed while it waited for an answer: it could not know that the message had come.
        await asyncio.to_thread(receiver.wait_for_repetition, (turn + 1) // 2)
        http = Http(life.server.port)
        life.tally["told deaths"] = await asyncio.to_thread(check_agreement, http, receiver)


def live(directory: Path, seed: int, rounds: int) -> tuple[Life, Receiver]:
    with Receiver() as receiver, Server(directory, options=OPTIONS) as server:
        server.start()
        life = Life(server, seed)
        asyncio.run(kill_and_compare(life, receiver, rounds))
        server.kill()
        life.check_events(server.file)
    assert life.tally["told deaths"] > rounds
    return life, receiver


def test_each_death_is_told_once_by_all(seed: int, tmp_path: Path, figure: Callable[[str], None]) -> None:
    life, receiver = live(tmp_path, seed, ROUNDS)
    figure(
        f"N={ROUNDS} rounds (3/N = {3 / ROUNDS:.0%}), {life.acknowledged} acknowledged writes, {life.tally['told deaths']}"
        f" deaths, {len(receiver.messages)} messages, {receiver.repeated} of them again"
    )


@pytest.mark.soak
def test_each_death_is_told_once_for_hours(
    seed: int, tmp_path: Path, soaking: Callable[[float], Iterator[int]], figure: Callable[[str], None]
) -> None:
    deaths = 0
    for number in soaking(0.05):
        directory = tmp_path / str(number)
        directory.mkdir()
        deaths += live(directory, seed + number, 50)[0].tally["told deaths"]
        figure(f"N={(number + 1) * 50} rounds, {deaths} deaths")
