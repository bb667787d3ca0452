"""The partitions of a topic among the read sessions of one consumer.

Each partition is with one session at most. A session that joins gets its share when others have let go of theirs: a session
that is asked to release a partition keeps it until its client has answered. Pure: what has to be sent is the session's to send.
"""

from __future__ import annotations

from collections.abc import Iterator
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
        shares = self._shares()
        for partition in range(self.partitions):
            if partition not in self._owners and (member := self._choose(partition, shares)) is not None:
                self._owners[partition] = member
                shares[member] += 1
                member.assign(self.topic, partition)
        for partition in list(self._to_release(shares)):
            self._releasing.add(partition)
            self._owners[partition].release(self.topic, partition)

    def _shares(self) -> dict[Member, int]:
        """Return how many partitions each session has, without those that it lets go of."""
        shares = dict.fromkeys(self._wanted, 0)
        for partition, owner in self._owners.items():
            if partition not in self._releasing:
                shares[owner] += 1
        return shares

    def _choose(self, partition: int, shares: dict[Member, int]) -> Member | None:
        """Return the session that should have a free partition: one that names it, else the one with the fewest."""
        naming = [each for each, wanted in self._wanted.items() if wanted is not None and partition in wanted]
        sharing = [each for each, wanted in self._wanted.items() if wanted is None]
        return min(naming or sharing, key=lambda each: shares[each], default=None)

    def _to_release(self, shares: dict[Member, int]) -> Iterator[int]:
        """Yield the partitions that their sessions should let go of."""
        held = {each: owner for each, owner in self._owners.items() if each not in self._releasing}
        for partition, owner in held.items():
            named = any(wanted is not None and partition in wanted for wanted in self._wanted.values())
            if named and self._wanted[owner] is None:
                shares[owner] -= 1
                yield partition
        sharing = [each for each, wanted in self._wanted.items() if wanted is None]
        named_by_any = frozenset(each for wanted in self._wanted.values() if wanted for each in wanted)
        # What is on its way to a session counts as its own, or a second look would ask for more.
        coming = len([each for each in self._releasing if each not in named_by_any])
        for partition, owner in held.items():
            if self._wanted[owner] is not None or partition in named_by_any or len(sharing) < 2:
                continue
            least = self._least_after(sharing, shares, coming)
            if shares[owner] > least + 1:
                shares[owner] -= 1
                coming += 1
                yield partition

    def _least_after(self, sharing: list[Member], shares: dict[Member, int], coming: int) -> int:
        """Return the smallest share when what is being released has been given away."""
        counts = sorted(shares[each] for each in sharing)
        for _ in range(coming):
            counts[0] += 1
            counts.sort()
        return counts[0]
