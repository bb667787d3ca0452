"""`mayfly connect`: the running server's addresses and keys, for a shell, a file or a program."""

from __future__ import annotations

from typing import Final

import click

from mayflydb.cli.admin import CommandFailed, admin_client
from mayflydb.connecting import FORMATS, access_of

_SERVICES: Final = {"mongosh": "MongoDB", "ydb": "YDB"}


@click.command()
@click.option("--format", "form", type=click.Choice(list(FORMATS)), default="env", show_default=True)
@click.pass_context
def connect(ctx: click.Context, form: str) -> None:
    """Print how clients connect, for a shell, a file or a program."""
    info = admin_client(ctx).get("info")
    if not info.get("cosmos"):
        raise CommandFailed("this server does not serve Cosmos")
    if not (text := FORMATS[form](access_of(info))):
        raise CommandFailed(f"this server does not serve {_SERVICES[form]}")
    click.echo(text)
