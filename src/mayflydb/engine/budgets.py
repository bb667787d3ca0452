"""Request-unit budgets of the containers of this process.

A container with an offer of its own has one bucket per range, all of one size; without ranges, one bucket. Containers that
share the offer of their database draw from one bucket. Where several nodes share a store, each grants the whole budget.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from mayflydb.clock import Stopwatch, monotonic_us
from mayflydb.engine.bucket import Bucket, amount, rate
from mayflydb.engine.catalog import Node

SHARED = ""
"""The name of a database's bucket, in place of a range."""

WHOLE = "0"
"""The name of the bucket of a container without ranges."""


class RequestGrant:
    """The grant of one request, made before its price is known."""

    __slots__ = ("_buckets", "_paid", "_stopwatch")

    def __init__(self, buckets: tuple[Bucket, ...], likely: float, stopwatch: Stopwatch) -> None:
        self._buckets = buckets
        self._stopwatch = stopwatch
        self._paid = 0
        self.settle(likely)

    def settle(self, charge: float) -> None:
        """Correct the grant to the final price, shared evenly by the buckets."""
        now, due = self._stopwatch(), amount(charge)
        for bucket in self._buckets:
            bucket.spend((due - self._paid) // len(self._buckets), now)
        self._paid = due


class ContainerBudget:
    """The buckets of one container in the order of its ranges, or the bucket that it shares."""

    def __init__(self, buckets: tuple[Bucket, ...], shared: bool, stopwatch: Stopwatch) -> None:
        self._buckets = buckets
        self._shared = shared
        self._stopwatch = stopwatch

    def spend(self, ranges: Iterable[int], likely: float) -> RequestGrant | int:
        """Grant a request with a likely price to ranges, given by their position.

        Return the grant or, if the budget of one range is used up, the microseconds to wait.
        """
        buckets = self._buckets if self._shared else tuple([self._buckets[each] for each in ranges])
        now = self._stopwatch()
        wait = max([bucket.wait(now) for bucket in buckets])
        return wait or RequestGrant(buckets, likely, self._stopwatch)

    def spare(self) -> int:
        """Return the unused amount of all ranges together."""
        now = self._stopwatch()
        return sum([bucket.spare(now) for bucket in self._buckets])

    def wait_for_spare(self, wanted: int) -> int:
        """Return the microseconds until an amount, or as much as the buckets can hold, is unused, if no requests come."""
        now, share = self._stopwatch(), -(-wanted // len(self._buckets))
        return max([bucket.wait_for_spare(share, now) for bucket in self._buckets])

    def take(self, wanted: int) -> None:
        """Take an unused amount, from each range by its share."""
        now = self._stopwatch()
        have = [bucket.spare(now) for bucket in self._buckets]
        for bucket, own in zip(self._buckets, have, strict=True):
            # Not 0: requests may have spent all unused budget since it was looked up.
            bucket.take(wanted * own // max(1, sum(have)), now)


class Budgets:
    """The buckets of all containers. `ceiling`: the RU/s that an offer, as a definition stores it, grants at most."""

    def __init__(self, ceiling: Callable[[Mapping[str, Any]], int], stopwatch: Stopwatch = monotonic_us) -> None:
        self._ceiling = ceiling
        self.stopwatch = stopwatch
        self._buckets: dict[int, dict[str, Bucket]] = {}

    def budget(self, container: Node, database: Node) -> ContainerBudget | None:
        """Return the budget of a container under its current definition; None: no throughput was provisioned for it."""
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
        return ContainerBudget(tuple(buckets.values()), shared, self._now)

    def _now(self) -> int:
        return self.stopwatch()

    def forget_container(self, payer: int) -> None:
        """Drop the buckets of a container or database that is gone."""
        self._buckets.pop(payer, None)

    def forget(self) -> None:
        """Clear all buckets after a reset."""
        self._buckets.clear()
