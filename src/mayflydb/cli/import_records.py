"""`mayfly data import --target`: reads records from a file and sends them to a running server, piece by piece."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from mayflydb.admin.import_records import JSON_LINES
from mayflydb.admin.record_files import CsvLines, FileRecord, JsonLines, LineReader, read_array
from mayflydb.cli.admin import FAILED, CommandFailed, admin_client
from mayflydb.cli.output import show
from mayflydb.cli.progress import ProgressLine
from mayflydb.model.errors import BadRequest

PIECE_RECORDS: Final = 500
PIECE_BYTES: Final = 1 << 20
"""A piece ends with the record that takes it over one of these."""

MAX_ARRAY: Final = 64 << 20
"""Bytes of a file that is read as a whole."""


def import_records(
    ctx: click.Context, file: Path, target: str, mode: str, *, continue_on_error: bool, dry_run: bool, keep_life: bool
) -> None:
    """Send the records of a file. CommandFailed names the first one that was not written, unless the rest is to follow."""
    client = admin_client(ctx, silent=True)
    client.get("ttl", {"target": target})
    done = {"created": 0, "replaced": 0, "expired": 0, "failed": 0, "read": 0}
    failures: list[dict[str, Any]] = []
    size = file.stat().st_size if file.is_file() else 0
    taken = 0
    with ProgressLine("importing", "bytes") as line:
        for piece in _cut(_read(file)):
            done["read"] += len(piece)
            if not dry_run:
                query = {
                    "target": target,
                    "mode": mode,
                    "continue_on_error": str(continue_on_error).lower(),
                    "keep_life": str(keep_life).lower(),
                }
                lines = b"".join(msgspec.json.encode(record.value) + b"\n" for record in piece)
                answer = client.post_file("data/import", query, lines, JSON_LINES)
                for name in ("created", "replaced", "expired", "failed"):
                    done[name] += answer[name]
                failures += [
                    {"record": piece[row["number"]].place, "detail": row["detail"]} for row in answer["failures"]
                ]
                if failures and not continue_on_error:
                    break
            taken += sum(record.size for record in piece)
            line.update(taken, size)
    if failures and not continue_on_error:
        written = done["created"] + done["replaced"]
        raise CommandFailed(
            f"{file}, {failures[0]['record']}: {failures[0]['detail']}; {written} records were written before",
            hint="mend it and import again with --mode upsert, or add --continue-on-error",
        )
    show(ctx, {"target": target, **done, "failures": failures[:100]})
    if failures:
        ctx.exit(FAILED)


def _cut(records: Iterator[FileRecord]) -> Iterator[list[FileRecord]]:
    piece: list[FileRecord] = []
    size = 0
    for record in records:
        piece.append(record)
        size += record.size
        if len(piece) >= PIECE_RECORDS or size >= PIECE_BYTES:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


def _read(path: Path) -> Iterator[FileRecord]:
    """Read the records of a file, JSON Lines and CSV line by line."""
    try:
        match path.suffix.lower():
            case ".jsonl" | ".ndjson":
                yield from _read_lines(path, JsonLines())
            case ".json":
                if path.stat().st_size > MAX_ARRAY:
                    raise CommandFailed(
                        f"{path}: a JSON array has at most {MAX_ARRAY >> 20} MiB", hint="use JSON Lines"
                    )
                yield from read_array(path.read_bytes())
            case ".csv":
                yield from _read_lines(path, CsvLines())
            case _:
                raise CommandFailed(f"{path} is no file of records", hint="name it .json, .jsonl or .csv")
    except OSError as error:
        raise CommandFailed(f"{path}: {error.strerror}") from error
    except BadRequest as error:
        raise CommandFailed(f"{path}, {error.message}") from error


def _read_lines(path: Path, reader: LineReader) -> Iterator[FileRecord]:
    try:
        with path.open("rb") as file:
            for line in file:
                record = reader.read(line)
                if record is not None:
                    yield record
        reader.end()
    except BadRequest as error:
        raise BadRequest(f"{reader.place}: {error.message}") from None
