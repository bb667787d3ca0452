"""`mayfly lifecycle` and `mayfly guard`: settings beyond the protocols' TTL, and purges that wait for confirmation."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from mayflydb.cli.admin import CommandFailed, admin_client, ask_to_confirm, check_with
from mayflydb.cli.output import output_option, show
from mayflydb.model.durations import parse_span


@click.group()
def lifecycle() -> None:
    """Show and change what Mayfly does about expiries beyond the protocols' TTL settings."""


@lifecycle.command("show")
@click.argument("target", required=False)
@output_option
@click.pass_context
def show_(ctx: click.Context, target: str | None) -> None:
    """Show the lifecycle settings of TARGET, or of all containers. An empty cell: the server's setting holds."""
    answer = admin_client(ctx).get("lifecycle", {"target": target} if target else {})
    brief = [
        each
        | {"roll_up": each["roll_up"] and each["roll_up"]["into"]}
        | {"held_roll_up": each["held_roll_up"] and each["held_roll_up"]["reason"]}
        for each in answer["targets"]
    ]
    show(ctx, answer, answer["targets"], brief)


def _limits(ctx: click.Context, parameter: click.Parameter, value: str | None) -> object:
    """Parse the limits of a guard. None: not given."""
    if value is None or value in ("off", "server"):
        return value
    records, slash, percent = value.partition("/")
    if not (slash and records.isdecimal() and percent.removesuffix("%").isdecimal()):
        raise click.BadParameter("RECORDS/PERCENT, off or server", ctx, parameter)
    return {"records": int(records), "percent": int(percent.removesuffix("%"))}


def _cascades(ctx: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> object:
    """Parse cascades. None: not given."""
    if not value or value == ("off",):
        return [] if value else None
    pairs = [each.partition("=") for each in value]
    if not all(target and path for target, _, path in pairs):
        raise click.BadParameter("TARGET=PATH, or off alone", ctx, parameter)
    return [{"to": target, "path": path} for target, _, path in pairs]


def _roll_up(ctx: click.Context, parameter: click.Parameter, value: str | None) -> object:
    """Parse a roll-up: JSON, or `@` and the name of a file of it. None: not given."""
    if value is None or value == "off":
        return value
    try:
        text = Path(value[1:]).read_text() if value.startswith("@") else value
        return msgspec.json.decode(text)
    except OSError as error:
        raise click.BadParameter(f"{value[1:]}: {error.strerror}", ctx, parameter) from error
    except (ValueError, UnicodeDecodeError) as error:
        raise click.BadParameter(f"it is no JSON: {error}", ctx, parameter) from error


@lifecycle.command("set")
@click.argument("target")
@click.option(
    "--guard",
    metavar="RECORDS/PERCENT|off|server",
    callback=_limits,
    help="Hold a purge of more unexpected expiries than both; off: no guard; server: the server's limits.",
)
@click.option(
    "--grace",
    metavar="TIME",
    callback=check_with(parse_span),
    help="Keep expired records for so long, as in 7d: hidden, until they are purged or undeleted. 0s: purge at once.",
)
@click.option(
    "--touch",
    metavar="TIME",
    callback=check_with(parse_span),
    help="A read by key or index gives a record a new life, at most once in this time, as in 5m. 0s: only writes do.",
)
@click.option(
    "--last-image",
    metavar="TIME",
    callback=check_with(parse_span),
    help="Keep the last version of an expired record for so long, for readers of its event, as in 7d. 0s: keep none.",
)
@click.option(
    "--history",
    metavar="TIME",
    callback=check_with(parse_span),
    help="Keep every version for so long after its end, so that reads as of an earlier instant find it, as in 7d. 0s: keep none.",
)
@click.option(
    "--archive",
    metavar="NAME|off",
    help="Put records into this archive when they expire; `mayfly archives add` makes one. off: they are not archived.",
)
@click.option(
    "--cascade",
    metavar="TARGET=PATH|off",
    multiple=True,
    callback=_cascades,
    help="Records of TARGET that have a record's id at PATH leave with it, as in cosmos:shop/lines=/orderId. May be repeated.",
)
@click.option(
    "--roll-up",
    metavar="JSON|@FILE|off",
    callback=_roll_up,
    help="Aggregate expired records into another container by this roll-up, as JSON or a file of it; off: do not.",
)
@click.option(
    "--shred",
    type=click.Choice(["day", "container", "off"]),
    help="Seal records with a key for each day of writes, or one for all, which is destroyed when the last of them is purged.",
)
@output_option
@click.pass_context
def set_(ctx: click.Context, /, target: str, **given: object) -> None:
    """Change lifecycle settings of TARGET. Settings that are not named stay."""
    nulls = {"guard": "server", "archive": "off"}
    wanted = {name: None if value == nulls.get(name) else value for name, value in given.items() if value is not None}
    if not wanted:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise click.UsageError(f"an option is needed, of {options}", ctx)
    show(ctx, admin_client(ctx).post("lifecycle", {"target": target, **wanted}))


@click.group()
def guard() -> None:
    """Show and confirm purges that the guard holds: too much would expire unexpectedly."""


@guard.command("list")
@click.argument("target", required=False)
@output_option
@click.pass_context
def list_(ctx: click.Context, target: str | None) -> None:
    """List the purges that wait for confirmation. `mayfly ttl due` lists the records."""
    answer = admin_client(ctx).get("guard", {"target": target} if target else {})
    show(ctx, answer, answer["held"])


@guard.command()
@click.argument("target")
@click.option(
    "--token", metavar="TOKEN", help="The token of the purge, as `list` shows it. Default: of the present one."
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@output_option
@click.pass_context
def confirm(ctx: click.Context, target: str, token: str | None, yes: bool) -> None:
    """Confirm the purge of TARGET that waits: its due records are purged. A change of the TTL settings takes it back instead."""
    admin = admin_client(ctx)
    held = next(iter(admin.get("guard", {"target": target})["held"]), None)
    if held is None:
        raise CommandFailed(f"no purge of {target} waits for confirmation")
    ask_to_confirm(f"Purge {held['due']} of {held['records']} records of {target}? {held['text']}", yes=yes)
    show(ctx, admin.post("guard/confirm", {"target": target, "token": token or held["token"]}))
