"""The balance of partitions by itself: shares are even, and no partition has two sessions."""

from __future__ import annotations

import pytest

from mayflydb.frontends.ydb.topics.balancing import ConsumerGroup


class Session:
    """Lets go of partitions when it is told to."""

    def __init__(self, group: ConsumerGroup) -> None:
        self.group = group
        self.held: set[int] = set()
        self.asked: list[int] = []

    def assign(self, topic: int, partition: int) -> None:
        self.held.add(partition)

    def release(self, topic: int, partition: int) -> None:
        self.asked.append(partition)

    def let_go(self) -> None:
        while self.asked:
            partition = self.asked.pop()
            self.held.discard(partition)
            self.group.take_back(self, partition)


@pytest.mark.parametrize("partitions", [1, 2, 7, 10, 100])
@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_shares_are_even_however_sessions_come_and_go(partitions: int, count: int) -> None:
    group = ConsumerGroup(1, partitions)
    sessions: list[Session] = []
    for step in range(count):
        session = Session(group)
        sessions.append(session)
        group.join(session, None)
        for each in sessions:
            each.let_go()
        sizes = sorted(len(each.held) for each in sessions)
        assert sum(sizes) == partitions
        assert sizes[-1] - sizes[0] <= 1
        if step % 3 == 2:
            group.leave(sessions.pop(0))
            for each in sessions:
                each.let_go()
            assert sum(len(each.held) for each in sessions) == partitions
    held = [partition for each in sessions for partition in each.held]
    assert len(held) == len(set(held)) == partitions


def test_nothing_is_asked_for_twice() -> None:
    group = ConsumerGroup(1, 4)
    first, second, third = Session(group), Session(group), Session(group)
    group.join(first, None)
    group.join(second, None)
    assert len(first.asked) == 2
    group.join(third, None)
    assert len(first.asked) == 2
    first.let_go()
    second.let_go()
    assert sorted(len(each.held) for each in (first, second, third)) == [1, 1, 2]


def test_a_session_that_names_partitions_has_them_alone() -> None:
    group = ConsumerGroup(1, 3)
    every, named = Session(group), Session(group)
    group.join(every, None)
    group.join(named, frozenset({1}))
    every.let_go()
    assert (every.held, named.held) == ({0, 2}, {1})
    group.leave(named)
    assert every.held == {0, 1, 2}
