"""`mayfly webhooks`: expiry events that are posted to addresses."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import click

from mayflydb.cli.admin import CommandFailed, admin_client
from mayflydb.cli.output import output_option, show


@click.group()
def webhooks() -> None:
    """Add, show and remove webhooks: each expiry is posted to an address, signed, at least once."""


@webhooks.command("list")
@output_option
@click.pass_context
def list_(ctx: click.Context) -> None:
    """List webhooks, how far they are, and how many messages they did not accept."""
    answer = admin_client(ctx).get("webhooks")
    rows = [{**each, "dead_letters": len(each["dead_letters"])} for each in answer["webhooks"]]
    show(ctx, answer, rows)


@webhooks.command()
@click.argument("name")
@output_option
@click.pass_context
def dead(ctx: click.Context, name: str) -> None:
    """List the dead letters of the webhook NAME: messages that are not repeated any more."""
    found = [each for each in admin_client(ctx).get("webhooks")["webhooks"] if each["name"] == name]
    if not found:
        raise CommandFailed(f"there is no webhook {name}")
    show(ctx, {"dead_letters": found[0]["dead_letters"]}, found[0]["dead_letters"])


@webhooks.command()
@click.argument("name")
@click.argument("url")
@click.option("--target", metavar="TARGET", help="Only expiries of this container or database.")
@click.option(
    "--cause",
    "causes",
    multiple=True,
    type=click.Choice(["default", "item", "index", "column", "cascade"]),
    help="Only expiries by this cause. May be given several times.",
)
@output_option
@click.pass_context
def add(ctx: click.Context, /, name: str, url: str, **options: Any) -> None:
    """Post expiries from now on to URL, and print the secret by which the receiver checks signatures. It is not shown again."""
    wanted = {option: value for option, value in options.items() if value}
    show(ctx, admin_client(ctx).post("webhooks", {"name": name, "url": url, **wanted}))


@webhooks.command()
@click.argument("name")
@output_option
@click.pass_context
def remove(ctx: click.Context, name: str) -> None:
    """Remove the webhook NAME."""
    show(ctx, admin_client(ctx).call("DELETE", f"webhooks/{quote(name, safe='')}"))


@webhooks.command()
@click.argument("name")
@output_option
@click.pass_context
def test(ctx: click.Context, name: str) -> None:
    """Send a message without events to the webhook NAME now."""
    answer = admin_client(ctx).call("POST", f"webhooks/{quote(name, safe='')}/test")
    show(ctx, answer)
    if not answer["accepted"]:
        raise CommandFailed(f"the webhook {name} did not accept a message: {answer['error']}")


@webhooks.command()
@click.argument("name")
@output_option
@click.pass_context
def retry(ctx: click.Context, name: str) -> None:
    """Send the dead letters of the webhook NAME once more."""
    show(ctx, admin_client(ctx).call("POST", f"webhooks/{quote(name, safe='')}/retry"))
