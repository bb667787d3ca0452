"""A token bucket: budget to spend now, unused budget, and waiting times. Pure and exact: integers only.

Amounts are in 10^-12 request units and rates in 10^-6 request units a second, so that a rate times microseconds is an amount.
"""

from __future__ import annotations

SECOND = 1_000_000
"""Microseconds."""

_UNIT = 10**12


def amount(units: float) -> int:
    """Convert request units to an amount."""
    return round(units * _UNIT)


def rate(units: int, shares: int = 1) -> int:
    """Return one share of `units` request units a second as a rate."""
    return units * SECOND // shares


class Bucket:
    """A bucket that holds one second of its rate and starts full. A request waits until the level is positive and may then
    overdraw it, because the price is certain only afterwards.

    Budget that overflows a full bucket is unused: up to one second of it is kept aside for purging to take.
    """

    __slots__ = ("_at", "_level", "_rate", "_spare")

    def __init__(self, rate: int, now: int) -> None:
        """`now`: microseconds, here and in all methods. It may stand still; if it falls, it counts as standing still."""
        self._rate = rate
        self._at = now
        self._level = rate * SECOND
        self._spare = 0

    def set_rate(self, rate: int, now: int) -> None:
        """Change the rate from now on. A debt stays."""
        if rate == self._rate:
            return
        self._fill(now)
        self._rate = rate
        self._level = min(self._level, rate * SECOND)
        self._spare = min(self._spare, rate * SECOND)

    def wait(self, now: int) -> int:
        """Return the microseconds until spending is possible, without other spending; 0: now."""
        self._fill(now)
        # Strictly positive: at a level of exactly 0 a request still waits.
        return 0 if self._level > 0 else -self._level // self._rate + 1

    def spend(self, amount: int, now: int) -> None:
        """Take an amount from the level; a negative amount gives back."""
        self._fill(now)
        self._level -= amount

    def spare(self, now: int) -> int:
        """Return the unused amount that has not been taken."""
        self._fill(now)
        return max(0, self._spare)

    def take(self, amount: int, now: int) -> None:
        """Take an amount of unused budget."""
        self._fill(now)
        self._spare -= amount

    def wait_for_spare(self, amount: int, now: int) -> int:
        """Return the microseconds until an amount is unused, without other spending."""
        self._fill(now)
        missing = self._rate * SECOND - self._level + min(amount, self._rate * SECOND) - self._spare
        return max(0, -(-missing // self._rate))

    def _fill(self, now: int) -> None:
        capacity = self._rate * SECOND
        self._level += self._rate * max(0, now - self._at)
        self._at = max(self._at, now)
        if self._level > capacity:
            self._spare = min(capacity, self._spare + self._level - capacity)
            self._level = capacity
