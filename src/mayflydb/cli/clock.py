"""`mayfly clock`: shows and moves the server's clock."""

from __future__ import annotations

import click

from mayflydb.cli.admin import admin_client, check_with
from mayflydb.cli.output import output_option, show
from mayflydb.model.durations import parse_instant, parse_span
from mayflydb.model.instant import SECOND, to_rfc3339

sweep_option = click.option(
    "--sweep",
    type=click.Choice(["scheduled", "now", "none"]),
    default="scheduled",
    show_default=True,
    help="What is purged: what the schedule purges, everything due, or nothing.",
)


@click.group()
def clock() -> None:
    """Show the server's clock, and move it where that is allowed."""


@clock.command("show")
@output_option
@click.pass_context
def show_clock(ctx: click.Context) -> None:
    """Show the time, the mode, and when the next record expires."""
    show(ctx, admin_client(ctx).get("clock"))


@clock.command()
@click.argument("duration", callback=check_with(parse_span))
@sweep_option
@output_option
@click.pass_context
def advance(ctx: click.Context, duration: str, sweep: str) -> None:
    """Advance by DURATION (90, 1h30m, PT1H) through each deadline and pass on the way; returns when that is done."""
    seconds, rest = divmod(parse_span(duration), SECOND)
    step: dict[str, object] = {"by": duration} if rest else {"seconds": seconds}
    show(ctx, admin_client(ctx).post("clock/advance", step | {"sweep": sweep}))


@clock.command("next")
@sweep_option
@output_option
@click.pass_context
def to_next(ctx: click.Context, sweep: str) -> None:
    """Advance to the next expiry."""
    show(ctx, admin_client(ctx).post("clock/advance", {"to": "next-expiry", "sweep": sweep}))


@clock.command("set")
@click.argument("time", callback=check_with(parse_instant))
@click.option("--force", is_flag=True, help="Go back although the store holds something newer.")
@output_option
@click.pass_context
def set_clock(ctx: click.Context, time: str, force: bool) -> None:
    """Move to TIME (RFC 3339 or Unix seconds). Forward it works like advance."""
    body: dict[str, object] = {"to": to_rfc3339(parse_instant(time))}
    show(ctx, admin_client(ctx).post("clock/set", body | ({"force": True} if force else {})))


@clock.command()
@output_option
@click.pass_context
def freeze(ctx: click.Context) -> None:
    """Stop the virtual clock."""
    show(ctx, admin_client(ctx).post("clock/freeze", {}))


@clock.command()
@output_option
@click.pass_context
def resume(ctx: click.Context) -> None:
    """Let the virtual clock run."""
    show(ctx, admin_client(ctx).post("clock/resume", {}))


@clock.command()
@output_option
@click.pass_context
def reset(ctx: click.Context) -> None:
    """Return to the host's time. Refused while the store holds anything newer."""
    show(ctx, admin_client(ctx).post("clock/reset", {}))
