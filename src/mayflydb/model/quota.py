"""Quotas: what all clients together may have of one resource. Pure counts; the owner of a quota says what is counted."""

from __future__ import annotations

from collections.abc import Iterator


class Quota:
    """A resource with a limit. `used`: the present amount. `refused`: requests that were refused since the start.

    A limit of 0 refuses everything.
    """

    __slots__ = ("limit", "name", "refused", "used")

    def __init__(self, name: str, limit: int) -> None:
        self.name = name
        self.limit = limit
        self.used = 0
        self.refused = 0

    def has_room(self, amount: int = 1) -> bool:
        """Return whether an amount fits below the limit."""
        return self.used + amount <= self.limit

    def take(self, amount: int = 1) -> bool:
        """Take an amount if it fits. Count a refusal and return False if it does not."""
        if self.used + amount > self.limit:
            self.refused += 1
            return False
        self.used += amount
        return True

    def give(self, amount: int = 1) -> None:
        """Give back an amount that was taken."""
        self.used -= amount


class Quotas:
    """The quotas of one server, by name."""

    def __init__(self) -> None:
        self._quotas: dict[str, Quota] = {}

    def __iter__(self) -> Iterator[Quota]:
        return iter(self._quotas.values())

    def get(self, name: str, limit: int) -> Quota:
        """Return the quota of this name, which all that name it share. `limit`: of one that does not exist yet."""
        quota = self._quotas.get(name)
        if quota is None:
            quota = self._quotas[name] = Quota(name, limit)
        return quota
