"""`mayfly data import --target`: reads records from a file and sends them to a running server, piece by piece."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from mayflydb.cli.admin import FAILED, CommandFailed, admin_client
from mayflydb.cli.output import show
from mayflydb.cli.progress import ProgressLine

PIECE_RECORDS: Final = 500
PIECE_BYTES: Final = 1 << 20
"""A piece ends with the record that takes it over one of these."""

Numbered = tuple[str, dict[str, Any], int]
"""A record: its place in the file, its value, and about its bytes."""


def import_records(
    ctx: click.Context, file: Path, target: str, mode: str, continue_on_error: bool, dry_run: bool
) -> None:
    """Send the records of a file. CommandFailed names the first one that was not written, unless the rest is to follow."""
    client = admin_client(ctx, silent=True)
    client.get("ttl", {"target": target})
    done = {"created": 0, "replaced": 0, "failed": 0, "read": 0}
    failures: list[dict[str, Any]] = []
    size = file.stat().st_size if file.is_file() else 0
    taken = 0
    with ProgressLine("importing", "bytes") as line:
        for piece in _cut(_read(file)):
            done["read"] += len(piece)
            if not dry_run:
                body = {"target": target, "mode": mode, "continue_on_error": continue_on_error}
                answer = client.post("data/import", {**body, "records": [value for _, value, _ in piece]})
                for name in ("created", "replaced", "failed"):
                    done[name] += answer[name]
                failures += [{"record": piece[row["number"]][0], "detail": row["detail"]} for row in answer["failures"]]
                if failures and not continue_on_error:
                    break
            taken += sum(bytes_of for _, _, bytes_of in piece)
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


def _cut(records: Iterator[Numbered]) -> Iterator[list[Numbered]]:
    piece: list[Numbered] = []
    size = 0
    for record in records:
        piece.append(record)
        size += record[2]
        if len(piece) >= PIECE_RECORDS or size >= PIECE_BYTES:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


def _read(path: Path) -> Iterator[Numbered]:
    """Read the records of a file, JSON Lines and CSV line by line."""
    try:
        match path.suffix.lower():
            case ".jsonl" | ".ndjson":
                yield from _read_lines(path)
            case ".json":
                yield from _read_array(path)
            case ".csv":
                yield from _read_csv(path)
            case _:
                raise CommandFailed(f"{path} is no file of records", hint="name it .json, .jsonl or .csv")
    except OSError as error:
        raise CommandFailed(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise CommandFailed(f"{path} is no text in UTF-8") from error


def _read_lines(path: Path) -> Iterator[Numbered]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield _check(f"line {number}", _decode(path, f"line {number}", line), len(line))


def _read_array(path: Path) -> Iterator[Numbered]:
    text = path.read_bytes()
    values = _decode(path, "the file", text)
    values = values if isinstance(values, list) else [values]
    for number, value in enumerate(values, 1):
        yield _check(f"record {number}", value, len(text) // len(values) + 1)


def _read_csv(path: Path) -> Iterator[Numbered]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        lines = csv.reader(file, strict=True)
        try:
            names = next(lines, [])
            if not names or not all(names) or len(set(names)) != len(names):
                raise CommandFailed(f"{path}: the first line of a CSV file names each property once")
            for cells in lines:
                place = f"line {lines.line_num}"
                if len(cells) > len(names):
                    raise CommandFailed(f"{path}, {place}: {len(cells)} cells, and {len(names)} names")
                # An empty cell is a missing property.
                values = {name: _read_cell(cell) for name, cell in zip(names, cells, strict=False) if cell}
                if values:
                    yield place, values, sum(map(len, cells))
        except csv.Error as error:
            raise CommandFailed(f"{path}, line {lines.line_num}: {error}") from error


def _read_cell(cell: str) -> Any:
    """Return the JSON value of a cell; a cell that is none is text."""
    try:
        return msgspec.json.decode(cell)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return cell


def _decode(path: Path, place: str, text: bytes) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise CommandFailed(f"{path}, {place}: {error}") from error


def _check(place: str, value: Any, size: int) -> Numbered:
    if not isinstance(value, dict):
        raise CommandFailed(f"{place} is no object")
    return place, value, size
