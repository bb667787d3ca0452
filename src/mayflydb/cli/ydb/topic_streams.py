"""`topic read` and `topic write`: messages between a topic and files.

Options: https://ydb.tech/docs/en/reference/ydb-cli/topic-read, `topic-write`.
"""

from __future__ import annotations

import base64
import json
import re
import sys
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

import click
import msgspec

from mayflydb.cli.ydb.boxes import render_box, terminal_width
from mayflydb.cli.ydb.client import Conversation
from mayflydb.cli.ydb.context import client_context
from mayflydb.cli.ydb.describing import time_text
from mayflydb.cli.ydb.faults import Misuse
from mayflydb.cli.ydb.topics import CODECS, DECODERS, ENCODERS, SERVICE, codecs_text

READ_BYTES: Final = 1 << 20
"""Bytes that are asked for at once."""

WRITE_MESSAGES: Final = 1000
WRITE_BYTES: Final = 1 << 20
"""Limits of one write request, unless a single message is larger."""

_PRETTY_LIMIT: Final = 10
_MOST: Final = 500
_COLUMNS: Final = ("write_time", "create_time", "message_group_id", "seq_no", "offset", "meta", "body")


class ReadMessage(msgspec.Struct, frozen=True):
    """A message with its batch and the id of its partition session."""

    session: int
    batch: Any
    data: Any

    def body(self, encoded: bool) -> bytes:
        """Return the text, decompressed, in Base64 if `encoded`. Misuse for a codec that is not known here."""
        decode = DECODERS.get(self.batch.codec)
        if decode is None:
            raise Misuse(f"Messages in the codec {codecs_text([self.batch.codec])} cannot be read here")
        found = decode(self.data.data)
        return base64.b64encode(found) if encoded else found


# --- read ------------------------------------------------------------------------------------------------------------


@click.command()
@click.option("-c", "--consumer", help="The consumer to read for.")
@click.option(
    "--no-consumer", is_flag=True, help="Read without a consumer: it needs --partition-ids, and commits nothing."
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["single-message", "pretty", "newline-delimited", "concatenated"]),
    default="single-message",
    show_default=True,
)
@click.option("-w", "--wait", is_flag=True, help="Wait for further messages without an end.")
@click.option("--limit", type=int, help="The most messages: 10 with pretty, from 1 to 500; else as many as there are.")
@click.option("--commit", type=bool, default=True, show_default=True, help="Commit what was read.")
@click.option("--timestamp", type=int, help="Begin at messages written at these Unix seconds.")
@click.option("--partition-ids", help="Partitions, with commas; by default all.")
@click.option("--transform", type=click.Choice(["none", "base64"]), default="none")
@click.option("--idle-timeout", default="1s", show_default=True, help="End when no message has come for so long.")
@click.option("-f", "--file", "target", type=click.File("wb"), help="Where to write to, instead of standard output.")
@click.argument("path")
@click.pass_context
def read(ctx: click.Context, /, path: str, **given: Any) -> None:
    """Read messages. By default one, without a line break behind it."""
    context = client_context(ctx)
    if bool(given["consumer"]) == given["no_consumer"]:
        raise Misuse("Either the option --consumer or --no-consumer is needed")
    limit = _limit(given["form"], given["limit"])
    idle = None if given["wait"] else _seconds(given["idle_timeout"])
    settings: dict[str, Any] = {"path": context.path(path)}
    if given["partition_ids"]:
        settings["partition_ids"] = _partitions(given["partition_ids"])
    if given["timestamp"] is not None:
        settings["read_from"] = {"seconds": given["timestamp"]}
    commits = given["commit"] and not given["no_consumer"]
    with context.client.converse(f"{SERVICE}/StreamRead") as stream:
        stream.ask(init_request={"consumer": given["consumer"] or "", "topics_read_settings": [settings]})
        stream.receive()
        reading = _Reading(stream, idle, commits)
        target: BinaryIO = given["target"] or sys.stdout.buffer
        _print(given["form"], reading.messages(limit), target, given["transform"] == "base64")
        reading.finish()


class _Reading:
    """Messages of a stream until the limit, or until none comes any more."""

    def __init__(self, stream: Conversation, idle: float | None, commits: bool) -> None:
        self._stream = stream
        self._idle = idle
        self._commits = commits
        self._begun: dict[int, int] = {}
        """The offset from which each partition session commits."""
        self._committed: dict[int, int] = {}

    def messages(self, limit: int | None) -> Iterator[ReadMessage]:
        """Yield messages. Those that were yielded before the last one are handled, and committed."""
        count = 0
        self._stream.ask(read_request={"bytes_size": READ_BYTES})
        while (answer := self._stream.receive(self._idle)) is not None:
            for message in self._handle(answer):
                yield message
                if self._commits:
                    self._commit(message)
                count += 1
                if count == limit:
                    return
            if answer.HasField("read_response"):
                self._stream.ask(read_request={"bytes_size": answer.read_response.bytes_size})

    def _handle(self, answer: Any) -> Iterator[ReadMessage]:
        kind = answer.WhichOneof("server_message")
        if kind == "start_partition_session_request":
            request = answer.start_partition_session_request
            id = request.partition_session.partition_session_id
            self._begun[id] = self._committed[id] = request.committed_offset
            self._stream.ask(start_partition_session_response={"partition_session_id": id})
        elif kind == "stop_partition_session_request":
            id = answer.stop_partition_session_request.partition_session_id
            # What is yet to be committed comes from a session that goes on.
            self._begun.pop(id, None)
            if answer.stop_partition_session_request.graceful:
                self._stream.ask(stop_partition_session_response={"partition_session_id": id})
        elif kind == "commit_offset_response":
            for each in answer.commit_offset_response.partitions_committed_offsets:
                self._committed[each.partition_session_id] = each.committed_offset
        elif kind == "read_response":
            for data in answer.read_response.partition_data:
                for batch in data.batches:
                    for each in batch.message_data:
                        yield ReadMessage(data.partition_session_id, batch, each)

    def _commit(self, message: ReadMessage) -> None:
        first = self._begun.get(message.session)
        if first is None:
            return
        end = self._begun[message.session] = message.data.offset + 1
        offsets = {"partition_session_id": message.session, "offsets": [{"start": first, "end": end}]}
        self._stream.ask(commit_offset_request={"commit_offsets": [offsets]})

    def finish(self) -> None:
        """Wait until what was handled is committed."""
        while self._commits and any(self._committed[id] < end for id, end in self._begun.items()):
            answer = self._stream.receive()
            if answer is None:
                return
            for _ in self._handle(answer):
                pass


def _print(form: str, messages: Iterator[ReadMessage], target: BinaryIO, encoded: bool) -> None:
    if form == "pretty":
        rows = [_row(each, encoded) for each in messages]
        if rows:
            target.write(render_box(_COLUMNS, rows, lines_between=True, width=terminal_width()).encode())
    else:
        for each in messages:
            target.write(each.body(encoded) + (b"\n" if form == "newline-delimited" else b""))
            # Who waits for messages sees each when it comes.
            target.flush()
    target.flush()


def _row(message: ReadMessage, encoded: bool) -> tuple[str, ...]:
    meta = {each.key: each.value.decode("utf-8", "replace") for each in message.data.metadata_items}
    return (
        time_text(message.batch.written_at),
        time_text(message.data.created_at),
        message.data.message_group_id,
        str(message.data.seq_no),
        str(message.data.offset),
        json.dumps(meta, ensure_ascii=False) if meta else "",
        message.body(encoded).decode("utf-8", "replace"),
    )


def _limit(form: str, given: int | None) -> int | None:
    """Return the most messages; None: no limit."""
    if form == "single-message":
        if given not in (None, 1):
            raise Misuse("The format single-message is for one message; --limit needs another one")
        return 1
    if form == "pretty":
        if given is not None and not 1 <= given <= _MOST:
            raise Misuse(f"--limit is from 1 to {_MOST}")
        return given or _PRETTY_LIMIT
    if given is not None and given < 0:
        raise Misuse("--limit is not negative")
    return given or None


def _seconds(text: str) -> float:
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)?", text)
    if match is None:
        raise Misuse(f"Invalid duration {text!r}: a number with ms, s, m or h is expected")
    return float(match[1]) * {"ms": 0.001, "s": 1, "m": 60, "h": 3600, None: 1}[match[2]]


def _partitions(text: str) -> list[int]:
    if re.fullmatch(r"[0-9]{1,9}(,[0-9]{1,9})*", text) is None:
        raise Misuse(f"Invalid partitions {text!r}: numbers with commas are expected")
    return [int(each) for each in text.split(",")]


# --- write -----------------------------------------------------------------------------------------------------------


@click.command()
@click.option(
    "-f", "--file", "source", type=click.File("rb"), default="-", help="What to write; by default standard input."
)
@click.option(
    "--format", "form", type=click.Choice(["single-message", "newline-delimited"]), default="single-message", show_default=True
)  # fmt: skip
@click.option("--codec", type=click.Choice(["RAW", "GZIP"], case_sensitive=False), default="RAW", show_default=True)
@click.option("--message-group-id", default="", help="The producer: its messages are in one partition, in their order.")
@click.option("--transform", type=click.Choice(["none", "base64"]), default="none", help="How the input is encoded.")
@click.argument("path")
@click.pass_context
def write(ctx: click.Context, /, path: str, **given: Any) -> None:
    """Write messages. By default the input is one."""
    context = client_context(ctx)
    codec = CODECS[given["codec"].upper()]
    init: dict[str, Any] = {"path": context.path(path)}
    if group := given["message_group_id"]:
        init |= {"producer_id": group, "message_group_id": group, "get_last_seq_no": True}
    with context.client.converse(f"{SERVICE}/StreamWrite") as stream:
        stream.ask(init_request=init)
        number = stream.receive().init_response.last_seq_no
        for part in _parts(_bodies(given["source"], given["form"], given["transform"] == "base64")):
            messages = [
                {"seq_no": number + place, "data": ENCODERS[codec](body), "uncompressed_size": len(body)}
                for place, body in enumerate(part, 1)
            ]
            stream.ask(write_request={"codec": codec, "messages": messages})
            number += len(part)
            acknowledged = 0
            while acknowledged < len(part):
                acknowledged += len(stream.receive().write_response.acks)


def _bodies(source: BinaryIO, form: str, encoded: bool) -> Iterator[bytes]:
    lines = [source.read()] if form == "single-message" else (line.rstrip(b"\n") for line in source)
    for each in lines:
        try:
            yield base64.b64decode(each, validate=True) if encoded else each
        except ValueError as error:
            raise Misuse(f"The input is not Base64: {error}") from error


def _parts(bodies: Iterator[bytes]) -> Iterator[list[bytes]]:
    """Yield messages in groups, each for one request."""
    part: list[bytes] = []
    size = 0
    for each in bodies:
        if part and (len(part) >= WRITE_MESSAGES or size + len(each) > WRITE_BYTES):
            yield part
            part, size = [], 0
        part.append(each)
        size += len(each)
    if part:
        yield part
