"""The partitions of a topic among the read sessions of one consumer.

Each partition is with one session at most. A session that joins gets its share when others have let go of theirs: a session
that is asked to release a partition keeps it until its client has answered. Pure: what has to be sent is the session's to send.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heapreplace
from typing import Protocol


class Member(Protocol):
    """A read session, as the balance of partitions sees it."""

    def assign(self, topic: int, partition: int) -> None:
        """Take a partition."""

    def release(self, topic: int, partition: int) -> None:
        """Have the client let go of a partition, and then call `take_back`."""


class ConsumerGroup:
    """The sessions of one consumer of one topic. `partitions`: their number now."""

    def __init__(self, topic: int, partitions: int) -> None:
        self.topic = topic
        self.partitions = partitions
        self._wanted: dict[Member, frozenset[int] | None] = {}
        self._owners: dict[int, Member] = {}
        self._releasing: set[int] = set()

    @property
    def empty(self) -> bool:
        """True if no session is left."""
        return not self._wanted

    def owner(self, partition: int) -> Member | None:
        """Return the session that has a partition."""
        return self._owners.get(partition)

    def join(self, member: Member, wanted: frozenset[int] | None) -> None:
        """Add a session. `wanted`: the partitions that it names; None: its share of all others."""
        self._wanted[member] = wanted
        self.balance()

    def leave(self, member: Member) -> None:
        """Remove a session; its partitions are free at once."""
        if self._wanted.pop(member, self) is self:
            return
        for partition in [each for each, owner in self._owners.items() if owner is member]:
            self._free(partition)
        self.balance()

    def take_back(self, member: Member, partition: int) -> None:
        """Note that a session has let go of a partition."""
        if self._owners.get(partition) is member:
            self._free(partition)
            self.balance()

    def grow(self, partitions: int) -> None:
        """Note that the topic has more partitions."""
        if partitions > self.partitions:
            self.partitions = partitions
            self.balance()

    def _free(self, partition: int) -> None:
        del self._owners[partition]
        self._releasing.discard(partition)

    def balance(self) -> None:
        """Give away what is free, and ask for what others should have."""
        naming, sharing = self._named_partitions(), [each for each, wanted in self._wanted.items() if wanted is None]
        shares = self._shares()
        if len(self._owners) < self.partitions:
            self._give_away(naming, sharing, shares)
        for partition in list(self._to_release(naming, sharing, shares)):
            self._releasing.add(partition)
            self._owners[partition].release(self.topic, partition)

    def _named_partitions(self) -> dict[int, Member]:
        """Return the partitions that sessions name, each with the first session that names it."""
        found: dict[int, Member] = {}
        for member, wanted in self._wanted.items():
            for partition in wanted or ():
                found.setdefault(partition, member)
        return found

    def _shares(self) -> dict[Member, int]:
        """Return how many partitions each session has, without those that it lets go of."""
        shares = dict.fromkeys(self._wanted, 0)
        for partition, owner in self._owners.items():
            if partition not in self._releasing:
                shares[owner] += 1
        return shares

    def _give_away(self, naming: dict[int, Member], sharing: list[Member], shares: dict[Member, int]) -> None:
        """Give each free partition to the session that names it, else to the one with the fewest."""
        fewest = [(shares[each], place) for place, each in enumerate(sharing)]
        heapify(fewest)
        for partition in range(self.partitions):
            if partition in self._owners:
                continue
            member = naming.get(partition)
            if member is None and fewest:
                share, place = fewest[0]
                heapreplace(fewest, (share + 1, place))
                member = sharing[place]
            if member is not None:
                self._owners[partition] = member
                shares[member] += 1
                member.assign(self.topic, partition)

    def _to_release(self, naming: dict[int, Member], sharing: list[Member], shares: dict[Member, int]) -> Iterator[int]:
        """Yield the partitions that their sessions should let go of."""
        held = {
            partition: owner
            for partition, owner in self._owners.items()
            if partition not in self._releasing and self._wanted[owner] is None
        }
        for partition in held.keys() & naming.keys():
            shares[held.pop(partition)] -= 1
            yield partition
        # What is on its way to a session counts, or a second look would ask for more.
        coming = sum(partition not in naming for partition in self._releasing)
        least, more = divmod(sum(shares[each] for each in sharing) + coming, len(sharing) or 1)
        largest_first = sorted(sharing, key=lambda each: -shares[each])
        allowed = {each: least + (place < more) for place, each in enumerate(largest_first)}
        for partition, owner in held.items():
            if shares[owner] > allowed[owner]:
                shares[owner] -= 1
                yield partition
