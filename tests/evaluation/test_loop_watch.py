"""The delay of the event loop, and the place that holds it."""

from __future__ import annotations

import asyncio
import logging
from threading import Event

from mayflydb.evaluation.loop_watch import LoopWatch


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
