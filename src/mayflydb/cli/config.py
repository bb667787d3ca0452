"""`mayfly config`: the settings and their origins."""

from __future__ import annotations

from typing import Any

import click

from mayflydb.cli.options import SettingsCommand, load_settings, setting_options
from mayflydb.cli.output import output_option, show


@click.group()
def config() -> None:
    """Show the settings, and where they come from."""


@config.command("show", cls=SettingsCommand)
@click.option("--origin", is_flag=True, help="Say where each value comes from.")
@setting_options
@output_option
@click.pass_context
def show_settings(ctx: click.Context, /, origin: bool, **given: Any) -> None:
    """Show every setting with its value, as `serve` with the same flags would have it."""
    rows = []
    for key, value, source in load_settings(ctx, given).list_values():
        rows.append({"key": key, "value": value} | ({"origin": source} if origin else {}))
    show(ctx, rows, rows)
