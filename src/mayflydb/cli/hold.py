"""`mayfly hold`: legal holds, under which nothing that matches is lost when it expires or is deleted."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import quote

import click
import msgspec

from mayflydb.cli.admin import AdminClient, CommandFailed, admin_client, ask_to_confirm
from mayflydb.cli.output import output_option, show
from mayflydb.cli.progress import ProgressLine


@click.group()
def hold() -> None:
    """Preserve records that match a condition when they expire, or are deleted or replaced, until the hold is released."""


@hold.command()
@click.argument("target")
@click.argument("name")
@click.option(
    "--where",
    metavar="FILTER",
    help="Only records that match: for Cosmos DB a condition on c, for MongoDB a filter document, for YDB a predicate.",
)
@click.option("--why", required=True, metavar="TEXT", help="The reason, for the record of holds.")
@click.option("--by", required=True, metavar="WHO", help="The person who takes responsibility for it.")
@click.option("--matter", metavar="ID", help="The matter it belongs to.")
@click.option(
    "--versions/--no-versions",
    default=True,
    help="Preserve the originals of edits, too (the default); or only those after which the record does not match.",
)
@click.option("--dry-run", is_flag=True, help="Count what matches now, and add nothing.")
@output_option
@click.pass_context
def add(ctx: click.Context, /, **options: Any) -> None:
    """Add the hold NAME to the container TARGET. From now on, what leaves the container and matches is preserved."""
    wanted = {name: value for name, value in options.items() if value is not None}
    show(ctx, admin_client(ctx).post("holds", wanted))


@hold.command("list")
@click.argument("target", required=False)
@click.option("--all", "everything", is_flag=True, help="The record of all additions and releases, oldest first.")
@output_option
@click.pass_context
def list_(ctx: click.Context, target: str | None, everything: bool) -> None:
    """List the holds on TARGET, or on all containers."""
    admin = admin_client(ctx)
    if not everything:
        answer = admin.get("holds", {"target": target} if target else {})
        show(ctx, answer, answer["holds"])
        return
    lines = [line for line in _record_lines(admin) if target in (None, line["target"])]
    show(ctx, {"lines": lines}, lines)


def _record_lines(admin: AdminClient) -> Iterator[dict[str, Any]]:
    last = 0
    while page := admin.get("hold-record", {"after": last, "limit": 1000}):
        if not page["lines"]:
            return
        yield from page["lines"]
        last = page["last"]


@hold.command("show")
@click.argument("name")
@output_option
@click.pass_context
def show_(ctx: click.Context, name: str) -> None:
    """Show the hold NAME, and how much it preserves."""
    show(ctx, admin_client(ctx).get(f"holds/{quote(name, safe='')}"))


@hold.command()
@click.argument("name")
@click.argument("file", type=click.Path(path_type=Path))
@output_option
@click.pass_context
def export(ctx: click.Context, name: str, file: Path) -> None:
    """Write what the hold NAME preserves to FILE, a new one: one JSON object a line, in the order in which it left."""
    admin = admin_client(ctx)
    admin.get(f"holds/{quote(name, safe='')}")
    try:
        # Before the first page: an existing file is never overwritten.
        with file.open("x", encoding="utf-8") as out, ProgressLine(f"exporting {name}") as progress:
            number = _write_records(admin, name, out, progress)
            out.flush()
            os.fsync(out.fileno())
    except FileExistsError:
        raise CommandFailed(f"{file} exists", hint="name another file") from None
    except OSError as error:
        raise CommandFailed(f"{file} cannot be written: {error.strerror}") from error
    show(ctx, {"name": name, "file": str(file), "records": number})


def _write_records(admin: AdminClient, name: str, out: TextIO, progress: ProgressLine) -> int:
    number, last = 0, 0
    while True:
        page = admin.get(f"holds/{quote(name, safe='')}/records", {"after": last})
        out.writelines(msgspec.json.encode(record).decode() + "\n" for record in page["records"])
        number += len(page["records"])
        progress.update(number)
        if page["last"] is None:
            return number
        last = page["last"]


@hold.command()
@click.argument("name")
@click.option("--why", required=True, metavar="TEXT", help="The reason, for the record of holds.")
@click.option("--by", required=True, metavar="WHO", help="The person who takes responsibility for it.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@output_option
@click.pass_context
def release(ctx: click.Context, name: str, why: str, by: str, yes: bool) -> None:
    """Release the hold NAME: what no other hold preserves is removed for good."""
    admin = admin_client(ctx)
    found = admin.get(f"holds/{quote(name, safe='')}")
    ask_to_confirm(
        f"Release {name} on {found['hold']['target']}, and remove the {found['preserved']} versions that it alone preserves?",
        yes=yes,
    )
    with ProgressLine(f"releasing {name}") as progress:
        answer = admin.post("hold-release", {"name": name, "why": why, "by": by})
        while not answer["done"]:
            progress.update(answer["removed"])
            # The answer comes after a second, or at the end.
            answer = admin.get("hold-release", {"name": name})
    show(ctx, answer)
