"""`mayfly snapshot`: saves the state of a running server under a name, and returns to it."""

from __future__ import annotations

from urllib.parse import quote

import click

from mayflydb.cli.admin import admin_client, ask_to_confirm
from mayflydb.cli.output import output_option, show


@click.group()
def snapshot() -> None:
    """Save everything that a running server holds, with its clock, and return to it."""


@snapshot.command("list")
@output_option
@click.pass_context
def list_(ctx: click.Context) -> None:
    """List the snapshots."""
    found = admin_client(ctx).get("snapshots")
    show(ctx, found, found["snapshots"])


@snapshot.command()
@click.argument("name")
@output_option
@click.pass_context
def save(ctx: click.Context, name: str) -> None:
    """Save everything, and the clock, as NAME. A snapshot that has the name is replaced."""
    show(ctx, admin_client(ctx).call("PUT", f"snapshots/{quote(name, safe='')}"))


@snapshot.command()
@click.argument("name")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@output_option
@click.pass_context
def restore(ctx: click.Context, name: str, yes: bool) -> None:
    """Replace everything by the snapshot NAME. A virtual clock returns to its instant."""
    ask_to_confirm(f"Replace everything on {ctx.find_root().obj['url']} by the snapshot {name}?", yes=yes)
    show(ctx, admin_client(ctx).call("POST", f"snapshots/{quote(name, safe='')}/restore"))


@snapshot.command()
@click.argument("name")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@output_option
@click.pass_context
def delete(ctx: click.Context, name: str, yes: bool) -> None:
    """Delete the snapshot NAME."""
    ask_to_confirm(f"Delete the snapshot {name}?", yes=yes)
    show(ctx, admin_client(ctx).call("DELETE", f"snapshots/{quote(name, safe='')}"))
