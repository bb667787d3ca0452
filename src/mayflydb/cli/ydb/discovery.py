"""`discovery`: the endpoints of the server, and the name of the user."""

from __future__ import annotations

from typing import Final

import click

from mayflydb.cli.ydb.context import client_context

SERVICE: Final = "Ydb.Discovery.V1.DiscoveryService"


@click.group()
def discovery() -> None:
    """Endpoints of the server, and the name of the user."""


@discovery.command("list")
@click.pass_context
def list_(ctx: click.Context) -> None:
    """List the endpoints of the database."""
    client = client_context(ctx).client
    endpoints = client.call(f"{SERVICE}/ListEndpoints", database=client.database).endpoints
    for each in endpoints:
        scheme = "grpcs" if each.ssl else "grpc"
        location = f" [{each.location}]" if each.location else ""
        services = "".join(f" #{name}" for name in each.service)
        click.echo(f"{scheme}://{each.address}:{each.port}{location}{services}")
    if not endpoints:
        click.echo("Endpoint list Is empty.")


@discovery.command()
@click.option("-g", "--groups", is_flag=True, help="Print the groups too.")
@click.pass_context
def whoami(ctx: click.Context, groups: bool) -> None:
    """Print the name of the user."""
    answer = client_context(ctx).client.call(f"{SERVICE}/WhoAmI", include_groups=groups)
    if not answer.user:
        return
    click.echo(f"User SID: {answer.user}")
    if groups:
        listed = "\n".join(["Group SIDs:", *answer.groups]) if answer.groups else "User has no groups"
        click.echo(f"\n{listed}")
