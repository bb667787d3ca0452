"""Prints the results of commands: a table for people, JSON for programs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

import click
import msgspec

from mayflydb.cli import FORMS
from mayflydb.cli.estimates import with_words
from mayflydb.cli.tables import Rows, draw_table


def _set_output(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.find_root().obj["output"] = value


def _set_quiet(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        ctx.find_root().obj["quiet"] = True


def output_option(command: Callable[..., None]) -> Callable[..., None]:
    """Add -o and -q, which may also stand before the command."""
    as_before = "As before the command."
    for option in (
        click.option("-q", "--quiet", is_flag=True, expose_value=False, callback=_set_quiet, help=as_before),
        click.option(
            "-o", "--output", type=click.Choice(FORMS), expose_value=False, callback=_set_output, help=as_before
        ),
    ):
        command = option(command)
    return command


def resolve_form(output: str) -> str:
    """Resolve `auto`: a table on a terminal, else JSON."""
    if output != "auto":
        return output
    return "table" if sys.stdout.isatty() else "json"


def show(ctx: click.Context, document: Any, rows: Rows | None = None, brief: Rows | None = None) -> None:
    """Print a document in the form that -o names.

    `rows`: the lines of a table or of JSON Lines; None: those of the document. `brief`: the lines of a table instead of `rows`,
    where those do not fit 80 columns. A table says "about" where a count is an estimate.
    """
    form = resolve_form(ctx.find_root().obj["output"])
    if form == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())
        return
    if form == "jsonl":
        for line in [document] if rows is None else rows:
            click.echo(msgspec.json.encode(line).decode())
        return
    lines = _rows_of(with_words(document)) if rows is None else with_words(rows)
    if form == "wide":
        _table(lines, UNBROKEN_COLUMNS)
    else:
        _table(lines if brief is None else brief)


def _rows_of(document: Any) -> Rows:
    """Return a list as it is, and an object as a row for each member, with dots in the names of nested members."""
    if isinstance(document, list):
        return document
    return [{"name": name, "value": value} for name, value in _flatten(document)]


ONE_A_LINE: Final = ("statements", "notes")
"""Members whose texts have commas in them: each has a line of its own."""


def _flatten(document: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    pairs: list[tuple[str, Any]] = []
    for name, value in document.items():
        if isinstance(value, Mapping) and value:
            pairs += _flatten(value, f"{prefix}{name}.")
        elif name in ONE_A_LINE and isinstance(value, list) and value:
            pairs += [(prefix + name if n == 0 else "", each) for n, each in enumerate(value)]
        else:
            pairs.append((prefix + name, value))
    return pairs


UNBROKEN_COLUMNS = 4096
"""Characters of a line of a wide table: enough that none is broken."""

FOLDED_COLUMNS = ("target", "ttl", "value")
"""Columns that are folded if the terminal is too narrow. The others stay whole."""


def _table(rows: Rows, width: int | None = None) -> None:
    click.echo("\n".join(draw_table(rows, FOLDED_COLUMNS, width)) if rows else "nothing")
