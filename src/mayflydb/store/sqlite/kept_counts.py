"""Counts of containers that have not changed since they were made.

A count takes a walk along an index. Pages and measurements ask again and again for those of containers in which nothing happens.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mayflydb.store.interface import Count, CountDue, CountPlain, KeyBytes

MAX_CONTAINERS = 4096
MAX_COUNTS = 8
"""Counts of one container. Those up to the present have another bound each time; those that are asked for again stay."""

CountRequest = Count | CountDue | CountPlain | KeyBytes


class KeptCounts:
    """The counts of committed states, by container."""

    def __init__(self) -> None:
        self._counts: dict[int, dict[CountRequest, Any]] = {}

    def find(self, request: CountRequest) -> Any:
        """Return a kept count, or None."""
        counts = self._counts.get(request.container)
        found = None if counts is None else counts.pop(request, None)
        if counts is not None and found is not None:
            counts[request] = found
        return found

    def place_for(self, container: int) -> dict[CountRequest, Any]:
        """Return the place of a count that is about to be made. A change of the container takes the place away."""
        if len(self._counts) >= MAX_CONTAINERS and container not in self._counts:
            self._counts.clear()
        return self._counts.setdefault(container, {})

    def keep(self, place: dict[CountRequest, Any], request: CountRequest, answer: Any) -> None:
        """Keep a count, unless a change was committed since `place` was given: the count may be older."""
        if self._counts.get(request.container) is not place:
            return
        place[request] = answer
        if len(place) > MAX_COUNTS:
            del place[next(iter(place))]

    def forget(self, containers: Iterable[int]) -> None:
        """Drop the counts of containers that a commit has changed."""
        for container in containers:
            self._counts.pop(container, None)

    def clear(self) -> None:
        """Drop everything."""
        self._counts.clear()
