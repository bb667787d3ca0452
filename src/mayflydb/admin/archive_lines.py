"""The content of an archive's files: expired versions of records, as JSON Lines or Parquet.

The same versions give the same bytes: nothing comes from the time or the process of the writing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from mayflydb.admin import formats
from mayflydb.admin.archive_names import Format
from mayflydb.admin.targets import ContainerTarget
from mayflydb.engine.lifecycle.retired_versions import RetiredVersion
from mayflydb.model.errors import Unsupported
from mayflydb.model.instant import FIRST_INSTANT, LAST_INSTANT, Instant

_STAMPS: Final = range(FIRST_INSTANT, LAST_INSTANT + 1)
"""Instants that have a date: those of the years 1 to 9999."""


class ArchivedRecord(msgspec.Struct, frozen=True):
    """One expired version. `pk` and `record`: JSON. `due`: null in a file if it has no date.

    `lsn`: the number of its purge, which no other has in the container.
    """

    target: str
    id: str
    pk: Any
    cause: str
    rule: int
    lsn: int
    written: Instant
    due: Instant
    purged_at: Instant
    record: msgspec.Raw


_encode = msgspec.json.encode


def describe_version(version: RetiredVersion, container: ContainerTarget) -> ArchivedRecord:
    """Put a version that waits for an archive into the words of its protocol."""
    record, left = version.record, version.bequest
    assert left is not None
    id, pk = container.front_end.decode_identity(container.node, record.partition, record.key)
    content = container.front_end.decode_record(container.node, record)
    raw = content if isinstance(content, msgspec.Raw) else msgspec.Raw(_encode(content))
    return ArchivedRecord(
        container.target, id, pk, left.cause, left.rule_version, version.until, record.written, left.deadline, version.ended, raw
    )  # fmt: skip


def encode_line(record: ArchivedRecord) -> bytes:
    """Return the line of a record in a file of JSON Lines, with its end."""
    members: dict[str, Any] = {name: getattr(record, name) for name in record.__struct_fields__}
    members["written"], members["purged_at"] = formats.time(record.written), formats.time(record.purged_at)
    members["due"] = formats.time(record.due) if record.due in _STAMPS else None
    # A record of Cosmos DB is stored as it was sent, which may have been over several lines.
    members["record"] = msgspec.Raw(_on_one_line(bytes(record.record)))
    return _encode(members) + b"\n"


def _on_one_line(text: bytes) -> bytes:
    # In JSON a line break stands between tokens alone; inside of texts it is escaped.
    return text.replace(b"\r", b" ").replace(b"\n", b" ")


def encode_file(records: Sequence[ArchivedRecord], form: Format) -> bytes:
    """Return the bytes of a file. Unsupported where a library is missing."""
    check_format(form)
    if form == "parquet":
        return _encode_parquet(records)
    content = b"".join(map(encode_line, records))
    if form == "jsonl":
        return content
    import gzip

    return gzip.compress(content, 6, mtime=0)


def check_format(form: Format) -> None:
    """Unsupported where the library of a format is missing."""
    import importlib.util

    if form == "parquet" and importlib.util.find_spec("pyarrow") is None:
        raise Unsupported("this server writes no Parquet", hint='pip install "mayflydb[parquet]"')


def _encode_parquet(records: Sequence[ArchivedRecord]) -> bytes:
    import io

    import pyarrow as pa
    from pyarrow import parquet

    text, number, time = pa.string(), pa.int64(), pa.timestamp("us", tz="UTC")
    types = {
        "target": text, "id": text, "pk": text, "cause": text, "rule": number, "lsn": number, "written": time, "due": time,
        "purged_at": time, "record": text,
    }  # fmt: skip
    columns = {name: [_cell(name, getattr(each, name)) for each in records] for name in types}
    table = pa.table(columns, schema=pa.schema(list(types.items())))
    sink = io.BytesIO()
    parquet.write_table(table, sink, compression="zstd")
    return sink.getvalue()


def _cell(name: str, value: Any) -> Any:
    if name == "record":
        return bytes(value).decode()
    if name == "pk":
        return None if value is None else _encode(value).decode()
    if name == "due":
        return value if value in _STAMPS else None
    return value
