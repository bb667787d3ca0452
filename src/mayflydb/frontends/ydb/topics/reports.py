"""Topics for the admin API: retention as a default TTL, and batches of messages as records."""

from __future__ import annotations

import base64
import re
import shlex
from typing import Any, Final

from mayflydb.engine.catalog import Node
from mayflydb.engine.proposals import Change, Proposal
from mayflydb.expiry.rules import default_rule
from mayflydb.frontends.ydb.descriptors import message
from mayflydb.frontends.ydb.schemes import paths
from mayflydb.frontends.ydb.schemes.catalog import Schemes
from mayflydb.frontends.ydb.schemes.showing import quote
from mayflydb.frontends.ydb.topics.bodies import decode_batch, topic_body
from mayflydb.frontends.ydb.topics.catalog import alter_topic
from mayflydb.frontends.ydb.topics.definitions import MAX_RETENTION
from mayflydb.frontends.ydb.topics.log import identity_of, place_of
from mayflydb.model.durations import format_iso
from mayflydb.model.errors import BadRequest
from mayflydb.model.hints import Hint
from mayflydb.model.instant import SECOND, to_rfc3339
from mayflydb.model.record import Record

SHOWN_MESSAGES: Final = 100
"""Messages of a batch that are shown."""


def retention_of(node: Node) -> int:
    """Return the retention of a topic, in seconds."""
    return topic_body(node).retention


def settings_of(node: Node) -> dict[str, Any]:
    """Return the settings of a topic. `fitting`: no columns that a TTL may use."""
    body = topic_body(node)
    return {"default_ttl": body.retention, "indexes": [], "partitions": body.partitions, "fitting": {}}


def identity_text(partition: bytes, key: bytes) -> str:
    """Return partition and first offset of a batch: `0/15`."""
    return "/".join(map(str, place_of(partition, key)))


def parse_identities(node: Node, id: str) -> list[tuple[bytes, bytes]]:
    """Return the identity of a batch. BadRequest for another text."""
    match = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,18})", id)
    if match is None:
        raise BadRequest(f"{id!r} is no batch of {node.name}", hint="write PARTITION/OFFSET, with its first offset")
    return [identity_of(int(match[1]), int(match[2]))]


def describe_batch(record: Record) -> dict[str, Any]:
    """Return the instant of the write, from which a batch's life counts."""
    return {"written": to_rfc3339(record.written)}


def batch_json(record: Record) -> dict[str, Any]:
    """Return a batch as JSON, with its first messages; their data is in Base64 if it is no text."""
    batch = decode_batch(record.value)
    messages = [
        {"offset": batch.first + place, "seq_no": each.seq_no, "data": _data_text(each.data)}
        for place, each in enumerate(batch.messages[:SHOWN_MESSAGES])
    ]
    found = {
        "partition": batch.partition,
        "first_offset": batch.first,
        "end_offset": batch.end,
        "codec": batch.codec,
        "producer": batch.producer,
        "written": to_rfc3339(batch.written),
        "messages": messages,
    }
    left = len(batch.messages) - len(messages)
    return found | ({"messages_left_out": left} if left else {})


def _data_text(data: bytes) -> str | dict[str, str]:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def preview_change(database: str, node: Node, change: Change) -> Proposal:
    """Return the preview of another retention. BadRequest if a topic cannot have it."""
    if not change.of_default:
        raise BadRequest("a topic has a retention, and no TTL columns", hint=Hint("no-index-in-container"))
    body = topic_body(node)
    if change.seconds is None or not 0 < change.seconds <= MAX_RETENTION:
        raise BadRequest(f"the retention of a topic is from 1 to {MAX_RETENTION} seconds")
    if body.table is not None:
        raise BadRequest("the retention of a changefeed's topic cannot be changed")
    span = f'Interval("{format_iso(change.seconds * SECOND)}")'
    statement = f"ALTER TOPIC {quote(node.name)} SET (retention_period = {span});"
    command = (
        f"ydb -d {shlex.quote(database)} topic alter --retention-period {change.seconds}s {shlex.quote(node.name)}"
    )
    return Proposal((default_rule(change.seconds),), body.retention, statements=(statement, command))


async def change_retention(schemes: Schemes, database: str, node: Node, change: Change) -> None:
    """Change the retention of a topic. Errors as of `preview_change`."""
    preview_change(database, node, change)
    path = paths.join_path(database, node.name)
    request = message("Ydb.Topic.AlterTopicRequest")(path=path)
    request.set_retention_period.seconds = change.seconds or 0
    await alter_topic(schemes, path, request, await schemes.engine.now())
