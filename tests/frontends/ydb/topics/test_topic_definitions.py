"""Topics as they are created, altered, described and dropped, with every check."""

from __future__ import annotations

from typing import Any

import pytest

from frontends.ydb.topics.conftest import SERVICE, Topic
from mayflydb.frontends.ydb.descriptors import message
from ydb_raw import Raw

BAD_REQUEST, SCHEME_ERROR, UNSUPPORTED, EXISTS, NOT_FOUND = 400010, 400070, 400180, 400130, 400140

CREATIONS: list[tuple[dict[str, Any], int, str]] = [
    ({"retention_period": {"seconds": 0}}, BAD_REQUEST, "retention_period must be positive, provided 0 seconds"),
    ({"retention_period": {"seconds": -1}}, BAD_REQUEST, "retention_period must be positive, provided -1 seconds"),
    ({"retention_period": {"seconds": -1, "nanos": 1}}, BAD_REQUEST, "retention_period must be positive"),
    ({"retention_period": {"seconds": 1 << 31}}, BAD_REQUEST, "retention_period must be at most 2147483647 seconds"),
    ({"retention_storage_mb": 1}, UNSUPPORTED, "retention_storage_mb is not supported"),
    ({"retention_storage_mb": -1}, BAD_REQUEST, "retention_storage_mb can't be negative"),
    (
        {"partitioning_settings": {"min_active_partitions": 1001}},
        BAD_REQUEST,
        "partitions count cannot be more than 1000",
    ),
    ({"partitioning_settings": {"min_active_partitions": -1}}, BAD_REQUEST, "min_active_partitions can't be negative"),
    (
        {"partitioning_settings": {"min_active_partitions": 3, "max_active_partitions": 2}},
        BAD_REQUEST,
        "max_active_partitions must be greater than or equal to min_active_partitions, provided 2 and 3",
    ),
    *(
        (
            {"partitioning_settings": {"auto_partitioning_settings": {"strategy": number}}},
            UNSUPPORTED,
            f"Auto partitioning strategy {name} is not supported",
        )
        for number, name in ((2, "scale_up"), (3, "scale_up_and_down"), (4, "paused"))
    ),
    ({"supported_codecs": {"codecs": [0]}}, BAD_REQUEST, "Unknown codec with id 0"),
    ({"supported_codecs": {"codecs": [5]}}, BAD_REQUEST, "Unknown codec with id 5"),
    (
        {"supported_codecs": {"codecs": range(10000, 10101)}},
        BAD_REQUEST,
        "supported_codecs count cannot be more than 100",
    ),
    (
        {"partition_write_speed_bytes_per_second": -1},
        BAD_REQUEST,
        "partition_write_speed_bytes_per_second can't be negative",
    ),
    ({"partition_write_burst_bytes": -1}, BAD_REQUEST, "partition_write_burst_bytes can't be negative"),
    ({"metering_mode": 3}, BAD_REQUEST, "Unknown metering mode 3"),
    ({"metrics_level": 1}, UNSUPPORTED, "metrics_level is not supported"),
    ({"content_based_deduplication": True}, UNSUPPORTED, "content_based_deduplication is not supported"),
    ({"attributes": {"_abc_id": "1"}}, BAD_REQUEST, "Attribute _abc_id is not supported"),
    ({"consumers": [{"name": ""}]}, BAD_REQUEST, "consumer with empty name is forbidden"),
    ({"consumers": [{"name": "a"}, {"name": "a"}]}, BAD_REQUEST, "Duplicate consumer name a"),
    (
        {"consumers": [{"name": str(each)} for each in range(3001)]},
        BAD_REQUEST,
        "consumers count cannot be more than 3000",
    ),
    ({"consumers": [{"name": "a", "important": True}]}, UNSUPPORTED, "An important consumer is not supported"),
    (
        {"consumers": [{"name": "a", "availability_period": {"seconds": 1}}]},
        UNSUPPORTED,
        "availability_period of a consumer",
    ),
    (
        {"supported_codecs": {"codecs": [1, 2]}, "consumers": [{"name": "a", "supported_codecs": {"codecs": [1]}}]},
        BAD_REQUEST,
        "consumer 'a' does not support the codec gzip of the topic",
    ),
]


@pytest.mark.parametrize(("fields", "status", "text"), CREATIONS)
def test_new_topics_that_are_refused(raw: Raw, fields: dict[str, Any], status: int, text: str) -> None:
    found = raw.ask(f"{SERVICE}/CreateTopic", path="topics/refused", **fields).operation
    assert (found.status, found.issues[0].message[: len(text)]) == (status, text)
    missing = raw.ask(f"{SERVICE}/DescribeTopic", path="topics/refused").operation
    assert (missing.status, missing.issues[0].message) == (
        SCHEME_ERROR,
        "no path '/local/topics/refused', Marker# PQ15",
    )


def test_a_topic_as_it_was_described(raw: Raw) -> None:
    settings: dict[str, Any] = {
        "partitioning_settings": {"min_active_partitions": 3, "max_active_partitions": 5},
        "retention_period": {"seconds": 7200},
        "supported_codecs": {"codecs": [1, 2, 10000]},
        "partition_write_speed_bytes_per_second": 1000,
        "partition_write_burst_bytes": 2000,
        "attributes": {"a": "b"},
        "consumers": [
            {"name": "one"},
            {
                "name": "two",
                "read_from": {"seconds": 100, "nanos": 1000},
                "supported_codecs": {"codecs": [1, 2, 4, 10000]},
                "attributes": {"c": "d"},
            },
        ],
        "metering_mode": 2,
    }
    path = "topics/deep/described"
    assert raw.ask(f"{SERVICE}/CreateTopic", path=path, **settings).operation.status == 400000
    found = raw.result(f"{SERVICE}/DescribeTopic", "Ydb.Topic.DescribeTopicResult", path=f"/local/{path}")
    assert (found.self.name, found.self.type) == ("described", 17)
    expected = message("Ydb.Topic.CreateTopicRequest")(**settings)
    for field in settings:
        if field != "partitioning_settings":
            assert getattr(found, field) == getattr(expected, field)
    assert (found.partitioning_settings.min_active_partitions, found.partitioning_settings.max_active_partitions) == (
        3,
        5,
    )
    assert [(each.partition_id, each.active, each.HasField("partition_stats")) for each in found.partitions] == [
        (0, True, False), (1, True, False), (2, True, False),
    ]  # fmt: skip
    located = raw.result(
        f"{SERVICE}/DescribeTopic",
        "Ydb.Topic.DescribeTopicResult",
        path=path,
        include_location=True,
        include_stats=True,
    )
    assert [each.partition_location.node_id for each in located.partitions] == [1, 1, 1]
    assert located.HasField("topic_stats")
    again = raw.ask(f"{SERVICE}/CreateTopic", path=path).operation
    assert again.status == EXISTS
    listed = raw.result(
        "Ydb.Scheme.V1.SchemeService/ListDirectory", "Ydb.Scheme.ListDirectoryResult", path="/local/topics/deep"
    )
    assert [(each.name, each.type) for each in listed.children] == [("described", 17)]
    one = raw.result("Ydb.Scheme.V1.SchemeService/DescribePath", "Ydb.Scheme.DescribePathResult", path=f"/local/{path}")
    assert (one.self.name, one.self.type) == ("described", 17)


def test_what_the_api_gives_when_nothing_is_said(topic: Topic) -> None:
    found = topic.describe()
    assert found.retention_period.seconds == 36 * 3600
    assert found.partition_write_speed_bytes_per_second == 1 << 20
    assert (len(found.partitions), list(found.supported_codecs.codecs), found.metering_mode) == (1, [], 0)


ALTERATIONS: list[tuple[dict[str, Any], int, str]] = [
    (
        {"alter_partitioning_settings": {"set_min_active_partitions": 1}},
        BAD_REQUEST,
        "partitions count can only grow: 2 now, 1 requested",
    ),
    (
        {"alter_partitioning_settings": {"set_min_active_partitions": 1001}},
        BAD_REQUEST,
        "partitions count cannot be more",
    ),
    ({"alter_partitioning_settings": {"set_max_active_partitions": 1}}, BAD_REQUEST, "max_active_partitions must be"),
    (
        {"alter_partitioning_settings": {"alter_auto_partitioning_settings": {"set_strategy": 2}}},
        UNSUPPORTED,
        "Auto partitioning strategy scale_up is not supported",
    ),
    ({"set_retention_period": {"seconds": 0}}, BAD_REQUEST, "retention_period must be positive"),
    ({"set_retention_storage_mb": 5}, UNSUPPORTED, "retention_storage_mb is not supported"),
    ({"add_consumers": [{"name": "c"}]}, EXISTS, "Duplicate consumer name c"),
    ({"drop_consumers": ["none"]}, NOT_FOUND, "no consumer 'none' in the topic"),
    ({"alter_consumers": [{"name": "none"}]}, NOT_FOUND, "no consumer 'none' in the topic"),
    (
        {"alter_consumers": [{"name": "c", "set_important": True}]},
        UNSUPPORTED,
        "An important consumer is not supported",
    ),
    (
        {"alter_consumers": [{"name": "c", "set_availability_period": {"seconds": 5}}]},
        UNSUPPORTED,
        "availability_period of a consumer is not supported",
    ),
    (
        {
            "set_supported_codecs": {"codecs": [1]},
            "alter_consumers": [{"name": "c", "set_supported_codecs": {"codecs": [2]}}],
        },
        BAD_REQUEST,
        "consumer 'c' does not support the codec raw of the topic",
    ),
    ({"set_content_based_deduplication": True}, UNSUPPORTED, "content_based_deduplication is not supported"),
]


@pytest.mark.parametrize(("fields", "status", "text"), ALTERATIONS)
def test_changes_that_are_refused_change_nothing(topic: Topic, fields: dict[str, Any], status: int, text: str) -> None:
    topic.call("AlterTopic", alter_partitioning_settings={"set_min_active_partitions": 2})
    before = topic.describe()
    # Also what is right beside the violation.
    found = topic.call("AlterTopic", alter_attributes={"x": "y"}, **fields)
    assert (found.status, found.issues[0].message[: len(text)]) == (status, text)
    assert topic.describe() == before


def test_all_changes_at_once(topic: Topic) -> None:
    topic.call("AlterTopic", alter_attributes={"a": "1", "b": "2"}, add_consumers=[{"name": "d"}])
    found = topic.call(
        "AlterTopic",
        alter_partitioning_settings={"set_min_active_partitions": 3},
        set_retention_period={"seconds": 60},
        set_supported_codecs={"codecs": [2]},
        set_partition_write_speed_bytes_per_second=7,
        set_partition_write_burst_bytes=8,
        alter_attributes={"a": "", "b": "3"},
        drop_consumers=["d"],
        add_consumers=[{"name": "e"}],
        alter_consumers=[{"name": "c", "set_read_from": {"seconds": 9}, "set_supported_codecs": {"codecs": [2]}}],
        set_metering_mode=1,
    )
    assert found.status == 400000
    after = topic.describe()
    assert (len(after.partitions), after.retention_period.seconds, list(after.supported_codecs.codecs)) == (3, 60, [2])
    assert (after.partition_write_speed_bytes_per_second, after.partition_write_burst_bytes) == (7, 8)
    assert (dict(after.attributes), after.metering_mode) == ({"b": "3"}, 1)
    assert [(each.name, each.read_from.seconds) for each in after.consumers] == [("c", 9), ("e", 0)]


@pytest.mark.parametrize("method", ["AlterTopic", "DropTopic", "DescribeTopic", "DescribeConsumer", "CommitOffset"])
def test_what_is_no_topic(raw: Raw, topic: Topic, method: str) -> None:
    for path in ("topics/none", "topics", "none/none"):
        found = raw.ask(f"{SERVICE}/{method}", path=path).operation
        assert found.status == SCHEME_ERROR
        assert found.issues[0].message
    assert raw.ask(f"{SERVICE}/{method}", path="").operation.status == BAD_REQUEST


def test_an_unknown_consumer_is_not_described(topic: Topic) -> None:
    found = topic.call("DescribeConsumer", consumer="none")
    assert found.status == SCHEME_ERROR


def test_a_dropped_topic_is_gone_with_its_state(topic: Topic, raw: Raw) -> None:
    topic.put("a")
    topic.call("CommitOffset", partition_id=0, consumer="c", offset=1)
    assert topic.call("DropTopic").status == 400000
    assert topic.call("DropTopic").status == SCHEME_ERROR
    topic.call("CreateTopic", consumers=[{"name": "c"}])
    stats = topic.describe_consumer().partitions[0]
    assert (stats.partition_stats.partition_offsets.end, stats.partition_consumer_stats.committed_offset) == (0, 0)
    assert topic.put("b") == [0]


def test_names_are_those_of_scheme_objects(raw: Raw) -> None:
    for path in ("topics/a b", "topics/" + "x" * 256, ".sys/t", "/"):
        assert raw.ask(f"{SERVICE}/CreateTopic", path=path).operation.status == SCHEME_ERROR
