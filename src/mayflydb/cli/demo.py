"""`mayfly demo`: the vendors' own clients against a clock that is moved."""

from __future__ import annotations

from importlib.util import find_spec

import click

from mayflydb.cli.admin import CommandFailed
from mayflydb.cli.output import output_option, resolve_form

CLIENT_PACKAGES = ("azure.cosmos", "aiohttp", "ydb")


@click.command()
@click.option("--keep", is_flag=True, help="Leave the server running afterwards.")
@output_option
@click.pass_context
def demo(ctx: click.Context, keep: bool) -> None:
    """Write records through the official clients, move the clock, and read everything back after each step."""
    if not all(_is_installed(name) for name in CLIENT_PACKAGES):
        raise CommandFailed("the demo needs the vendors' clients", hint='pip install "mayflydb[demo]"')
    from mayflydb.cli.demo_steps import run

    output = ctx.find_root().obj["output"]
    # The table is the point of the demo, so that it is printed to a pipe as well.
    ctx.exit(run(output="table" if output == "auto" else resolve_form(output), keep=keep))


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False
