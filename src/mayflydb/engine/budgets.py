"""What the containers of this process may spend each second, and what they have spent.

A container with an offer of its own has a bucket for each of its ranges, all of one size; without ranges, one. Those that
share the offer of their database draw from one bucket together. Where several nodes share a store, each of them grants the
whole budget.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from mayflydb.clock import Stopwatch, monotonic_us
from mayflydb.engine.bucket import Bucket, amount, rate
from mayflydb.engine.catalog import Node

SHARED = ""
"""In place of a range: the bucket of a database."""

WHOLE = "0"
"""The same of a container that has no ranges."""


class Meter:
    """Counts since the start: request units by container and operation, and requests refused by container."""

    def __init__(self) -> None:
        self.units: defaultdict[int, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
        self.throttled: Counter[int] = Counter()

    def forget(self) -> None:
        """Everything was reset."""
        self.units.clear()
        self.throttled.clear()


class Spending:
    """What one request was granted before its price was known."""

    __slots__ = ("_buckets", "_paid", "_stopwatch")

    def __init__(self, buckets: tuple[Bucket, ...], likely: float, stopwatch: Stopwatch) -> None:
        self._buckets = buckets
        self._stopwatch = stopwatch
        self._paid = 0
        self.settle(likely)

    def settle(self, charge: float) -> None:
        """What it comes to, in all, shared evenly by the buckets."""
        now, due = self._stopwatch(), amount(charge)
        for bucket in self._buckets:
            bucket.spend((due - self._paid) // len(self._buckets), now)
        self._paid = due


class Purse:
    """The buckets of one container, in the order of its ranges; or the one that it shares."""

    def __init__(self, buckets: tuple[Bucket, ...], shared: bool, stopwatch: Stopwatch) -> None:
        self._buckets = buckets
        self._shared = shared
        self._stopwatch = stopwatch

    def spend(self, ranges: Iterable[int], likely: float) -> Spending | int:
        """Grant a request to these ranges, by their place, that is likely to cost so much.

        Or, while the budget of one of them is used up, how many microseconds it has to wait for that.
        """
        buckets = self._buckets if self._shared else tuple([self._buckets[each] for each in ranges])
        now = self._stopwatch()
        wait = max([bucket.wait(now) for bucket in buckets])
        return wait or Spending(buckets, likely, self._stopwatch)

    def spare(self) -> int:
        """What was left over by requests, as an amount, of all ranges together."""
        now = self._stopwatch()
        return sum([bucket.spare(now) for bucket in self._buckets])

    def wait_for_spare(self, wanted: int) -> int:
        """Microseconds until so much is left over, or as much as there can be, if no requests come."""
        now, share = self._stopwatch(), -(-wanted // len(self._buckets))
        return max([bucket.wait_for_spare(share, now) for bucket in self._buckets])

    def take(self, wanted: int) -> None:
        """So much of what was left over, from each range by what it has."""
        now = self._stopwatch()
        have = [bucket.spare(now) for bucket in self._buckets]
        for bucket, own in zip(self._buckets, have, strict=True):
            bucket.take(wanted * own // max(1, sum(have)), now)


class Budgets:
    """The buckets of all containers. `ceiling`: the RU/s that an offer, as a definition keeps it, grants at most."""

    def __init__(self, ceiling: Callable[[Mapping[str, Any]], int], stopwatch: Stopwatch = monotonic_us) -> None:
        self._ceiling = ceiling
        self.stopwatch = stopwatch
        self._buckets: dict[int, dict[str, Bucket]] = {}

    def purse(self, container: Node, database: Node) -> Purse | None:
        """Of a container as it is now; None: nothing was provisioned for it."""
        payer = container if container.definition.offer is not None else database
        if payer.definition.offer is None:
            return None
        shared = payer is database
        names = [SHARED] if shared else [each.id for each in container.definition.ranges] or [WHOLE]
        share = rate(self._ceiling(payer.definition.offer), len(names))
        now, before = self._now(), self._buckets.get(payer.id, {})
        buckets = {name: before.get(name) or Bucket(share, now) for name in names}
        for bucket in buckets.values():
            bucket.set_rate(share, now)
        self._buckets[payer.id] = buckets
        return Purse(tuple(buckets.values()), shared, self._now)

    def _now(self) -> int:
        return self.stopwatch()

    def forget(self) -> None:
        """Everything was reset."""
        self._buckets.clear()
