"""Messages and offsets in a transaction of tables: refusals, conflicts, and the commit as a whole."""

from __future__ import annotations

from typing import Any

import pytest

from frontends.ydb.topics.conftest import SERVICE, Topic, read, start, write
from ydb_raw import Raw

TABLES = "Ydb.Table.V1.TableService"
SUCCESS, BAD_REQUEST, ABORTED, BAD_SESSION, NOT_FOUND = 400000, 400010, 400040, 400100, 400140


class Transaction:
    """An open transaction of a session of its own."""

    def __init__(self, raw: Raw, mode: str = "serializable_read_write") -> None:
        self._raw = raw
        made = raw.result(f"{TABLES}/CreateSession", "Ydb.Table.CreateSessionResult")
        self.session = made.session_id
        begun = raw.result(
            f"{TABLES}/BeginTransaction",
            "Ydb.Table.BeginTransactionResult",
            session_id=self.session,
            tx_settings={mode: {}},
        )
        self.id = begun.tx_meta.id
        self.tx = {"id": self.id, "session": self.session}

    def commit(self) -> int:
        answer = self._raw.ask(f"{TABLES}/CommitTransaction", session_id=self.session, tx_id=self.id)
        return int(answer.operation.status)

    def roll_back(self) -> None:
        self._raw.ask(f"{TABLES}/RollbackTransaction", session_id=self.session, tx_id=self.id)

    def update(self, topic: Topic, *ranges: tuple[int, int], consumer: str = "c", partition: int = 0) -> Any:
        offsets = [{"start": first, "end": end} for first, end in ranges]
        partitions = [{"partition_id": partition, "partition_offsets": offsets}]
        topics = [{"path": topic.path, "partitions": partitions}]
        return self._raw.ask(
            f"{SERVICE}/UpdateOffsetsInTransaction", tx=self.tx, topics=topics, consumer=consumer
        ).operation


def committed(topic: Topic) -> int:
    return int(topic.describe_consumer().partitions[0].partition_consumer_stats.committed_offset)


def end(topic: Topic) -> int:
    return int(topic.describe(include_stats=True).partitions[0].partition_stats.partition_offsets.end)


def test_messages_show_with_the_commit(topic: Topic, raw: Raw) -> None:
    transaction = Transaction(raw)
    stream = topic.writer(producer_id="p", message_group_id="p")
    write(stream, "a", "b", tx=transaction.tx)
    found = stream.get("write_response").acks
    assert [each.WhichOneof("message_write_status") for each in found] == ["written_in_tx"] * 2
    reader = topic.reader()
    start(reader)
    topic.put("before")
    assert read(reader, 1) == [(0, "before")]
    assert (end(topic), transaction.commit(), end(topic)) == (1, SUCCESS, 3)
    assert read(reader, 2) == [(1, "a"), (2, "b")]


def test_a_rollback_leaves_nothing(topic: Topic, raw: Raw) -> None:
    transaction = Transaction(raw)
    stream = topic.writer()
    write(stream, "a", tx=transaction.tx)
    stream.get("write_response")
    transaction.update(topic)
    transaction.roll_back()
    assert (end(topic), committed(topic)) == (0, 0)
    write(stream, "b", first=2, tx=transaction.tx)
    assert stream.refusal()[0] == NOT_FOUND


def test_repetitions_in_a_transaction_are_left_out_at_its_commit(topic: Topic, raw: Raw) -> None:
    transaction = Transaction(raw)
    stream = topic.writer(producer_id="p", message_group_id="p")
    write(stream, "a", "b", tx=transaction.tx)
    stream.get("write_response")
    other = topic.writer(producer_id="p", message_group_id="p")
    write(other, "a")
    other.get("write_response")
    assert (transaction.commit(), end(topic)) == (SUCCESS, 2)


@pytest.mark.parametrize(
    ("tx", "status"),
    [
        ({"id": "none", "session": "S"}, NOT_FOUND),
        ({"id": "T", "session": "none"}, BAD_SESSION),
        ({"id": "", "session": ""}, BAD_SESSION),
    ],
)
def test_unknown_transactions(topic: Topic, raw: Raw, tx: dict[str, str], status: int) -> None:
    transaction = Transaction(raw)
    named = {name: {"S": transaction.session, "T": transaction.id}.get(value, value) for name, value in tx.items()}
    stream = topic.writer()
    write(stream, "a", tx=named)
    assert stream.refusal()[0] == status
    found = raw.ask(
        f"{SERVICE}/UpdateOffsetsInTransaction",
        tx=named,
        topics=[{"path": topic.path, "partitions": [{"partition_offsets": [{"start": 0, "end": 1}]}]}],
        consumer="c",
    ).operation
    assert found.status == (status if tx["id"] else BAD_REQUEST)


def test_a_transaction_that_only_reads_takes_neither(topic: Topic, raw: Raw) -> None:
    transaction = Transaction(raw, "snapshot_read_only")
    stream = topic.writer()
    write(stream, "a", tx=transaction.tx)
    assert stream.refusal()[0] == BAD_REQUEST
    assert transaction.update(topic, (0, 1)).status == BAD_REQUEST


@pytest.mark.parametrize(
    ("ranges", "status", "after"),
    [
        ([(0, 2)], SUCCESS, 2),
        ([(1, 2), (0, 1)], SUCCESS, 2),
        ([(0, 3)], SUCCESS, 3),
        # The consumer stands elsewhere: as after a commit of another reader.
        ([(1, 2)], ABORTED, 0),
        ([(0, 4)], BAD_REQUEST, 0),
    ],
)
def test_offsets_move_with_the_commit(
    topic: Topic, raw: Raw, ranges: list[tuple[int, int]], status: int, after: int
) -> None:
    topic.put("a", "b", "c")
    transaction = Transaction(raw)
    assert transaction.update(topic, *ranges).status == SUCCESS
    assert committed(topic) == 0
    assert (transaction.commit(), committed(topic)) == (status, after)


@pytest.mark.parametrize(
    ("ranges", "fields", "text", "code"),
    [
        ([(0, 1), (2, 3)], {}, "Gap of offsets in topic", 2011),
        ([(1, 1)], {}, "offsets range [1, 1) is empty", 500003),
        ([], {}, "can't commit without offsets", 500003),
        ([(0, 1)], {"consumer": "d"}, "no read rule provided for consumer 'd'", 500003),
        ([(0, 1)], {"partition": 1}, "no partition 1 in topic", 500003),
    ],
)
def test_offsets_that_are_refused(
    topic: Topic, raw: Raw, ranges: list[tuple[int, int]], fields: dict[str, Any], text: str, code: int
) -> None:
    topic.put("a", "b", "c")
    found = Transaction(raw).update(topic, *ranges, **fields)
    assert (found.status, found.issues[0].issue_code) == (BAD_REQUEST, code)
    assert found.issues[0].message.startswith(text)


def test_the_second_of_two_transactions_over_the_same_messages_is_aborted(topic: Topic, raw: Raw) -> None:
    topic.put("a", "b")
    first, second = Transaction(raw), Transaction(raw)
    assert first.update(topic, (0, 1)).status == second.update(topic, (0, 2)).status == SUCCESS
    assert (first.commit(), second.commit(), committed(topic)) == (SUCCESS, ABORTED, 1)


def test_a_session_goes_on_behind_what_a_transaction_committed(topic: Topic, raw: Raw) -> None:
    topic.put("a", "b", "c")
    stream = topic.reader()
    start(stream)
    read(stream, 3)
    transaction = Transaction(raw)
    transaction.update(topic, (0, 2))
    assert transaction.commit() == SUCCESS
    commit = {"partition_session_id": 1, "offsets": [{"start": 2, "end": 3}]}
    stream.ask(commit_offset_request={"commit_offsets": [commit]})
    found = stream.get("commit_offset_response").partitions_committed_offsets
    assert [each.committed_offset for each in found] == [3]


def test_a_topic_that_is_gone_aborts_the_transaction(topic: Topic, raw: Raw) -> None:
    transaction = Transaction(raw)
    stream = topic.writer()
    write(stream, "a", tx=transaction.tx)
    stream.get("write_response")
    topic.call("DropTopic")
    assert transaction.commit() == ABORTED
