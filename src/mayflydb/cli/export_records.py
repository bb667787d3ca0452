"""`mayfly data export --target`: writes the records of one container of a running server to a file, page by page."""

from __future__ import annotations

import csv
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import click
import msgspec

from mayflydb.admin.record_files import format_cell
from mayflydb.cli.admin import AdminClient, CommandFailed, admin_client
from mayflydb.cli.output import show
from mayflydb.cli.progress import ProgressLine


def export_records(ctx: click.Context, file: Path, target: str, as_of: str | None) -> None:
    """Write all records to a file that does not exist. It gets its name when it is complete.

    `as_of`: an instant as people write it; only the records that will be left then.
    """
    suffix = file.suffix.lower()
    if suffix not in (".jsonl", ".ndjson", ".csv"):
        raise CommandFailed(f"{file} is no file of records", hint="name it .jsonl or .csv")
    if file.exists():
        raise CommandFailed(f"{file} exists")
    place = file.with_name(f"{file.name}.unfinished")
    try:
        with place.open("wb") as out:
            write = _write_csv if suffix == ".csv" else _write_lines
            count = write(_read(admin_client(ctx, silent=True), target, as_of), out)
        place.rename(file)
    except OSError as error:
        raise CommandFailed(f"{error.filename or file}: {error.strerror}") from error
    finally:
        place.unlink(missing_ok=True)
    show(ctx, {"from": target, "to": str(file), "records": count})


def _read(client: AdminClient, target: str, as_of: str | None) -> Iterator[dict[str, Any]]:
    after, count = None, 0
    with ProgressLine("exporting") as line:
        # The number of records is looked up where a person reads it.
        total = (
            sum(row["records"] for row in client.get("ttl", {"target": target})["targets"])
            if line.is_shown and as_of is None
            else None
        )
        while True:
            page = client.get("data/export", {"target": target, "limit": 1000, "after": after, "as_of": as_of})
            yield from page["records"]
            count += len(page["records"])
            line.update(count, total)
            after = page["after"]
            if after is None:
                break


def _write_lines(records: Iterator[dict[str, Any]], out: IO[bytes]) -> int:
    count = 0
    for record in records:
        out.write(msgspec.json.encode(record) + b"\n")
        count += 1
    return count


def _write_csv(records: Iterator[dict[str, Any]], out: IO[bytes]) -> int:
    """Write a line of all names, and a line for each record. The names are known at the end: lines wait in a file for them."""
    names: dict[str, None] = {}
    with tempfile.TemporaryFile() as waiting:
        count = _write_lines(_note_names(records, names), waiting)
        waiting.seek(0)
        with open(out.fileno(), "w", encoding="utf-8", newline="", closefd=False) as text:
            writer = csv.writer(text)
            writer.writerow(names)
            for line in waiting:
                record = msgspec.json.decode(line)
                writer.writerow([format_cell(record[name]) if name in record else "" for name in names])
    return count


def _note_names(records: Iterator[dict[str, Any]], names: dict[str, None]) -> Iterator[dict[str, Any]]:
    for record in records:
        names.update(dict.fromkeys(record))
        yield record
