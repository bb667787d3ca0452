"""`ttl`: removal runs of tables. YDB's program has no such commands; they use the admin API at `--url`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

import click

from mayflydb.cli.admin import admin_client
from mayflydb.cli.output import output_option, show
from mayflydb.cli.ydb.context import client_context

_HIDDEN_FIELDS: Final = ("default_ttl", "own_ttl", "ignored_ttl", "next_pass")

_path = click.argument("path")


@click.group()
@click.pass_context
def ttl(ctx: click.Context) -> None:
    """Removal of expired rows. (YDB's own program has no such commands.)"""
    client_context(ctx).asks_admin = True


def _target(ctx: click.Context, path: str) -> str:
    # Targets are percent-encoded; a path of YDB may have any printable character.
    return "ydb:" + quote(client_context(ctx).path(path), safe="/!$&'()*+,;=@")


def _fetch_status(ctx: click.Context, path: str) -> dict[str, Any]:
    # The target names one table, so there is one row.
    rows = admin_client(ctx).get("ttl", {"target": _target(ctx, path)})["targets"]
    found = {name: value for name, value in rows[0].items() if name not in _HIDDEN_FIELDS}
    return found | {"why": _explain_status(found)}


def _explain_status(row: Mapping[str, Any]) -> str:
    """Return the reason why due rows are still there, or why none are."""
    if not row.get("indexes"):
        return "the table has no TTL: rows stay"
    if row["paused"]:
        return "paused: nothing is removed until it is resumed, or a run is asked for"
    if not row["due"]:
        return "nothing is due"
    return f"what is due stays until the next run, at {row['next_run']}"


@ttl.command()
@click.option("--wait", is_flag=True, help="Wait for the end of the run. The command always does.")
@output_option
@_path
@click.pass_context
def run(ctx: click.Context, path: str, wait: bool) -> None:
    """Remove the rows that are due now, regardless of run interval and pause. The next run is an interval from now."""
    admin_client(ctx).post("purge", {"target": _target(ctx, path)})
    show(ctx, _fetch_status(ctx, path))


@ttl.command()
@output_option
@_path
@click.pass_context
def status(ctx: click.Context, path: str) -> None:
    """Print the last run, the next run, the number of due rows, and the pause."""
    show(ctx, _fetch_status(ctx, path))


@ttl.command()
@output_option
@_path
@click.pass_context
def pause(ctx: click.Context, path: str) -> None:
    """Pause the scheduled runs. `run` still removes rows."""
    admin_client(ctx).post("ttl/pause", {"target": _target(ctx, path)})
    show(ctx, _fetch_status(ctx, path))


@ttl.command()
@output_option
@_path
@click.pass_context
def resume(ctx: click.Context, path: str) -> None:
    """Resume the scheduled runs."""
    admin_client(ctx).post("ttl/resume", {"target": _target(ctx, path)})
    show(ctx, _fetch_status(ctx, path))
