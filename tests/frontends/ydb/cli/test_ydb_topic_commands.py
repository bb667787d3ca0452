"""`mayfly ydb topic`: what its commands print, and what they do."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from frontends.ydb.cli.conftest import Ask

Say = Callable[..., str]

_names = count(1)


@pytest.fixture
def topic(say: Say) -> str:
    """A topic with the consumer `c`."""
    name = f"cli/t{next(_names)}"
    assert say("topic", "create", "--partitions-count", "2", "--supported-codecs", "raw,gzip", name) == ""
    assert say("topic", "consumer", "add", "--consumer", "c", "--supported-codecs", "raw,gzip", name) == ""
    return name


def test_a_topic_is_described(say: Say) -> None:
    say(
        "topic",
        "create",
        "--partitions-count",
        "2",
        "--retention-period",
        "2h",
        "--supported-codecs",
        "raw,gzip",
        "seen",
    )
    say("topic", "consumer", "add", "--consumer", "c", "--supported-codecs", "RAW,GZIP",
        "--starting-message-timestamp", "1893456000", "seen")  # fmt: skip
    assert say("scheme", "describe", "seen") == (
        "<topic> seen\n"
        "RetentionPeriod: 2 hours\n"
        "PartitionsCount: 2\n"
        "SupportedCodecs: RAW, GZIP\n"
        "\n"
        "Consumers: \n"
        "┌──────────────┬─────────────────┬───────────────────────────────┬───────────┐\n"
        "│ ConsumerName │ SupportedCodecs │ ReadFrom                      │ Important │\n"
        "├──────────────┼─────────────────┼───────────────────────────────┼───────────┤\n"
        "│ c            │ RAW, GZIP       │ Tue, 01 Jan 2030 00:00:00 UTC │ 0         │\n"
        "└──────────────┴─────────────────┴───────────────────────────────┴───────────┘\n"
    )
    assert '"retention_period":"7200s"' in say("scheme", "describe", "--format", "proto-json-base64", "seen")
    assert say("topic", "alter", "--partitions-count", "3", "--retention-period", "90s", "seen") == ""
    assert "RetentionPeriod: 90 seconds\nPartitionsCount: 3\n" in say("scheme", "describe", "seen")
    assert say("topic", "consumer", "drop", "--consumer", "c", "seen") == ""
    assert "Consumers" not in say("scheme", "describe", "seen")
    assert "seen" in say("scheme", "ls")
    assert say("topic", "drop", "seen") == ""
    assert "seen" not in say("scheme", "ls")


def test_messages_go_in_and_come_out(say: Say, topic: str) -> None:
    assert say("topic", "write", topic, stdin="one") == ""
    assert say("topic", "read", topic, "-c", "c") == "one"
    assert (
        say("topic", "write", "--format", "newline-delimited", "--message-group-id", "g", topic, stdin="a\nb\nc\n")
        == ""
    )
    assert say("topic", "read", topic, "-c", "c", "--format", "newline-delimited", "--limit", "2") == "a\nb\n"
    # The third one is left, and only one that is committed is gone.
    for _ in range(2):
        assert say("topic", "read", topic, "-c", "c", "--commit", "false") == "c"
    assert say("topic", "read", topic, "-c", "c", "--format", "concatenated", "--idle-timeout", "300ms") == "c"
    assert say("topic", "read", topic, "-c", "c", "--idle-timeout", "100ms") == ""


def test_offsets_are_set_and_told(say: Say, topic: str) -> None:
    say("topic", "write", "--format", "newline-delimited", "--message-group-id", "g", topic, stdin="a\nb\nc\n")
    told = say("topic", "consumer", "describe", "--consumer", "c", topic)
    partition = next(line.split()[1] for line in told.splitlines() if line.split()[5:6] == ["3"])
    assert (
        say(
            "topic", "consumer", "offset", "commit", "--consumer", "c", "--partition", partition, "--offset", "2", topic
        )
        == ""
    )
    assert say("topic", "read", topic, "-c", "c", "--partition-ids", partition) == "c"
    told = say("topic", "consumer", "describe", "--consumer", "c", topic)
    assert f"│ {partition}           │ 0           │ 3         │ 3               │ 3              │" in told
    assert "│ PartitionId │ StartOffset │ EndOffset │ CommittedOffset │ LastReadOffset │ ReaderName │" in told


def test_pretty_messages(say: Say, topic: str) -> None:
    say("topic", "write", "--message-group-id", "g", topic, stdin="text")
    lines = say("topic", "read", topic, "-c", "c", "--format", "pretty", "--idle-timeout", "300ms").splitlines()
    assert [cell.strip() for cell in lines[1].strip("│").split("│")] == [
        "write_time", "create_time", "message_group_id", "seq_no", "offset", "meta", "body",
    ]  # fmt: skip
    row = [cell.strip() for cell in lines[3].strip("│").split("│")]
    assert row[:1] == ["Tue, 01 Jan 2030 00:00:00 UTC"]
    assert row[2:] == ["g", "1", "0", "", "text"]


def test_files_codecs_and_base64(say: Say, topic: str, tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    source.write_bytes(b"\0\xff" * 100)
    say("topic", "write", "--codec", "gzip", "-f", str(source), topic)
    assert say("topic", "read", topic, "-c", "c", "-f", str(target)) == ""
    assert target.read_bytes() == source.read_bytes()
    say("topic", "write", "--transform", "base64", topic, stdin="aGVsbG8=")
    assert say("topic", "read", topic, "-c", "c", "--transform", "base64", "--commit", "0") == "aGVsbG8="
    assert say("topic", "read", topic, "-c", "c") == "hello"
    assert gzip is not None


def test_a_producer_goes_on_with_its_numbers(say: Say, topic: str) -> None:
    for text in ("a", "b"):
        say("topic", "write", "--message-group-id", "g", topic, stdin=text)
    assert say("topic", "read", topic, "-c", "c", "--format", "concatenated", "--idle-timeout", "300ms") == "ab"


def test_reading_without_a_consumer(say: Say, topic: str) -> None:
    for partition in ("0", "1"):
        say("topic", "read", topic, "--no-consumer", "--partition-ids", partition, "--idle-timeout", "100ms")
    say("topic", "write", topic, stdin="x")
    found = say("topic", "read", topic, "--no-consumer", "--partition-ids", "0,1")
    assert found == "x"
    assert say("topic", "read", topic, "-c", "c", "--timestamp", "1893456000") == "x"


def test_a_changefeed_is_read(say: Say) -> None:
    say("sql", "-s", "CREATE TABLE fed (id Uint64, v Utf8, PRIMARY KEY (id))")
    say("sql", "-s", "ALTER TABLE fed ADD CHANGEFEED feed WITH (MODE = 'UPDATES', FORMAT = 'JSON')")
    assert say("topic", "consumer", "add", "--consumer", "c", "fed/feed") == ""
    say("sql", "-s", "UPSERT INTO fed (id, v) VALUES (1, 'a'u), (2, 'b'u)")
    found = say("topic", "read", "fed/feed", "-c", "c", "--format", "newline-delimited", "--idle-timeout", "300ms")
    assert sorted(found.splitlines()) == ['{"update":{"v":"a"},"key":[1]}', '{"update":{"v":"b"},"key":[2]}']


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("topic", "create", "--supported-codecs", "foo", "t"), "Codec foo is not available"),
        (("topic", "create", "--retention-period", "1y", "t"), "Invalid period '1y'"),
        (("topic", "create", "--auto-partitioning-strategy", "scale-up", "t"), "scale_up is not supported"),
        (("topic", "create", "--retention-storage-mb", "5", "t"), "retention_storage_mb is not supported"),
        (("topic", "drop", "none"), "Path does not exist"),
        (("topic", "read", "none", "-c", "c"), "no path '/local/none', Marker# PQ15"),
        (("topic", "read", "none"), "Either the option --consumer or --no-consumer is needed"),
        (("topic", "read", "none", "-c", "c", "--limit", "2"), "--limit needs another one"),
        (("topic", "read", "none", "-c", "c", "--format", "pretty", "--limit", "501"), "--limit is from 1 to 500"),
        (("topic", "read", "none", "-c", "c", "--idle-timeout", "x"), "Invalid duration 'x'"),
        (("topic", "read", "none", "-c", "c", "--partition-ids", "a"), "Invalid partitions 'a'"),
        (("topic", "write", "none"), "no path '/local/none', Marker# PQ15"),
        (("topic", "consumer", "add", "none"), "Missing option '--consumer'"),
    ],
)
def test_what_is_refused(ask: Ask, arguments: tuple[str, ...], text: str) -> None:
    result = ask(*arguments, stdin="x")
    assert result.exit_code == 1
    assert text in result.stderr


def test_a_directory_is_removed_with_its_topics(say: Say) -> None:
    say("topic", "create", "gone/deep/t")
    say("scheme", "rmdir", "-r", "-f", "gone")
    assert "gone" not in say("scheme", "ls")
