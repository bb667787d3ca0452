"""Seats for connections: the limit of the connections of one listener, in all and from one address."""

from __future__ import annotations

import resource
from collections import Counter
from pathlib import Path

from mayflydb.model.quota import Quota

RESERVED_DESCRIPTORS = 16
"""Descriptors that a server opens after its listeners, for the store."""


def share_descriptors(listeners: int) -> int:
    """Return the number of connections that each listener may have. A quarter of all descriptors stays free."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return 1 << 30
    return max(1, (soft * 3 // 4 - _count_open_descriptors() - RESERVED_DESCRIPTORS) // listeners)


def _count_open_descriptors() -> int:
    try:
        return len(list(Path("/dev/fd").iterdir()))
    except OSError:
        return 0


class Seats:
    """The seats of one listener. Loopback addresses are limited like all others."""

    def __init__(self, quota: Quota, per_address: int) -> None:
        self.quota = quota
        self._per_address = per_address
        self._by_address: Counter[str] = Counter()

    def take(self, address: str) -> Seat | None:
        """Return a seat; None if the limit in all, or that of the address, is reached."""
        if self._by_address[address] >= self._per_address:
            self.quota.refused += 1
        elif self.quota.take():
            self._by_address[address] += 1
            return Seat(self, address)
        if not self._by_address[address]:
            del self._by_address[address]
        return None

    def release(self, address: str) -> None:
        """Take a seat back."""
        self.quota.give()
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]


class Seat:
    """The seat of one connection. `release` has an effect once, since the end of a connection may be noted several times."""

    __slots__ = ("_address", "_seats")

    def __init__(self, seats: Seats, address: str) -> None:
        self._seats: Seats | None = seats
        self._address = address

    def release(self) -> None:
        """Release the seat."""
        seats, self._seats = self._seats, None
        if seats is not None:
            seats.release(self._address)
