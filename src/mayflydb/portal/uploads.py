"""Files of records that a person uploads: a JSON array or object, JSON Lines, or CSV. Pure."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from mayflydb.model.errors import BadRequest

MAX_RECORDS: Final = 10_000
"""Records of one upload; a larger file is imported by the command line."""


class UploadedRecord(msgspec.Struct, frozen=True):
    """A record of a file. `place`: its line, or its number in an array."""

    place: str
    value: dict[str, Any]


def read_records(text: str, name: str = "") -> list[UploadedRecord]:
    """Read a file. `name`: of the file; a `.csv` is read as CSV. BadRequest names the line that is wrong."""
    if not text.strip():
        raise BadRequest("There is nothing to upload: choose a file or paste its text.")
    if name.lower().endswith(".csv"):
        found = _read_csv(text)
    elif text.lstrip().startswith("["):
        found = _read_array(text)
    elif (whole := _decode(text)) is not None:
        found = iter((UploadedRecord("line 1", _check_object(whole, "line 1")),))
    else:
        found = _read_lines(text)
    records: list[UploadedRecord] = []
    for record in found:
        if len(records) == MAX_RECORDS:
            raise BadRequest(
                f"A file has at most {MAX_RECORDS:,} records here. `mayfly data import` takes larger ones."
            )
        records.append(record)
    return records


def _read_array(text: str) -> Iterator[UploadedRecord]:
    try:
        values = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise BadRequest(f"The file is not JSON: {error}.") from None
    for number, value in enumerate(values, 1):
        place = f"record {number}"
        yield UploadedRecord(place, _check_object(value, place))


def _read_lines(text: str) -> Iterator[UploadedRecord]:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        place = f"line {number}"
        try:
            value = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
            raise BadRequest(f"{place.capitalize()} is not JSON: {error}.") from None
        yield UploadedRecord(place, _check_object(value, place))


def _read_csv(text: str) -> Iterator[UploadedRecord]:
    # The first line names the properties. An empty cell is a missing property.
    lines = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        names = next(lines)
        if not all(names) or len(set(names)) != len(names):
            raise BadRequest("The first line of a CSV file names each property once.")
        for cells in lines:
            place = f"line {lines.line_num}"
            if len(cells) > len(names):
                raise BadRequest(
                    f"{place.capitalize()} has {len(cells)} cells, and the first line has {len(names)} names."
                )
            values = {name: _read_cell(cell) for name, cell in zip(names, cells, strict=False) if cell != ""}
            if values:
                yield UploadedRecord(place, values)
    except csv.Error as error:
        raise BadRequest(f"Line {lines.line_num} is not CSV: {error}.") from None


def _read_cell(cell: str) -> Any:
    """Return a cell's JSON value: numbers, true, false, null, arrays and objects; any other cell is text."""
    if cell[0] not in "-0123456789tfn[{":
        return cell
    value = _decode(cell)
    return cell if value is None and cell != "null" else value


def _decode(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None


def _check_object(value: Any, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadRequest(f"{place.capitalize()} is no object.")
    return value
