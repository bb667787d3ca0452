"""`ttl`: the removal of rows, seen and moved. YDB has no such commands; they ask the admin API that `--url` names."""

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
    """The removal of rows, seen and moved. (YDB has no such commands.)"""
    client_context(ctx).asks_admin = True


def _target(ctx: click.Context, path: str) -> str:
    return "ydb:" + quote(client_context(ctx).path(path), safe="/!$&'()*+,;=@")


def _fetch_status(ctx: click.Context, path: str) -> dict[str, Any]:
    rows = admin_client(ctx).get("ttl", {"target": _target(ctx, path)})["targets"]
    found = {name: value for name, value in rows[0].items() if name not in _HIDDEN_FIELDS}
    return found | {"why": _explain_status(found)}


def _explain_status(row: Mapping[str, Any]) -> str:
    """Why rows that are due are there, or are not."""
    if not row.get("indexes"):
        return "the table has no TTL: rows stay"
    if row["paused"]:
        return "paused: nothing is removed until it is resumed, or a run is asked for"
    if not row["due"]:
        return "nothing is due"
    return f"what is due stays until the next run, at {row['next_run']}"


@ttl.command()
@click.option("--wait", is_flag=True, help="Return when it has ended, as the command does without it too.")
@output_option
@_path
@click.pass_context
def run(ctx: click.Context, path: str, wait: bool) -> None:
    """Remove what is due now, whatever the run interval and pauses say. The next run is an interval from now."""
    admin_client(ctx).post("purge", {"target": _target(ctx, path)})
    show(ctx, _fetch_status(ctx, path))


@ttl.command()
@output_option
@_path
@click.pass_context
def status(ctx: click.Context, path: str) -> None:
    """Last run, next run, what is due, and whether it is paused."""
    show(ctx, _fetch_status(ctx, path))


@ttl.command()
@output_option
@_path
@click.pass_context
def pause(ctx: click.Context, path: str) -> None:
    """Remove nothing any more, but by `run`."""
    admin_client(ctx).post("ttl/pause", {"target": _target(ctx, path)})
    show(ctx, _fetch_status(ctx, path))


@ttl.command()
@output_option
@_path
@click.pass_context
def resume(ctx: click.Context, path: str) -> None:
    """Let removal go on."""
    admin_client(ctx).post("ttl/resume", {"target": _target(ctx, path)})
    show(ctx, _fetch_status(ctx, path))
