"""`mayfly lifecycle` and `mayfly guard`: settings beyond the protocols' TTL, and purges that wait for confirmation."""

from __future__ import annotations

import click

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
    show(ctx, answer, answer["targets"])


def _limits(ctx: click.Context, parameter: click.Parameter, value: str | None) -> object:
    """Parse the limits of a guard. None: not given."""
    if value is None or value in ("off", "server"):
        return value
    records, slash, percent = value.partition("/")
    if not (slash and records.isdecimal() and percent.removesuffix("%").isdecimal()):
        raise click.BadParameter("RECORDS/PERCENT, off or server", ctx, parameter)
    return {"records": int(records), "percent": int(percent.removesuffix("%"))}


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
    "--shred",
    type=click.Choice(["day", "container", "off"]),
    help="Seal records with a key for each day of writes, or one for all, which is destroyed when the last of them is purged.",
)
@output_option
@click.pass_context
def set_(
    ctx: click.Context, target: str, guard: object, grace: str | None, touch: str | None, shred: str | None
) -> None:
    """Change lifecycle settings of TARGET. Settings that are not named stay."""
    given = {"guard": guard, "grace": grace, "touch": touch, "shred": shred}
    wanted = {name: None if value == "server" else value for name, value in given.items() if value is not None}
    if not wanted:
        raise click.UsageError("an option is needed: --guard, --grace, --touch or --shred", ctx)
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
