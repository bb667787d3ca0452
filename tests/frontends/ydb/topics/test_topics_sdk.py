"""Topics through the vendor's client for Python."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Iterator
from datetime import timedelta
from itertools import count
from typing import Any

import pytest

from mayflydb.embedded import RunningServer
from stores import STORES

ydb: Any = pytest.importorskip("ydb")

_names = count(1)


@pytest.fixture
def client(ydb_driver: Any) -> Any:
    return ydb_driver.topic_client


@pytest.fixture
def path(client: Any) -> Iterator[str]:
    found = f"sdk/t{next(_names)}"
    client.create_topic(found, consumers=["c"])
    yield found
    client.drop_topic(found)


def receive(client: Any, path: str, count: int, consumer: str = "c", **options: Any) -> list[Any]:
    """Messages, committed one by one."""
    found: list[Any] = []
    with client.reader(path, consumer=consumer, **options) as reader:
        while len(found) < count:
            found.append(reader.receive_message(timeout=10))
            reader.commit_with_ack(found[-1])
    return found


@pytest.mark.everywhere
@pytest.mark.parametrize("ydb_server", STORES, indirect=True)
def test_messages_are_written_and_read(client: Any, path: str) -> None:
    with client.writer(path, producer_id="p") as writer:
        for number in range(50):
            writer.write(ydb.TopicWriterMessage(f"m{number}", metadata_items={"k": b"v"}))
        assert writer.write_with_ack("last").offset == 50
    found = receive(client, path, 51)
    assert [each.data.decode() for each in found] == [*(f"m{number}" for number in range(50)), "last"]
    assert [each.seqno for each in found] == list(range(1, 52))
    assert (found[0].producer_id, found[0].message_group_id, found[0].metadata_items) == ("p", "p", {"k": b"v"})
    # The numbering goes on, and so does the reading.
    with client.writer(path, producer_id="p") as writer:
        assert writer.write_with_ack("next").offset == 51
    assert [(each.seqno, each.data) for each in receive(client, path, 1)] == [(52, b"next")]


@pytest.mark.parametrize("codec", ["RAW", "GZIP", None, "own"])
def test_codecs(client: Any, path: str, codec: str | None) -> None:
    text = "x" * 10_000
    number = 10_001 if codec == "own" else None if codec is None else getattr(ydb.TopicCodec, codec)
    own = {10_001: zlib.compress} if codec == "own" else None
    with client.writer(path, codec=number, encoders=own) as writer:
        for _ in range(5):
            writer.write_with_ack(text)
    found = receive(client, path, 5, decoders={10_001: zlib.decompress} if own else None)
    assert [each.data.decode() for each in found] == [text] * 5


def test_a_batch_is_committed_whole(client: Any, path: str) -> None:
    with client.writer(path) as writer:
        writer.write([f"{number}" for number in range(100)])
    with client.reader(path, consumer="c") as reader:
        seen = 0
        while seen < 100:
            batch = reader.receive_batch(timeout=10)
            seen += len(batch.messages)
            reader.commit_with_ack(batch)
    stats = client.describe_consumer(path, "c", include_stats=True).partitions[0].partition_consumer_stats
    assert stats.committed_offset == 100


def test_what_is_not_committed_comes_again(client: Any, path: str) -> None:
    with client.writer(path) as writer:
        writer.write(["a", "b"])
    for _ in range(2):
        with client.reader(path, consumer="c") as reader:
            assert reader.receive_message(timeout=10).data == b"a"


def test_topics_are_described_and_altered(client: Any, path: str) -> None:
    client.alter_topic(
        path,
        set_min_active_partitions=3,
        set_retention_period=timedelta(hours=2),
        set_supported_codecs=[ydb.TopicCodec.RAW, ydb.TopicCodec.GZIP],
        add_consumers=[ydb.TopicConsumer("d")],
        alter_attributes={"team": "sales"},
    )
    found = client.describe_topic(path, include_stats=True)
    assert (len(found.partitions), found.retention_period) == (3, timedelta(hours=2))
    assert found.supported_codecs == [ydb.TopicCodec.RAW, ydb.TopicCodec.GZIP]
    assert [each.name for each in found.consumers] == ["c", "d"]
    assert found.attributes == {"team": "sales"}
    client.alter_topic(path, drop_consumers=["d"])
    assert [each.name for each in client.describe_topic(path).consumers] == ["c"]


@pytest.mark.parametrize("work", ["describe_topic", "drop_topic"])
def test_a_missing_topic(client: Any, work: str) -> None:
    with pytest.raises(ydb.issues.SchemeError):
        getattr(client, work)("sdk/none")


def test_streams_of_a_missing_topic_end_for_good(client: Any) -> None:
    with pytest.raises(ydb.issues.SchemeError), client.writer("sdk/none") as writer:
        writer.write_with_ack("a")
    with pytest.raises(ydb.issues.SchemeError), client.reader("sdk/none", consumer="c") as reader:
        reader.receive_message(timeout=10)


class FromOne(ydb.TopicReaderEvents.EventHandler):  # type: ignore[misc]
    def on_partition_get_start_offset(self, event: Any) -> Any:
        return ydb.TopicReaderEvents.OnPartitionGetStartOffsetResponse(1)


def test_reading_without_a_consumer(client: Any, path: str) -> None:
    with client.writer(path) as writer:
        writer.write(["a", "b"])
    selector = ydb.TopicReaderSelector(path, partitions=[0])
    with client.reader(selector, consumer=None, event_handler=FromOne()) as reader:
        assert reader.receive_message(timeout=10).data == b"b"


def test_two_readers_share_the_partitions(client: Any, path: str) -> None:
    client.alter_topic(path, set_min_active_partitions=2)
    with client.reader(path, consumer="c") as first, client.reader(path, consumer="c") as second:
        found: dict[int, list[bytes]] = {0: [], 1: []}
        for partition in (0, 1):
            with client.writer(path, partition_id=partition) as writer:
                writer.write([f"{partition}-{number}" for number in range(20)])
        readers = [first, second]
        while sum(map(len, found.values())) < 40:
            for place, reader in enumerate(readers):
                try:
                    batch = reader.receive_batch(timeout=0.2)
                except TimeoutError:
                    continue
                found[place] += [each.data for each in batch.messages]
                reader.commit(batch)
        assert sorted(found[0] + found[1]) == sorted(
            f"{partition}-{number}".encode() for partition in (0, 1) for number in range(20)
        )


def test_an_offset_is_committed_directly(client: Any, path: str) -> None:
    with client.writer(path) as writer:
        writer.write(["a", "b", "c"])
    client.commit_offset(path, "c", 0, 2)
    assert [each.data for each in receive(client, path, 1)] == [b"c"]


# --- transactions ----------------------------------------------------------------------------------------------------


@pytest.mark.everywhere
@pytest.mark.parametrize("ydb_server", STORES, indirect=True)
def test_messages_and_rows_are_written_together(client: Any, path: str, query_pool: Any) -> None:
    query_pool.execute_with_retries("CREATE TABLE sdk_rows (id Uint64, PRIMARY KEY (id))")

    def work(tx: Any, fails: bool) -> None:
        with client.tx_writer(tx, path) as writer:
            writer.write("one")
            with tx.execute(f"UPSERT INTO sdk_rows (id) VALUES ({1 if fails else 2})"):
                pass
            writer.write("two")
            writer.flush()
            assert client.describe_topic(path, include_stats=True).partitions[0].partition_stats.partition_end == 0
        if fails:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        query_pool.retry_tx_sync(work, fails=True)
    assert client.describe_topic(path, include_stats=True).partitions[0].partition_stats.partition_end == 0
    query_pool.retry_tx_sync(work, fails=False)
    assert [each.data for each in receive(client, path, 2)] == [b"one", b"two"]
    (rows,) = query_pool.execute_with_retries("SELECT id FROM sdk_rows")
    assert [row.id for row in rows.rows] == [2]
    query_pool.execute_with_retries("DROP TABLE sdk_rows")


@pytest.mark.everywhere
@pytest.mark.parametrize("ydb_server", STORES, indirect=True)
def test_offsets_are_committed_with_rows(client: Any, path: str, query_pool: Any) -> None:
    query_pool.execute_with_retries("CREATE TABLE sdk_seen (text Utf8, PRIMARY KEY (text))")
    with client.writer(path) as writer:
        writer.write(["a", "b", "c"])

    def committed() -> int:
        stats = client.describe_consumer(path, "c", include_stats=True).partitions[0].partition_consumer_stats
        return int(stats.committed_offset)

    with client.reader(path, consumer="c") as reader:

        def work(tx: Any, fails: bool) -> int:
            batch = reader.receive_batch_with_tx(tx, max_messages=2, timeout=10)
            for each in batch.messages:
                with tx.execute(f"UPSERT INTO sdk_seen (text) VALUES ('{each.data.decode()}'u)"):
                    pass
            if fails:
                raise ZeroDivisionError
            return len(batch.messages)

        with pytest.raises(ZeroDivisionError):
            query_pool.retry_tx_sync(work, fails=True)
        assert committed() == 0
        seen = 0
        while seen < 3:
            seen += query_pool.retry_tx_sync(work, fails=False)
            assert committed() == seen
    (rows,) = query_pool.execute_with_retries("SELECT text FROM sdk_seen ORDER BY text")
    assert [row.text for row in rows.rows] == ["a", "b", "c"]
    query_pool.execute_with_retries("DROP TABLE sdk_seen")


# --- on an event loop ------------------------------------------------------------------------------------------------


def test_topics_on_an_event_loop(ydb_server: RunningServer) -> None:
    async def work() -> list[bytes]:
        async with ydb.aio.Driver(endpoint=ydb_server.ydb.endpoint, database="/local") as driver:
            await driver.wait(timeout=10)
            client = driver.topic_client
            await client.create_topic("sdk/aio", consumers=["c"])
            async with client.writer("sdk/aio", producer_id="p") as writer:
                await writer.write(["a", "b"])
                await writer.write_with_ack("c")
            found: list[bytes] = []
            async with client.reader("sdk/aio", consumer="c") as reader:
                # A reader that waits gets what is written meanwhile.
                while len(found) < 3:
                    found += [each.data for each in (await reader.receive_batch()).messages]
                waiting = asyncio.create_task(reader.receive_message())
                async with client.writer("sdk/aio") as writer:
                    await writer.write_with_ack("later")
                found.append((await waiting).data)
            await client.drop_topic("sdk/aio")
            return found

    assert asyncio.run(asyncio.wait_for(work(), 30)) == [b"a", b"b", b"c", b"later"]
