"""`mayfly config`: what the settings are and where they come from."""

from __future__ import annotations

from typing import Any

import click

from mayflydb.cli.options import SettingsCommand, load_settings, setting_options
from mayflydb.cli.output import output_option, show


@click.group()
def config() -> None:
    """What the settings are, and where they come from."""


@config.command("show", cls=SettingsCommand)
@click.option("--origin", is_flag=True, help="Say where each value comes from.")
@setting_options
@output_option
@click.pass_context
def show_settings(ctx: click.Context, /, origin: bool, **given: Any) -> None:
    """Every setting with its value. Takes the flags of `serve` and shows what they come to."""
    rows = []
    for key, value, source in load_settings(ctx, given).shown():
        rows.append({"key": key, "value": value} | ({"origin": source} if origin else {}))
    show(ctx, rows, rows)
