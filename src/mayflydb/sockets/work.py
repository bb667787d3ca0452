"""State that a listener and its connections share, and coroutines that begin without a task."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Generator
from types import coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Served(asyncio.Protocol, ABC):
    """The protocol of one connection, as far as its listener knows it."""

    @abstractmethod
    def flush(self) -> None:
        """Send what has been answered."""

    @abstractmethod
    def shutdown(self) -> None:
        """End when what has been asked so far is answered."""

    @abstractmethod
    def abort(self) -> None:
        """Drop the connection, whatever it is about."""


class Work:
    """The open connections, the requests in work, and the answers to send."""

    def __init__(self) -> None:
        self.connections: set[Served] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        self._outgoing: list[Served] = []

    def post(self, connection: Served) -> None:
        """Send what a connection holds at the end of this turn of the loop, together with the other answers.

        To send wakes whoever waits for it, which costs more than to answer: one wake-up for all is much cheaper.
        """
        if not self._outgoing:
            asyncio.get_running_loop().call_soon(self.flush)
        self._outgoing.append(connection)

    def flush(self) -> None:
        """Send everything now."""
        outgoing, self._outgoing = self._outgoing, []
        for connection in outgoing:
            connection.flush()


@coroutine
def resumed(begun: Coroutine[Any, Any, T], awaited: Any) -> Generator[Any, Any, T]:
    """Go on with a coroutine that was sent its first None outside of any task, and waits for something since.

    It is awaited inside a coroutine of its own: from Python 3.12 on, a task takes no generator.
    """
    try:
        while True:
            try:
                value = yield awaited
            except BaseException as error:  # noqa: BLE001 -- it is the coroutine's to handle.
                awaited = begun.throw(error)
            else:
                awaited = begun.send(value)
    except StopIteration as done:
        result: T = done.value
        return result
