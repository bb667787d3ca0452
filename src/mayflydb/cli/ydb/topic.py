"""`topic`: topics and their consumers. Reading and writing stand in `topic_streams`.

Options: https://ydb.tech/docs/en/reference/ydb-cli/topic-overview.
"""

from __future__ import annotations

import re
from typing import Any, Final

import click

from mayflydb.cli.ydb.boxes import print_text
from mayflydb.cli.ydb.context import client_context
from mayflydb.cli.ydb.faults import Misuse
from mayflydb.cli.ydb.topic_streams import read, write
from mayflydb.cli.ydb.topics import METERING, SERVICE, STRATEGIES, consumer_text, parse_codecs

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400, "": 3600}


def parse_period(text: str) -> int:
    """Return the seconds in a period such as `18h`, `30m`, or a number of hours. Misuse for any other text."""
    match = re.fullmatch(r"([0-9]+)([smhd]?)", text)
    if match is None:
        raise Misuse(f"Invalid period {text!r}: a number with s, m, h or d is expected")
    return int(match[1]) * _UNITS[match[2]]


@click.group()
def topic() -> None:
    """Topics, their consumers and messages."""


topic.add_command(read)
topic.add_command(write)


@topic.command()
@click.option("--partitions-count", type=int, default=1, show_default=True, help="The number of partitions.")
@click.option(
    "--retention-period", default="18h", show_default=True, help="How long messages are kept: 30s, 5m, 18h, 7d."
)
@click.option("--retention-storage-mb", type=int, default=0, help="A limit of storage. (Not supported by Mayfly.)")
@click.option("--partition-write-speed-kbps", type=int, default=1024, show_default=True)
@click.option(
    "--supported-codecs", default="raw", show_default=True, help="Codecs, with commas: raw, gzip, lzop, zstd."
)
@click.option("--auto-partitioning-strategy", type=click.Choice(list(STRATEGIES)), default="disabled")
@click.option("--metering-mode", type=click.Choice(list(METERING)))
@click.argument("path")
@click.pass_context
def create(ctx: click.Context, /, path: str, **given: Any) -> None:
    """Create a topic."""
    context = client_context(ctx)
    fields: dict[str, Any] = {"retention_storage_mb": given["retention_storage_mb"]}
    if given["metering_mode"]:
        fields["metering_mode"] = METERING[given["metering_mode"]]
    context.client.call(
        f"{SERVICE}/CreateTopic",
        path=context.path(path),
        partitioning_settings={
            "min_active_partitions": given["partitions_count"],
            "auto_partitioning_settings": {"strategy": STRATEGIES[given["auto_partitioning_strategy"]]},
        },
        retention_period={"seconds": parse_period(given["retention_period"])},
        partition_write_speed_bytes_per_second=given["partition_write_speed_kbps"] * 1024,
        supported_codecs={"codecs": parse_codecs(given["supported_codecs"])},
        **fields,
    )


@topic.command()
@click.option("--partitions-count", type=int, help="The number of partitions, which can only grow.")
@click.option("--retention-period", help="How long messages are kept: 30s, 5m, 18h, 7d.")
@click.option("--retention-storage-mb", type=int, help="A limit of storage. (Not supported by Mayfly.)")
@click.option("--partition-write-speed-kbps", type=int)
@click.option("--supported-codecs", help="Codecs, with commas: raw, gzip, lzop, zstd.")
@click.option("--auto-partitioning-strategy", type=click.Choice(list(STRATEGIES)))
@click.option("--metering-mode", type=click.Choice(list(METERING)))
@click.argument("path")
@click.pass_context
def alter(ctx: click.Context, /, path: str, **given: Any) -> None:
    """Change a topic: what the options name."""
    context = client_context(ctx)
    fields: dict[str, Any] = {}
    partitioning: dict[str, Any] = {}
    if given["partitions_count"] is not None:
        partitioning["set_min_active_partitions"] = given["partitions_count"]
    if given["auto_partitioning_strategy"]:
        strategy = STRATEGIES[given["auto_partitioning_strategy"]]
        partitioning["alter_auto_partitioning_settings"] = {"set_strategy": strategy}
    if partitioning:
        fields["alter_partitioning_settings"] = partitioning
    if given["retention_period"] is not None:
        fields["set_retention_period"] = {"seconds": parse_period(given["retention_period"])}
    if given["retention_storage_mb"] is not None:
        fields["set_retention_storage_mb"] = given["retention_storage_mb"]
    if given["partition_write_speed_kbps"] is not None:
        fields["set_partition_write_speed_bytes_per_second"] = given["partition_write_speed_kbps"] * 1024
    if given["supported_codecs"] is not None:
        fields["set_supported_codecs"] = {"codecs": parse_codecs(given["supported_codecs"])}
    if given["metering_mode"]:
        fields["set_metering_mode"] = METERING[given["metering_mode"]]
    context.client.call(f"{SERVICE}/AlterTopic", path=context.path(path), **fields)


@topic.command()
@click.argument("path")
@click.pass_context
def drop(ctx: click.Context, path: str) -> None:
    """Drop a topic with its messages."""
    context = client_context(ctx)
    context.client.call(f"{SERVICE}/DropTopic", path=context.path(path))


@topic.group()
def consumer() -> None:
    """Consumers of a topic."""


_consumer_option = click.option("--consumer", "name", required=True, help="The name of the consumer.")


@consumer.command()
@_consumer_option
@click.option("--starting-message-timestamp", type=int, help="It begins at messages written at these Unix seconds.")
@click.option(
    "--supported-codecs", default="raw", show_default=True, help="Codecs, with commas: raw, gzip, lzop, zstd."
)
@click.argument("path")
@click.pass_context
def add(
    ctx: click.Context, path: str, name: str, starting_message_timestamp: int | None, supported_codecs: str
) -> None:
    """Add a consumer."""
    context = client_context(ctx)
    added: dict[str, Any] = {"name": name, "supported_codecs": {"codecs": parse_codecs(supported_codecs)}}
    if starting_message_timestamp is not None:
        added["read_from"] = {"seconds": starting_message_timestamp}
    context.client.call(f"{SERVICE}/AlterTopic", path=context.path(path), add_consumers=[added])


@consumer.command("drop")
@_consumer_option
@click.argument("path")
@click.pass_context
def drop_consumer(ctx: click.Context, path: str, name: str) -> None:
    """Drop a consumer with what it has committed."""
    context = client_context(ctx)
    context.client.call(f"{SERVICE}/AlterTopic", path=context.path(path), drop_consumers=[name])


@consumer.command("describe")
@_consumer_option
@click.argument("path")
@click.pass_context
def describe_consumer(ctx: click.Context, path: str, name: str) -> None:
    """Print the offsets of a consumer, by partition."""
    context = client_context(ctx)
    print_text(
        consumer_text(
            context.client.call(
                f"{SERVICE}/DescribeConsumer", path=context.path(path), consumer=name, include_stats=True
            )
        )
    )


@consumer.group()
def offset() -> None:
    """Offsets of a consumer."""


@offset.command()
@_consumer_option
@click.option("--partition", type=int, required=True, help="The partition.")
@click.option("--offset", "position", type=int, required=True, help="All messages before it count as read.")
@click.argument("path")
@click.pass_context
def commit(ctx: click.Context, path: str, name: str, partition: int, position: int) -> None:
    """Set the offset of a consumer in a partition."""
    context = client_context(ctx)
    context.client.call(
        f"{SERVICE}/CommitOffset", path=context.path(path), consumer=name, partition_id=partition, offset=position
    )
