"""A token bucket: what may be spent now, what was left over, and how long there is nothing. Pure, and exact: whole numbers only.

Amounts are in 10^-12 request units and rates in 10^-6 request units a second, so that a rate times microseconds is an amount.
"""

from __future__ import annotations

SECOND = 1_000_000
"""Microseconds."""

_UNIT = 10**12


def amount(units: float) -> int:
    """From request units."""
    return round(units * _UNIT)


def rate(units: int, shares: int = 1) -> int:
    """One share of so many request units a second."""
    return units * SECOND // shares


class Bucket:
    """One second deep, full at first. Spending waits until there is anything, and may then overdraw: what a request costs is
    known for sure only afterwards.

    What a full bucket has no room for is left over: kept aside, one second's worth at most, for whoever takes it.
    """

    __slots__ = ("_at", "_level", "_rate", "_spare")

    def __init__(self, rate: int, now: int) -> None:
        """`now` in microseconds, here and everywhere; it may stand still, and counts as standing still when it falls."""
        self._rate = rate
        self._at = now
        self._level = rate * SECOND
        self._spare = 0

    def set_rate(self, rate: int, now: int) -> None:
        """Another rate from now on; a debt stays."""
        if rate == self._rate:
            return
        self._fill(now)
        self._rate = rate
        self._level = min(self._level, rate * SECOND)
        self._spare = min(self._spare, rate * SECOND)

    def wait(self, now: int) -> int:
        """Microseconds until something may be spent, if nobody else does; 0: now."""
        self._fill(now)
        return 0 if self._level > 0 else -self._level // self._rate + 1

    def spend(self, amount: int, now: int) -> None:
        """Less than nothing gives back."""
        self._fill(now)
        self._level -= amount

    def spare(self, now: int) -> int:
        """What was left over and not taken."""
        self._fill(now)
        return max(0, self._spare)

    def take(self, amount: int, now: int) -> None:
        """Of what was left over."""
        self._fill(now)
        self._spare -= amount

    def wait_for_spare(self, amount: int, now: int) -> int:
        """Microseconds until so much is left over, if nobody spends or takes anything."""
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
