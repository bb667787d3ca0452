"""Printing of result sets, part by part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import click

from mayflydb.cli.ydb.boxes import print_text, render_box, terminal_width
from mayflydb.cli.ydb.json_values import to_json
from mayflydb.frontends.ydb.values import decode_type, decoder
from mayflydb.query.yql.types import Type, Value

FORMATS: Final = ("pretty", "json-unicode", "json-unicode-array", "json-base64", "json-base64-array", "csv", "tsv")

format_option = click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default="pretty",
    show_default=True,
    help="Bytes are Unicode characters or in Base64; an array holds the rows of one result set.",
)


class Printer:
    """Prints result sets in one of FORMATS."""

    def __init__(self, form: str) -> None:
        self._form = form
        self._in_base64 = "base64" in form
        self._is_array = form.endswith("-array")
        self._index: int | None = None
        self._columns: list[tuple[str, Type]] = []
        self._has_rows = False

    def add(self, index: int, result_set: Any) -> None:
        """Print a part of a result set: a ResultSet message. Only the first part of a set needs to have columns."""
        is_first = index != self._index
        if is_first:
            self.end()
            self._index = index
            self._has_rows = False
            # Later parts of a result set may leave the columns out.
            self._columns = [(column.name, decode_type(column.type)) for column in result_set.columns]
            if self._is_array:
                click.echo("[", nl=False)
        decoders = [decoder(type) for _, type in self._columns]
        rows = [[decode(item) for decode, item in zip(decoders, row.items, strict=True)] for row in result_set.rows]
        self._show(rows, is_first)
        if result_set.truncated:
            click.echo(f"Result set {index} was truncated by the server.", err=True)
        self._has_rows = self._has_rows or bool(rows)

    def end(self) -> None:
        """End the output of the current result set."""
        if self._index is not None and self._is_array:
            click.echo("]")
        self._index = None

    def _show(self, rows: Sequence[Sequence[Value]], is_first: bool) -> None:
        if self._form == "pretty":
            # Parts are printed as they come, each as a box of its own; only the first has a header.
            names = [name for name, _ in self._columns] if is_first else None
            cells = [[to_json(type, value) for (_, type), value in self._cells(row)] for row in rows]
            print_text(render_box(names, cells, lines_between=True, width=terminal_width()) if self._columns else "")
        elif self._form in ("csv", "tsv"):
            delimiter = "," if self._form == "csv" else "\t"
            for row in rows:
                click.echo(delimiter.join(to_json(type, value) for (_, type), value in self._cells(row)))
        elif self._is_array:
            for number, row in enumerate(rows):
                # A comma goes in front of each row but the first, since no part knows whether another follows.
                click.echo((",\n" if number or self._has_rows else "") + self._object(row), nl=False)
        else:
            for row in rows:
                click.echo(self._object(row))

    def _cells(self, row: Sequence[Value]) -> zip[tuple[tuple[str, Type], Value]]:
        return zip(self._columns, row, strict=True)

    def _object(self, row: Sequence[Value]) -> str:
        import json

        members = (
            f"{json.dumps(name, ensure_ascii=False)}:{to_json(type, value, self._in_base64)}"
            for (name, type), value in self._cells(row)
        )
        return "{" + ",".join(members) + "}"
