"""CREATE, ALTER and DROP TOPIC, as statements of YQL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from frontends.ydb.topics.conftest import SERVICE
from ydb_raw import Raw

ydb: Any = pytest.importorskip("ydb")

Run = Callable[[str], None]


@pytest.fixture
def run(query_pool: Any) -> Run:
    def run(text: str) -> None:
        query_pool.execute_with_retries(text)

    return run


def describe(raw: Raw, path: str) -> Any:
    return raw.result(f"{SERVICE}/DescribeTopic", "Ydb.Topic.DescribeTopicResult", path=path)


def consumers(raw: Raw, path: str) -> list[tuple[str, int, list[int]]]:
    return [
        (each.name, each.read_from.seconds, list(each.supported_codecs.codecs))
        for each in describe(raw, path).consumers
    ]


def test_a_topic_from_its_statement_to_its_end(run: Run, raw: Raw) -> None:
    run("CREATE TOPIC `yql/plain`")
    found = describe(raw, "yql/plain")
    assert (len(found.partitions), found.retention_period.seconds, len(found.consumers)) == (1, 18 * 3600, 0)
    run("CREATE TOPIC IF NOT EXISTS `yql/plain` (CONSUMER c)")
    assert consumers(raw, "yql/plain") == []
    with pytest.raises(ydb.issues.Error) as refused:
        run("CREATE TOPIC `yql/plain`")
    assert "path exist, request accepts it" in str(refused.value)
    run("DROP TOPIC `yql/plain`")
    run("DROP TOPIC IF EXISTS `yql/plain`")
    with pytest.raises(ydb.issues.SchemeError):
        run("DROP TOPIC `yql/plain`")


def test_everything_that_a_statement_can_say(run: Run, raw: Raw) -> None:
    run("""
        CREATE TOPIC `yql/full` (
            CONSUMER first,
            CONSUMER second WITH (important = false, read_from = Timestamp("2022-12-01T12:13:22Z"),
                supported_codecs = "RAW, gzip"),
            CONSUMER third WITH (read_from = Datetime("2022-12-01T12:13:22Z")),
            CONSUMER `fourth one` WITH (read_from = 1609462861)
        ) WITH (
            min_active_partitions = 2, max_active_partitions = 5, partition_count_limit = 5,
            retention_period = Interval("PT12H"), partition_write_speed_bytes_per_second = 3000,
            PARTITION_WRITE_BURST_BYTES = 4000, metering_mode = "request_units",
            auto_partitioning_strategy = "disabled", supported_codecs = "raw,gzip"
        )
    """)
    found = describe(raw, "yql/full")
    assert (len(found.partitions), found.partitioning_settings.max_active_partitions) == (2, 5)
    assert (found.retention_period.seconds, list(found.supported_codecs.codecs)) == (12 * 3600, [1, 2])
    assert (found.partition_write_speed_bytes_per_second, found.partition_write_burst_bytes) == (3000, 4000)
    assert found.metering_mode == 2
    at = 1_669_896_802
    assert consumers(raw, "yql/full") == [
        ("first", 0, []), ("second", at, [1, 2]), ("third", at, []), ("fourth one", 1_609_462_861, []),
    ]  # fmt: skip
    run("""
        ALTER TOPIC `yql/full` ADD CONSUMER fifth WITH (read_from = 7), DROP CONSUMER first,
            ALTER CONSUMER second SET (read_from = 8), ALTER CONSUMER third RESET (read_from),
            SET (min_active_partitions = 3, retention_period = Interval("PT1S")), RESET (partition_write_burst_bytes)
    """)
    found = describe(raw, "yql/full")
    assert (len(found.partitions), found.retention_period.seconds, found.partition_write_burst_bytes) == (3, 1, 0)
    assert consumers(raw, "yql/full") == [
        ("second", 8, [1, 2]), ("third", 0, []), ("fourth one", 1_609_462_861, []), ("fifth", 7, []),
    ]  # fmt: skip
    run("ALTER TOPIC `yql/full` RESET (retention_period, supported_codecs, max_active_partitions)")
    found = describe(raw, "yql/full")
    assert (found.retention_period.seconds, list(found.supported_codecs.codecs)) == (18 * 3600, [])


REFUSED = [
    ("CREATE TOPIC t WITH (foo = 1)", "unknown topic setting: foo"),
    ("CREATE TOPIC t (CONSUMER c WITH (foo = 1))", "unknown consumer setting: foo"),
    ("CREATE TOPIC t WITH (min_active_partitions = 'a')", "MIN_ACTIVE_PARTITIONS value should be an integer"),
    ("CREATE TOPIC t WITH (retention_period = 'PT1H')", "RETENTION_PERIOD value should be an Interval literal"),
    ("CREATE TOPIC t WITH (retention_period = Interval('x'))", "RETENTION_PERIOD value should be an Interval literal"),
    ("CREATE TOPIC t WITH (retention_period = Interval('PT0S'))", "retention_period must be positive"),
    ("CREATE TOPIC t WITH (supported_codecs = 'raw, foo')", "SUPPORTED_CODECS value should be a list of codecs"),
    (
        "CREATE TOPIC t WITH (metering_mode = 'foo')",
        "METERING_MODE value should be one of: unspecified, reserved_capacity",
    ),
    (
        "CREATE TOPIC t WITH (auto_partitioning_strategy = 'scale_up')",
        "Auto partitioning strategy scale_up is not supported",
    ),
    ("CREATE TOPIC t (CONSUMER c WITH (important = true))", "An important consumer is not supported"),
    ("CREATE TOPIC t (CONSUMER c WITH (important = 1))", "IMPORTANT value should be a boolean"),
    ("CREATE TOPIC t (CONSUMER c WITH (read_from = 'x'))", "READ_FROM value should be a Timestamp or Datetime literal"),
    ("CREATE TOPIC t (CONSUMER c, CONSUMER c)", "Duplicate consumer name c"),
    ("CREATE TOPIC t WITH (metering_mode = 'request_units', metering_mode = 'request_units')", "Duplicate setting"),
    ("ALTER TOPIC none ADD CONSUMER c", "Path does not exist"),
    ("ALTER TOPIC `yql/refused` SET (min_active_partitions = 2), SET (min_active_partitions = 2)", "Duplicate setting"),
    (
        "ALTER TOPIC `yql/refused` SET (retention_period = Interval('PT1H')), RESET (retention_period)",
        "Duplicate setting",
    ),
    ("ALTER TOPIC `yql/refused` RESET (min_active_partitions)", "MIN_ACTIVE_PARTITIONS of a topic cannot be reset"),
    ("ALTER TOPIC `yql/refused` DROP CONSUMER x", "in the topic"),
    (
        "ALTER TOPIC `yql/refused` ALTER CONSUMER c SET (read_from = 1), ALTER CONSUMER c SET (read_from = 2)",
        "Duplicate",
    ),
    ("ALTER TOPIC `yql/refused`", "expecting {ADD, ALTER, DROP, RESET, SET}"),
    ("DROP TABLE `yql/refused`", "path is not a table"),
    ("DROP TOPIC `yql`", "path is not a topic"),
]


@pytest.mark.parametrize(("text", "refusal"), REFUSED)
def test_statements_that_are_refused(run: Run, raw: Raw, text: str, refusal: str) -> None:
    run("CREATE TOPIC IF NOT EXISTS `yql/refused` (CONSUMER c)")
    with pytest.raises(ydb.issues.Error) as found:
        run(text)
    assert refusal in str(found.value)


def test_a_topic_is_no_table(run: Run) -> None:
    run("CREATE TOPIC IF NOT EXISTS `yql/refused` (CONSUMER c)")
    for text in ("SELECT * FROM `yql/refused`", "UPSERT INTO `yql/refused` (a) VALUES (1)"):
        with pytest.raises(ydb.issues.SchemeError):
            run(text)


def test_a_changefeeds_topic_takes_consumers_alone(run: Run, raw: Raw) -> None:
    run("CREATE TABLE yql_rows (id Uint64, v Utf8, PRIMARY KEY (id))")
    run("ALTER TABLE yql_rows ADD CHANGEFEED feed WITH (MODE = 'UPDATES', FORMAT = 'JSON')")
    run("ALTER TOPIC `yql_rows/feed` ADD CONSUMER c")
    assert consumers(raw, "yql_rows/feed") == [("c", 0, [])]
    for text in (
        "ALTER TOPIC `yql_rows/feed` SET (retention_period = Interval('PT1H'))",
        "ALTER TOPIC `yql_rows/feed` ADD CONSUMER d, SET (min_active_partitions = 5)",
    ):
        with pytest.raises(ydb.issues.BadRequest):
            run(text)
    with pytest.raises(ydb.issues.SchemeError):
        run("DROP TOPIC `yql_rows/feed`")
    stream = raw.converse(f"{SERVICE}/StreamWrite").ask(init_request={"path": "yql_rows/feed", "partition_id": 0})
    assert stream.refusal()[0] == 400010
    run("UPSERT INTO yql_rows (id, v) VALUES (1, 'a'u)")
    stream = raw.converse(f"{SERVICE}/StreamRead")
    stream.ask(init_request={"consumer": "c", "topics_read_settings": [{"path": "yql_rows/feed"}]})
    stream.get("init_response")
    stream.ask(read_request={"bytes_size": 1000})
    stream.get("start_partition_session_request")
    stream.ask(start_partition_session_response={"partition_session_id": 1})
    batch = stream.get("read_response").partition_data[0].batches[0]
    assert (batch.codec, batch.message_data[0].data) == (1, b'{"update":{"v":"a"},"key":[1]}')
    # A change while the reader waits, and the end of the table.
    run("DELETE FROM yql_rows WHERE id = 1")
    assert b"erase" in stream.get("read_response").partition_data[0].batches[0].message_data[0].data
    run("DROP TABLE yql_rows")
    assert stream.refusal()[0] == 400070
