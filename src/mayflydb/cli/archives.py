"""`mayfly archives`: places that get records when they expire."""

from __future__ import annotations

from typing import Any, get_args
from urllib.parse import quote

import click

from mayflydb.admin.archive_names import Format
from mayflydb.cli.admin import CommandFailed, admin_client, check_with
from mayflydb.cli.output import output_option, show
from mayflydb.model.durations import parse_span


@click.group()
def archives() -> None:
    """Add, show and remove archives: records go there when they expire, each exactly once."""


@archives.command("list")
@output_option
@click.pass_context
def list_(ctx: click.Context) -> None:
    """List archives, what they have written since the server started, and what waits for them."""
    answer = admin_client(ctx).get("archives")
    columns = ("name", "url", "format", "targets", "waiting", "stopped", "files", "records", "error")
    rows = [
        {name: " ".join(v) if isinstance(v := each[name], list) else v for name in columns}
        for each in answer["archives"]
    ]
    show(ctx, answer, rows)


@archives.command()
@click.argument("name")
@click.argument("url")
@click.option("--format", type=click.Choice(get_args(Format)), help="The form of the files. Default: jsonl.")
@click.option(
    "--every",
    metavar="TIME",
    callback=check_with(parse_span),
    help="Write a record that waits after this time at the latest. Default: 1m.",
)
@output_option
@click.pass_context
def add(ctx: click.Context, /, name: str, url: str, **options: Any) -> None:
    """Add the archive NAME, whose files are at URL: file:///DIRECTORY or s3://BUCKET/PREFIX.

    `mayfly lifecycle set TARGET --archive NAME` puts the records of a container there.
    """
    wanted = {option: value for option, value in options.items() if value}
    show(ctx, admin_client(ctx).post("archives", {"name": name, "url": url, **wanted}))


@archives.command()
@click.argument("name")
@click.option("--discard", is_flag=True, help="Let records that wait for it go without archiving them.")
@output_option
@click.pass_context
def remove(ctx: click.Context, name: str, discard: bool) -> None:
    """Remove the archive NAME. Its files stay."""
    query = "?discard=true" if discard else ""
    show(ctx, admin_client(ctx).call("DELETE", f"archives/{quote(name, safe='')}{query}"))


@archives.command()
@click.argument("name")
@output_option
@click.pass_context
def test(ctx: click.Context, name: str) -> None:
    """Write a small file, mayfly-test, into the archive NAME."""
    answer = admin_client(ctx).call("POST", f"archives/{quote(name, safe='')}/test")
    show(ctx, answer)
    if not answer["accepted"]:
        raise CommandFailed(f"the archive {name} did not accept a file: {answer['error']}")


@archives.command()
@click.argument("name", required=False)
@output_option
@click.pass_context
def flush(ctx: click.Context, name: str | None) -> None:
    """Write what waits for the archive NAME, or for all, now, after failures too."""
    answer = admin_client(ctx).post("archives/flush", {"name": name} if name else {})
    show(ctx, answer)
    if answer["error"]:
        raise CommandFailed(f"an archive did not accept a file: {answer['error']}")
