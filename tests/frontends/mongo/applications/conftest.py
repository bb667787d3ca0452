"""One time for the server and for the applications, which read clocks of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import time_machine

from mayflydb.embedded import RunningServer

Advance = Callable[[float], None]
"""Advances both clocks by a number of seconds."""


@pytest.fixture
def advance(mongo_server: RunningServer) -> Iterator[Advance]:
    with time_machine.travel(mongo_server.clock.now(), tick=False) as traveller:

        def on(seconds: float) -> None:
            mongo_server.clock.advance(seconds=seconds)
            traveller.shift(seconds)

        yield on
