"""The delay of the event loop, and the place that holds it."""

from __future__ import annotations

import asyncio
import logging
from threading import Event

import pytest

from mayflydb.evaluation.loop_watch import LoopWatch
from mayflydb.serving import process


def test_delays_are_counted() -> None:
    watch = LoopWatch()
    for micros in (250_000, -1000, 500_000):
        watch.note_delay(micros)
    assert (watch.longest, watch.delays.total, watch.delays.count) == (500_000, 750_000, 3)
    assert [number for number in watch.delays.buckets if number] == [1, 1, 1]


def test_a_long_turn_is_logged_with_its_place() -> None:
    logged = Event()
    lines: list[str] = []

    class Arrival(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())
            logged.set()

    def hold_the_loop() -> None:
        assert logged.wait(30)

    async def run() -> None:
        watch = LoopWatch()
        watch.start(asyncio.get_running_loop())
        watch.log_long_turns()
        hold_the_loop()
        watch.stop()
        assert watch.stuck == 1

    arrival = Arrival()
    logger = logging.getLogger("mayflydb.evaluation.loop_watch")
    logger.addHandler(arrival)
    try:
        asyncio.run(run())
    finally:
        logger.removeHandler(arrival)
    assert "hold_the_loop" in lines[0]


def test_the_tidying_at_the_end_of_a_start_is_not_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start whose full collection takes long began its log with the collection's stack."""
    done: list[str] = []
    monkeypatch.setattr(process, "_freeze_start_objects", lambda: done.append("tidy"))
    watch = LoopWatch()
    monkeypatch.setattr(watch, "log_long_turns", lambda: done.append("watch"))
    process._finish_start(watch)
    assert done == ["tidy", "watch"]
    process._finish_start(None)
    assert done == ["tidy", "watch", "tidy"]
