"""What messages take counts, not their data alone: in a record, in a commit, and in what a transaction keeps for its commit."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mayflydb.frontends.ydb.topics.bodies import MESSAGE_BYTES, METADATA_ITEM_BYTES, TopicMessage
from mayflydb.frontends.ydb.topics.log import BATCH_BYTES, _chunks
from mayflydb.frontends.ydb.topics.reading import ReadSession
from mayflydb.frontends.ydb.topics.writing import MAX_METADATA_ITEMS, SLICE, _slices

ITEMS = tuple([("", b"")] * MAX_METADATA_ITEMS)


@pytest.mark.parametrize(
    ("message", "size"),
    [
        (TopicMessage(b""), MESSAGE_BYTES),
        (TopicMessage(b"abc"), MESSAGE_BYTES + 3),
        (TopicMessage(b"", metadata=(("key", b"value"),)), MESSAGE_BYTES + METADATA_ITEM_BYTES + 8),
        (TopicMessage(b"", metadata=ITEMS), MESSAGE_BYTES + METADATA_ITEM_BYTES * MAX_METADATA_ITEMS),
    ],
)
def test_a_message_takes_more_than_its_data(message: TopicMessage, size: int) -> None:
    assert message.held_bytes == size


def test_records_have_few_messages_with_much_metadata() -> None:
    chunks = list(_chunks([TopicMessage(b"", metadata=ITEMS)] * 100))
    assert sum(map(len, chunks)) == 100
    assert all(sum(message.held_bytes for message in chunk) <= BATCH_BYTES for chunk in chunks)


@pytest.mark.parametrize(("items", "slices"), [(0, -(-1000 // SLICE)), (10, 10), (500, 500), (1000, 1000)])
def test_messages_are_checked_in_slices_of_limited_metadata(items: int, slices: int) -> None:
    messages = [SimpleNamespace(data=b"", metadata_items=[None] * items)] * 1000
    found = list(_slices(messages))
    assert (len(found), sum(map(len, found))) == (slices, 1000)


def test_a_partition_that_is_lost_again_and_again_waits_once() -> None:
    rung: list[int] = []
    session: Any = object.__new__(ReadSession)
    session._events = []
    session._requests = SimpleNamespace(ring=lambda: rung.append(1))
    for _ in range(100):
        session.lose(1, 0)
    session.lose(1, 1)
    assert session._events == [("lose", 1, 0), ("lose", 1, 1)]
    assert len(rung) == 101
