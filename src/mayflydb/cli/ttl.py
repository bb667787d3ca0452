"""`mayfly ttl`: what will expire, when and why."""

from __future__ import annotations

import click

from mayflydb.cli.admin import admin_of, checked_by
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


@ttl.command()
@click.argument("target", required=False)
@output_option
@click.pass_context
def purge(ctx: click.Context, target: str | None) -> None:
    """Purge what is due now, whatever the schedule. Only records that have expired are touched."""
    show(ctx, admin_of(ctx).post("purge", {"target": target} if target else {}))
