"""`mayfly reset`: empties the store."""

from __future__ import annotations

import click

from mayflydb.cli.admin import admin_client, ask_to_confirm
from mayflydb.cli.output import output_option, show


@click.command()
@click.argument("target", required=False)
@click.option("--keep-clock", is_flag=True, help="Leave a virtual clock where it is.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@output_option
@click.pass_context
def reset(ctx: click.Context, target: str | None, keep_clock: bool, yes: bool) -> None:
    """Delete everything, or everything in TARGET (cosmos:database, ydb:/local/table). Ports, keys and connections stay."""
    ask_to_confirm(f"Delete {target or 'everything'} on {ctx.find_root().obj['url']}?", yes=yes)
    body: dict[str, object] = {"target": target} if target else {}
    show(ctx, admin_client(ctx).post("reset", body | ({"keep_clock": True} if keep_clock else {})))
