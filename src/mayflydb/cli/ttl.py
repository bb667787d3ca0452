"""`mayfly ttl`: what will expire, when and why."""

from __future__ import annotations

import click

from mayflydb.cli.admin import admin_of, checked_by, confirmed
from mayflydb.cli.output import output_option, show
from mayflydb.model.durations import parse_span
from mayflydb.model.instant import SECOND

LONGEST_TTL = 2_147_483_647


@click.group()
def ttl() -> None:
    """What expires, when and why. A TARGET is cosmos:database/container, or cosmos:database."""


def _default_ttl(ctx: click.Context, parameter: click.Parameter, value: str) -> int | None:
    """`off`: no expiry. `on`: items with a ttl of their own. A duration: the default in whole seconds."""
    if value in ("off", "on"):
        return None if value == "off" else -1
    try:
        seconds, rest = divmod(parse_span(value), SECOND)
    except ValueError as error:
        raise click.BadParameter(f"{error}; or off, or on", ctx, parameter) from error
    if rest or not 1 <= seconds <= LONGEST_TTL:
        raise click.BadParameter(f"{value!r} is not a whole number of seconds from 1 to {LONGEST_TTL}", ctx, parameter)
    return seconds


@ttl.command()
@click.argument("target")
@click.argument("default", metavar="off|on|DURATION", callback=_default_ttl)
@output_option
@click.pass_context
def preview(ctx: click.Context, target: str, default: int | None) -> None:
    """What a change of the default would do to TARGET: off, on (no default), or a number of seconds. Changes nothing."""
    show(ctx, admin_of(ctx).post("ttl/preview", {"target": target, "default_ttl": default}))


@ttl.command()
@click.argument("target", required=False)
@click.option("--horizon", default="1h", show_default=True, metavar="DURATION", callback=checked_by(parse_span))
@click.option("--buckets", default=60, show_default=True, type=click.IntRange(1, 1000), metavar="N")
@output_option
@click.pass_context
def forecast(ctx: click.Context, target: str | None, horizon: str, buckets: int) -> None:
    """How many records expire when, from now to the horizon; of TARGET, or of everything."""
    answer = admin_of(ctx).get("ttl/forecast", {"horizon": horizon, "buckets": buckets, "target": target})
    rows = [{"from": "due now", "count": answer["due_now"]}]
    rows += [bucket for bucket in answer["buckets"] if bucket["count"]]
    rows += [{"from": name, "count": answer[name]} for name in ("later", "never")]
    show(ctx, answer, rows)


@ttl.command()
@click.argument("target")
@click.argument("record_id", metavar="ID")
@click.option("--pk", metavar="VALUE", help="The partition key: JSON, or plain text.")
@output_option
@click.pass_context
def explain(ctx: click.Context, target: str, record_id: str, pk: str | None) -> None:
    """When and why one record goes, or why it does not."""
    show(ctx, admin_of(ctx).get("ttl/explain", {"target": target, "id": record_id, "pk": pk}))


@ttl.command("list")
@click.argument("target", required=False)
@output_option
@click.pass_context
def list_(ctx: click.Context, target: str | None) -> None:
    """Every container with its default, its counts, its next expiry, and whether something is paused."""
    answer = admin_of(ctx).get("ttl", {"target": target} if target else {})
    show(ctx, answer, answer["targets"])


@ttl.command()
@click.argument("target", required=False)
@output_option
@click.pass_context
def pause(ctx: click.Context, target: str | None) -> None:
    """Purge nothing any more, in TARGET or everywhere. What expires is hidden as ever; `resume` lets it go."""
    answer = admin_of(ctx).post("ttl/pause", {"target": target} if target else {})
    show(ctx, answer, answer["targets"])


@ttl.command()
@click.argument("target", required=False)
@click.option(
    "--notice", metavar="DURATION", callback=checked_by(parse_span), help="Nobody dies before so much time has passed."
)
@click.option("--dry-run", is_flag=True, help="Only show what would follow.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@output_option
@click.pass_context
def resume(ctx: click.Context, target: str | None, notice: str | None, dry_run: bool, yes: bool) -> None:
    """Let expiry and purging go on where they are paused, in TARGET or everywhere, after showing what follows."""
    body: dict[str, object] = {"target": target} if target else {}
    if notice:
        body["notice"] = notice
    admin = admin_of(ctx)
    ahead = admin.post("ttl/resume", body | {"dry_run": True})
    if not dry_run:
        count = sum(row["purge_now"] for row in ahead["targets"])
        if count:
            names = ", ".join(f"{row['target']} ({row['purge_now']})" for row in ahead["targets"] if row["purge_now"])
            confirmed(f"Remove {count} expired records for ever, of {names}?", yes=yes)
        ahead = admin.post("ttl/resume", body)
    show(ctx, ahead, ahead["targets"])


@ttl.command()
@click.argument("target", required=False)
@output_option
@click.pass_context
def purge(ctx: click.Context, target: str | None) -> None:
    """Purge what is due now, whatever the schedule. Only records that have expired are touched."""
    show(ctx, admin_of(ctx).post("purge", {"target": target} if target else {}))
