"""Topics as YDB's command line names and prints them.

Texts: https://github.com/ydb-platform/ydb `ydb/public/lib/ydb_cli/common/describe.cpp`.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Mapping
from typing import Any, Final

from mayflydb.cli.ydb.boxes import render_box
from mayflydb.cli.ydb.describing import time_text
from mayflydb.cli.ydb.faults import Misuse

SERVICE: Final = "Ydb.Topic.V1.TopicService"
TOPIC: Final = 17

CODECS: Final[Mapping[str, int]] = {"RAW": 1, "GZIP": 2, "LZOP": 3, "ZSTD": 4}
STRATEGIES: Final[Mapping[str, int]] = {"disabled": 1, "scale-up": 2, "scale-up-and-down": 3, "paused": 4}
METERING: Final[Mapping[str, int]] = {"reserved-capacity": 1, "request-units": 2}

_NAMES: Final = {number: name for name, number in CODECS.items()}

ENCODERS: Final[Mapping[int, Callable[[bytes], bytes]]] = {1: lambda data: data, 2: gzip.compress}
DECODERS: Final[Mapping[int, Callable[[bytes], bytes]]] = {1: lambda data: data, 2: gzip.decompress}


def parse_codecs(text: str) -> list[int]:
    """Return the codecs in a list such as `raw,gzip`. Misuse for an unknown one."""
    names = [each.strip().upper() for each in text.split(",") if each.strip()]
    for name in names:
        if name not in CODECS:
            raise Misuse(f"Codec {name.lower()} is not available for this command. Available codecs: {_available()}")
    return [CODECS[name] for name in names]


def _available() -> str:
    return ", ".join(name.lower() for name in CODECS)


def codecs_text(codecs: Any) -> str:
    """Return codecs by their names."""
    return ", ".join(_NAMES.get(each, str(each)) for each in codecs)


def duration_text(seconds: int) -> str:
    """Return a span in its largest whole unit: `2 hours`."""
    for name, length in (("hours", 3600), ("minutes", 60)):
        if seconds % length == 0:
            return f"{seconds // length} {name}"
    return f"{seconds} seconds"


def topic_text(described: Any) -> str:
    """Return the text of a DescribeTopicResult behind the head."""
    lines = [
        f"RetentionPeriod: {duration_text(described.retention_period.seconds)}",
        f"PartitionsCount: {len(described.partitions)}",
    ]
    if described.supported_codecs.codecs:
        lines.append(f"SupportedCodecs: {codecs_text(described.supported_codecs.codecs)}")
    text = "\n".join(lines) + "\n"
    if not described.consumers:
        return text
    rows = [
        (each.name, codecs_text(each.supported_codecs.codecs), time_text(each.read_from), str(int(each.important)))
        for each in described.consumers
    ]
    names = ("ConsumerName", "SupportedCodecs", "ReadFrom", "Important")
    return f"{text}\nConsumers: \n{render_box(names, rows)}"


def consumer_text(described: Any) -> str:
    """Return the text of a DescribeConsumerResult."""
    rows = [
        (
            str(each.partition_id),
            str(each.partition_stats.partition_offsets.start),
            str(each.partition_stats.partition_offsets.end),
            str(each.partition_consumer_stats.committed_offset),
            str(each.partition_consumer_stats.last_read_offset),
            each.partition_consumer_stats.reader_name,
        )
        for each in described.partitions
    ]
    names = ("PartitionId", "StartOffset", "EndOffset", "CommittedOffset", "LastReadOffset", "ReaderName")
    return f"Consumer {described.consumer.name}: \n{render_box(names, rows)}"
