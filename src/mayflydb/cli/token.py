"""`mayfly token`: a link that logs a browser in to the portal."""

from __future__ import annotations

import click

from mayflydb.cli.admin import admin_client
from mayflydb.cli.output import output_option, show


@click.command()
@click.option(
    "--role",
    type=click.Choice(("admin", "read-only")),
    default="admin",
    show_default=True,
    help="The rights of the browser: all, or to look and change nothing.",
)
@output_option
@click.pass_context
def token(ctx: click.Context, role: str) -> None:
    """Print a link that logs a browser in to the portal: once, within 5 minutes."""
    client = admin_client(ctx)
    made = client.post("login-links", {"role": role})
    link = client.origin + made.pop("path")
    show(ctx, {"link": link, **made})
