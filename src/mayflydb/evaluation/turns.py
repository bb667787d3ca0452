"""The order in which waiting calls get a thread: in turns between clients, and in order of arrival for each client. Pure."""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class Turns(Generic[T]):
    """Waiting calls, and how many calls of each client run.

    `at_once`: calls that run at the same time; `per_client`: those of one client; `most_waiting`: calls that may wait.
    """

    def __init__(self, at_once: int, per_client: int, most_waiting: int) -> None:
        self._at_once = at_once
        self._per_client = per_client
        self._most_waiting = most_waiting
        # The client whose turn comes next is first.
        self._waiting: OrderedDict[Hashable, deque[T]] = OrderedDict()
        self._running: Counter[Hashable] = Counter()
        self.waiting = 0
        self.running = 0

    @property
    def is_full(self) -> bool:
        """True if no further call may wait."""
        return self.waiting >= self._most_waiting

    def add(self, client: Hashable, call: T) -> None:
        """Queue a call behind the others of its client."""
        self._waiting.setdefault(client, deque()).append(call)
        self.waiting += 1

    def discard(self, client: Hashable, call: T) -> None:
        """Remove a call from the queue, if it waits."""
        queue = self._waiting.get(client)
        if queue is not None and call in queue:
            queue.remove(call)
            self.waiting -= 1
            if not queue:
                del self._waiting[client]

    def waiting_calls(self) -> list[T]:
        """Return all waiting calls."""
        return [call for queue in self._waiting.values() for call in queue]

    def take(self) -> T | None:
        """Return the call that runs next, counted as running; None if none may run now."""
        if self.running >= self._at_once:
            return None
        for client, queue in self._waiting.items():
            if self._running[client] < self._per_client:
                call = queue.popleft()
                self.waiting -= 1
                self._waiting.move_to_end(client)
                if not queue:
                    del self._waiting[client]
                self._running[client] += 1
                self.running += 1
                return call
        return None

    def end(self, client: Hashable) -> None:
        """Note the end of a running call of a client."""
        self.running -= 1
        self._running[client] -= 1
        if not self._running[client]:
            del self._running[client]
