"""`mayfly clock`: shows and moves the server's clock."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from mayflydb.announcement import StartFailed
from mayflydb.cli.admin import CommandFailed, admin_client, check_with
from mayflydb.cli.long_requests import post_with_progress, report_advance
from mayflydb.cli.options import load_settings_of, start_failure
from mayflydb.cli.output import output_option, show
from mayflydb.config.values import storage as storage_url
from mayflydb.model.durations import parse_instant, parse_span
from mayflydb.model.errors import MayflyError
from mayflydb.model.instant import SECOND, to_rfc3339

if TYPE_CHECKING:
    from mayflydb.engine.timekeeper import Verdict

_stopped = click.option(
    "--storage",
    metavar="URL",
    callback=check_with(storage_url),
    help="Decide for this store, which no server serves now; its next server goes on from there.",
)

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
    show(ctx, post_with_progress(ctx, "advance", "clock/advance", step | {"sweep": sweep}, report_advance))


@clock.command("next")
@sweep_option
@output_option
@click.pass_context
def to_next(ctx: click.Context, sweep: str) -> None:
    """Advance to the next expiry."""
    show(
        ctx, post_with_progress(ctx, "advance", "clock/advance", {"to": "next-expiry", "sweep": sweep}, report_advance)
    )


@clock.command("set")
@click.argument("time", callback=check_with(parse_instant))
@click.option("--force", is_flag=True, help="Go back although the store holds something newer.")
@output_option
@click.pass_context
def set_clock(ctx: click.Context, time: str, force: bool) -> None:
    """Move to TIME (RFC 3339 or Unix seconds). Forward it works like advance."""
    body: dict[str, object] = {"to": to_rfc3339(parse_instant(time))}
    body |= {"force": True} if force else {}
    show(ctx, post_with_progress(ctx, "set", "clock/set", body, report_advance))


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


@clock.command()
@_stopped
@output_option
@click.pass_context
def accept(ctx: click.Context, storage: str | None) -> None:
    """After a jump of the host's clock: take the LATER of the two times as right.

    `clock show`, or the refusal of a start, names both times. After a jump forward Mayfly goes on from the host's time. After a
    step back it runs ahead of the host's clock until that is set right.
    """
    _settle(ctx, "accept", storage)


@clock.command()
@_stopped
@output_option
@click.pass_context
def reject(ctx: click.Context, storage: str | None) -> None:
    """After a jump of the host's clock: take the EARLIER of the two times as right.

    After a jump forward Mayfly runs behind the host's clock until that is set right, and what the jump hid is back. After a step
    back it goes back to the host's time: this alone ever turns Mayfly's time back.
    """
    _settle(ctx, "reject", storage)


def _settle(ctx: click.Context, verdict: Verdict, storage: str | None) -> None:
    if storage is None:
        show(ctx, admin_client(ctx).post(f"clock/{verdict}", {}))
        return
    from mayflydb.serving.clocks import settle_store

    settings = load_settings_of(ctx, storage).settings
    try:
        jump, time = asyncio.run(settle_store(settings, verdict))
    except StartFailed as failed:
        raise start_failure(failed) from failed
    except MayflyError as error:
        raise CommandFailed(str(error)) from error
    show(ctx, {"host": to_rfc3339(jump.host), "mayfly": to_rfc3339(jump.time), "goes_on_from": to_rfc3339(time)})
