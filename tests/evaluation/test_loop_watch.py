"""The delay of the event loop, and the place that holds it."""

from __future__ import annotations

import asyncio
import logging
from threading import Event

from mayflydb.evaluation.loop_watch import LoopWatch


def test_delays_are_counted() -> None:
    watch = LoopWatch()
    for seconds in (0.25, -0.001, 0.5):
        watch.note_delay(seconds)
    assert (watch.last, watch.longest, watch.total) == (0.5, 0.5, 0.75)


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
