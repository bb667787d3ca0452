"""`scheme permissions`: permissions, which are stored and described, and never checked."""

from __future__ import annotations

from typing import Any, Final

import click

from mayflydb.cli.ydb import describing
from mayflydb.cli.ydb.boxes import print_text
from mayflydb.cli.ydb.context import client_context

SERVICE: Final = "Ydb.Scheme.V1.SchemeService"

_names = click.option(
    "-p", "--permission", "names", multiple=True, required=True, metavar="NAME", help="A permission; may be repeated."
)
_path = click.argument("path")
_subject = click.argument("subject")


@click.group()
def permissions() -> None:
    """Owners and permissions of entries."""


def _modify(ctx: click.Context, path: str, *actions: dict[str, Any], clears: bool = False) -> None:
    context = client_context(ctx)
    context.client.call(
        f"{SERVICE}/ModifyPermissions", path=context.path(path), actions=actions, clear_permissions=clears
    )


@permissions.command()
@_path
@click.argument("owner")
@click.pass_context
def chown(ctx: click.Context, path: str, owner: str) -> None:
    """Change the owner."""
    _modify(ctx, path, {"change_owner": owner})


@permissions.command()
@_path
@click.pass_context
def clear(ctx: click.Context, path: str) -> None:
    """Remove all permissions."""
    _modify(ctx, path, clears=True)


@permissions.command()
@_names
@_path
@_subject
@click.pass_context
def grant(ctx: click.Context, path: str, subject: str, names: tuple[str, ...]) -> None:
    """Grant permissions."""
    _modify(ctx, path, {"grant": {"subject": subject, "permission_names": names}})


@permissions.command()
@_names
@_path
@_subject
@click.pass_context
def revoke(ctx: click.Context, path: str, subject: str, names: tuple[str, ...]) -> None:
    """Revoke permissions."""
    _modify(ctx, path, {"revoke": {"subject": subject, "permission_names": names}})


@permissions.command("set")
@_names
@_path
@_subject
@click.pass_context
def set_(ctx: click.Context, path: str, subject: str, names: tuple[str, ...]) -> None:
    """Replace the permissions of a subject."""
    _modify(ctx, path, {"set": {"subject": subject, "permission_names": names}})


@permissions.command("list")
@_path
@click.pass_context
def list_(ctx: click.Context, path: str) -> None:
    """Print owner and permissions."""
    context = client_context(ctx)
    entry = context.client.call(f"{SERVICE}/DescribePath", path=context.path(path)).self
    print_text("\n" + describing.permissions_text(entry))
