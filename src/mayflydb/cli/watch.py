"""`mayfly watch`: shows what happens on the server as it happens."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import click
import msgspec

from mayflydb.cli.admin import NOT_READY, CommandFailed, admin_client
from mayflydb.cli.output import output_option, resolve_form
from mayflydb.cli.tables import cell

SILENCE_SECONDS: Final = 60.0
"""Seconds without a word after which the server is given up. It writes a comment every 15 seconds."""

TYPES: Final = ("expired", "purged", "write", "clock", "reset")


class Event(NamedTuple):
    """An event of the stream. `number`: its place in the log of expiry events, if it has one."""

    type: str
    data: Mapping[str, Any]
    number: str | None


def _check_types(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    unknown = [] if value is None else [name for name in value.split(",") if name not in TYPES]
    if unknown:
        raise click.BadParameter(f"{unknown[0]!r} is none of {', '.join(TYPES)}", ctx, parameter)
    return value


@click.command()
@click.option(
    "--types",
    callback=_check_types,
    metavar="TYPES",
    help=f"Some of {','.join(TYPES)}, separated by commas. Default: all but write.",
)
@click.option("--target", metavar="TARGET", help="Events of this container or database, and no others.")
@click.option(
    "--after",
    type=click.IntRange(min=0),
    metavar="NUMBER",
    help="Begin behind the expiry event of this number; 0: with the oldest that is kept. Default: begin now.",
)
@output_option
@click.pass_context
def watch(ctx: click.Context, types: str | None, target: str | None, after: int | None) -> None:
    """Show expiries, purges and moves of the clock as they happen, until Ctrl+C.

    Lines for people on a terminal; JSON Lines otherwise, each with its type and, for expiries, the number (seq) behind which
    --after goes on.
    """
    people = resolve_form(ctx.find_root().obj["output"]) in ("table", "wide")
    query = {"types": types, "target": target, "after": after}
    last = None
    try:
        for event in read_events(admin_client(ctx, SILENCE_SECONDS, silent=True).stream("events", query)):
            last = event.number or last
            click.echo(describe(event) if people else _encode(event))
    except KeyboardInterrupt:
        return
    hint = "" if last is None else f"mayfly watch --after {last} goes on from here"
    raise CommandFailed("the server has ended the stream", hint=hint, exit_code=NOT_READY)


def read_events(lines: Iterable[str]) -> Iterator[Event]:
    """Yield the events of a stream of server-sent events."""
    fields: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        if name:
            fields[name] = value.removeprefix(" ")
        elif not line:
            if "data" in fields:
                yield Event(fields["event"], json.loads(fields["data"]), fields.get("id"))
            fields = {}


def _encode(event: Event) -> str:
    return msgspec.json.encode({"type": event.type, **event.data}).decode()


def describe(event: Event) -> str:
    """Return an event as a line: time, type, target, and what happened."""
    data = event.data
    match event.type:
        case "expired" | "write":
            id = data["id"]
            shown = cell(id if data["pk"] in (None, id) else [id, data["pk"]])
            what = f"{shown}  {data['text']}"
        case "purged":
            what = f"{data['purged']:,} records, {data['lag_seconds']:g} s after the oldest was due"
        case "lost":
            what = f"events {data['after'] + 1} to {data['first'] - 1} are no longer kept"
        case _:
            what = f"{data['action']}  ({data['mode']}{', frozen' if data['frozen'] else ''})"
    target = cell(data["target"]) + "  " if "target" in data else ""
    return f"{data['at']}  {event.type:<7}  {target}{what}"
