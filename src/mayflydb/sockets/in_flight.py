"""The account of bytes in flight: the bytes that the process holds for its clients between two reads or writes of their sockets.

Connections charge the bytes of unfinished and unanswered requests, and of answers that clients have not read yet. Requests up to
SMALL are not charged: the number of connections limits them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol, TypeVar

from mayflydb.model.quota import Quota

T = TypeVar("T")

SMALL: Final = 16 * 1024
"""Bytes of a request that are not charged."""

SMALL_ANSWER: Final = 64 * 1024
"""Bytes of an answer that is always sent: it is written to the socket without a look at the unread bytes."""

SMALL_MESSAGE: Final = 1 << 20
"""Bytes of a message that is read until the limit is reached, while larger messages wait."""

DEFAULT_LIMIT: Final = 160 << 20

HEAVY_MESSAGE: Final = 8 << 20
"""Bytes of a message from which on it is worked on in turn: until it is answered it is in memory about three times."""

HEAVY_COPIES: Final = 2
"""Times that the message in work is charged."""

HEAVY_SECONDS: Final = 10.0
"""Seconds that it waits for its turn at most: the one before may wait for a lock of the same client's."""

LARGE_READ: Final = 512 * 1024
"""Bytes that one read of the store has returned, from which on an answer is made in turn."""

LARGE_AT_ONCE: Final = 4
"""Large answers that are made at a time. Made all at once, each would be held in part until the last has its end."""

CHUNK: Final = 256 * 1024
"""Bytes that one read of a socket returns at most."""


class Reader(Protocol):
    """A connection whose message is not complete."""

    def read_on(self) -> None:
        """Continue to read."""


class BytesInFlight:
    """The bytes in flight of a process, and the connections that wait until they may read on.

    From three quarters of the limit on, large messages wait. The first of them continues nevertheless, since its end makes room
    for the next. At the limit nothing more is read, and no large answer is sent.
    """

    def __init__(self, quota: Quota | None = None, on_release: Callable[[], None] | None = None) -> None:
        """`on_release`: called when most of a large amount of bytes was given back, and when an answer is refused."""
        self.quota = quota or Quota("bytes_in_flight", DEFAULT_LIMIT)
        self.turns = asyncio.Semaphore(LARGE_AT_ONCE)
        """The turns of answers that are large: taken from the first large read on, until the answer is made."""
        self._heavy = asyncio.Semaphore(1)
        self._on_release = on_release
        self._waiting: dict[Reader, None] = {}
        self._first: Reader | None = None
        self._peak = 0

    @property
    def short(self) -> bool:
        """True if large messages have to wait."""
        return self.quota.used > self.quota.limit * 3 // 4

    async def work_in_turn(self, work: Coroutine[Any, Any, T]) -> T:
        """Do the work of a heavy message after that of the one before."""
        try:
            await asyncio.wait_for(self._heavy.acquire(), HEAVY_SECONDS)
        except TimeoutError:
            return await work
        except BaseException:
            work.close()
            raise
        try:
            return await work
        finally:
            self._heavy.release()

    def charge(self, size: int) -> None:
        """Charge bytes that are held already; a negative size gives them back."""
        quota = self.quota
        quota.used += size
        if size > 0:
            self._peak = max(self._peak, quota.used)
            return
        while self._waiting and not self.short:
            self._wake_next()
        if self._peak > quota.limit // 8 and quota.used < self._peak // 4:
            self._peak = quota.used
            if self._on_release is not None:
                self._on_release()

    def may_hold(self, size: int) -> bool:
        """Return whether an answer may be sent. Count a refusal if not."""
        if size <= SMALL_ANSWER or self.quota.has_room(size):
            return True
        self.quota.refused += 1
        # A refused answer was built, at least in part: its free memory is to be returned to the system.
        if self._on_release is not None:
            self._on_release()
        return False

    def may_read(self, reader: Reader, size: int) -> bool | None:
        """Return True if a connection may read on in a message of this size, False if it has to wait, None if it is refused.

        After False, `read_on` of the reader is called later, unless the reader has left by then.
        """
        if not self.short:
            return True
        quota = self.quota
        if self._first is None and size > SMALL_MESSAGE:
            self._first = reader
            self._waiting.pop(reader, None)
        # The first message may exceed the limit: otherwise messages that wait for each other would never end.
        if reader is self._first or (size <= SMALL_MESSAGE and quota.used <= quota.limit):
            return True
        if quota.used > quota.limit:
            quota.refused += 1
            return None
        self._waiting[reader] = None
        return False

    def leave(self, reader: Reader) -> None:
        """Note that a message is complete, or that its connection is gone."""
        self._waiting.pop(reader, None)
        if self._first is reader:
            self._first = None
            if self._waiting:
                self._wake_next()

    def _wake_next(self) -> None:
        reader = next(iter(self._waiting))
        del self._waiting[reader]
        if self.short:
            self._first = reader
        reader.read_on()
