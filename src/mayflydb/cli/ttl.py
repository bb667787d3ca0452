"""`mayfly ttl`: shows and changes what expires, when and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

from mayflydb.cli.admin import admin_client, ask_to_confirm, check_with
from mayflydb.cli.estimates import count_in_words, with_words
from mayflydb.cli.long_requests import post_with_progress, report_purge
from mayflydb.cli.output import output_option, show
from mayflydb.cli.ttl_advice import advise
from mayflydb.cli.units import UNITS
from mayflydb.model.durations import parse_span
from mayflydb.model.instant import SECOND

MAX_TTL = 2_147_483_647


@click.group()
def ttl() -> None:
    """Show and change what expires, when and why.

    A TARGET is cosmos:database/container, mongo:database.collection, ydb:/database/table, or a database alone.
    """


NOT_GIVEN = "not given"
Wanted = int | str | None
"""Seconds, -1 for on without a default, None for off; NOT_GIVEN where the command line does not say."""


def _default_ttl(ctx: click.Context, parameter: click.Parameter, value: str | None) -> Wanted:
    """Parse the default. `off`: no expiry. `on`: only items with their own ttl expire. A duration: whole seconds."""
    if value is None:
        return NOT_GIVEN
    if value in ("off", "on"):
        return None if value == "off" else -1
    try:
        seconds, rest = divmod(parse_span(value), SECOND)
    except ValueError as error:
        raise click.BadParameter(f"{error}; or off, or on", ctx, parameter) from error
    lowest = 0 if _names_index(ctx) or _names_table(ctx.params.get("target")) else 1
    if rest or not lowest <= seconds <= MAX_TTL:
        wanted = f"a whole number of seconds from {lowest} to {MAX_TTL}"
        raise click.BadParameter(f"{value!r} is not {wanted}", ctx, parameter)
    return seconds


# The options are eager, so that their values are known when the callback of DURATION runs.
def _names_index(ctx: click.Context) -> bool:
    return any(ctx.params.get(name) is not None for name in ("field", "index"))


def _names_table(target: object) -> bool:
    return isinstance(target, str) and target.startswith("ydb:")


_field = click.option("--field", is_eager=True, metavar="NAME", help="MongoDB: the TTL index on this date field.")
_index = click.option("--index", is_eager=True, metavar="NAME", help="MongoDB: the index of this name.")
_seconds = click.option("--seconds", type=click.IntRange(0, MAX_TTL), metavar="N", help="The same as N for DURATION.")
_TABLE_OPTIONS = ("column", "expire_after", "unit", "run_interval")


def _table_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options for tables, named as in YDB's own command line."""
    count = click.IntRange(0, (1 << 32) - 1)
    for option in (
        click.option("--run-interval", type=count, metavar="SECONDS", help="YDB: how often the table is swept."),
        click.option(
            "--unit", type=click.Choice(list(UNITS)), metavar="UNIT", help="YDB: the unit of a column of numbers."
        ),
        click.option("--expire-after", type=count, metavar="SECONDS", help="YDB: the same as DURATION."),
        click.option("--column", metavar="NAME", help="YDB: the column from whose value rows expire."),
    ):
        command = option(command)
    return command


_default = click.argument("default", metavar="off|on|DURATION", required=False, callback=_default_ttl)


def _request_body(
    ctx: click.Context,
    target: str,
    default: Wanted,
    seconds: int | None,
    field: str | None,
    index: str | None,
    **table_options: object,
) -> dict[str, object]:
    if _names_table(target):
        return _table_request_body(ctx, target, default, seconds, table_options | {"field": field, "index": index})
    if misplaced := [name for name in _TABLE_OPTIONS if table_options[name] is not None]:
        raise click.UsageError(f"--{misplaced[0].replace('_', '-')} is of tables of YDB", ctx)
    if (seconds is None) == (default == NOT_GIVEN):
        raise click.UsageError("one of off, on, DURATION and --seconds is needed", ctx)
    if field is not None and index is not None:
        raise click.UsageError("--field and --index both name an index: one is enough", ctx)
    wanted = default if seconds is None else seconds
    if _names_index(ctx):
        named: dict[str, object] = {"field": field} if index is None else {"index": index}
        return {"target": target, **named, "expire_after_seconds": wanted}
    if wanted == 0:
        raise click.UsageError(f"a default is 1 to {MAX_TTL} seconds", ctx)
    return {"target": target, "default_ttl": wanted}


def _table_request_body(
    ctx: click.Context, target: str, default: Wanted, seconds: int | None, given: Mapping[str, object]
) -> dict[str, object]:
    said = [
        each for each in (seconds, given["expire_after"], None if default == NOT_GIVEN else default) if each is not None
    ]
    if default == -1:
        raise click.UsageError("a table has no lives of its rows' own: off, or a DURATION", ctx)
    if len(said) + (default is None) > 1:
        raise click.UsageError("one of off, DURATION, --seconds and --expire-after is enough", ctx)
    column = next((given[name] for name in ("column", "field", "index") if given[name] is not None), None)
    if not said and default is not None and column is None:
        raise click.UsageError("one of off, DURATION and --expire-after is needed, or --column", ctx)
    # As on YDB's own command line, a column without a duration means 0: rows expire at the instant in the column.
    wanted = said[0] if said else None if default is None else 0
    unit = given["unit"]
    named = {
        "column": column,
        "unit": None if unit is None else UNITS[str(unit)],
        "run_interval_seconds": given["run_interval"],
    }
    return {
        "target": target,
        "expire_after_seconds": wanted,
        **{key: value for key, value in named.items() if value is not None},
    }


@ttl.command()
@click.argument("target", is_eager=True)
@_default
@_seconds
@_field
@_index
@_table_options
@output_option
@click.pass_context
def preview(ctx: click.Context, /, target: str, **wanted: Any) -> None:
    """Show what a change of TARGET's default would expire: off, on (no default), or a number of seconds. Changes nothing.

    In a collection of MongoDB the default is that of the TTL index on _ts; --field or --index name another one. In a table of
    YDB it is that of the TTL column; --column names another one.
    """
    body = _request_body(ctx, target, **wanted)
    answer = admin_client(ctx).post("ttl/preview", body)
    if "default_ttl" in body and "index" in answer and answer["current"] is None and answer["proposed"] is not None:
        click.echo(
            f"Note:  there is no TTL index {answer['index']} yet; --field or --index names another one", err=True
        )
    show(ctx, answer)


@ttl.command("set")
@click.argument("target", is_eager=True)
@_default
@_seconds
@_field
@_index
@_table_options
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@output_option
@click.pass_context
def set_(ctx: click.Context, /, target: str, yes: bool, **wanted: Any) -> None:
    """Change the default of TARGET, after showing the effects: off, on (no default), or a number of seconds.

    In a collection of MongoDB this makes, changes or drops a TTL index: that on _ts, or the one that --field or --index name.
    In a table of YDB it sets the TTL column, with the flags of YDB's own command line, or turns it off.
    """
    body = _request_body(ctx, target, **wanted)
    admin = admin_client(ctx)
    ahead = admin.post("ttl/preview", body)
    kind = "column" if _names_table(target) else "index"
    of = f"{kind} {ahead['index']} of {target}" if "index" in ahead else target
    for note in ahead.get("notes", ()):
        click.echo(f"Note: {note}", err=True)
    change = f"{of} from {_format_seconds(ahead['current'])} to {_format_seconds(ahead['proposed'])}"
    words = with_words(ahead)
    hour = words["expire_within"]["1h"]
    counts = f"{words['expire_now']} of {words['records']} would expire now, {hour} within the hour"
    back = f", {words['reappear_now']} hidden ones would come back" if ahead["reappear_now"] else ""
    ask_to_confirm(f"Set {change}? {counts}{back}.", yes=yes)
    show(ctx, admin.post("ttl/set", body))


def _format_seconds(seconds: int | None, unit: str = " s") -> str:
    return "off" if seconds is None else "on (no default)" if seconds == -1 else f"{seconds}{unit}"


@ttl.command()
@click.argument("target", required=False)
@click.option("--horizon", default="1h", show_default=True, metavar="DURATION", callback=check_with(parse_span))
@click.option("--buckets", default=60, show_default=True, type=click.IntRange(1, 1000), metavar="N")
@output_option
@click.pass_context
def forecast(ctx: click.Context, target: str | None, horizon: str, buckets: int) -> None:
    """Count the records that expire in each bucket up to the horizon, in TARGET or everywhere. A bucket includes its `to`."""
    answer = admin_client(ctx).get("ttl/forecast", {"horizon": horizon, "buckets": buckets, "target": target})
    rows = [{"from": "due now", "to": answer["now"], "count": answer["due_now"]}]
    rows += [bucket for bucket in answer["buckets"] if bucket["count"]]
    rows += [{"from": f"within {horizon}", "to": answer["buckets"][-1]["to"], "count": answer["in_horizon"]}]
    rows += [{"from": name, "count": answer[name]} for name in ("later", "never")]
    words = [{**row, "count": count_in_words(row["count"], answer["exact"])} for row in rows]
    show(ctx, answer, [{**row, "exact": answer["exact"]} for row in rows], words)


@ttl.command()
@click.argument("target")
@click.argument("record_id", metavar="ID")
@click.option("--pk", metavar="VALUE", help="Cosmos: the partition key, as JSON or plain text.")
@output_option
@click.pass_context
def explain(ctx: click.Context, target: str, record_id: str, pk: str | None) -> None:
    """Show when and why one record expires, or why it does not."""
    show(ctx, admin_client(ctx).get("ttl/explain", {"target": target, "id": record_id, "pk": pk}))


@ttl.command("list")
@click.argument("target", required=False)
@output_option
@click.pass_context
def list_(ctx: click.Context, target: str | None) -> None:
    """List the containers with default, counts and next expiry, and whether expiry is paused; -o wide shows more.

    own_ttl and ignored_ttl count everything that is stored: also the hidden records, which have expired and wait for their purge.
    """
    answer = admin_client(ctx).get("ttl", {"target": target} if target else {})
    paused = any(row["paused"] for row in answer["targets"])
    show(ctx, answer, answer["targets"], [_brief_row(row, paused) for row in answer["targets"]])


def _brief_row(row: Mapping[str, Any], paused: bool) -> dict[str, Any]:
    """Build a row that fits a terminal: TTL settings, records, due records and the next expiry."""
    indexes = row.get("indexes")
    lives = [f"{index['field']} {_format_seconds(index['expire_after_seconds'], 's')}" for index in indexes or ()]
    return {
        "target": row["target"],
        "ttl": (", ".join(lives) or "off") if indexes is not None else _format_seconds(row["default_ttl"], "s"),
        "records": count_in_words(row["records"], row["exact"]),
        "due": count_in_words(row["due"], row["exact"]),
        "next_expiry": row["next_expiry"],
        **({"paused": row["paused"]} if paused else {}),
    }


@ttl.command()
@click.argument("target", required=False)
@output_option
@click.pass_context
def pause(ctx: click.Context, target: str | None) -> None:
    """Stop purging, in TARGET or everywhere. Expired records are hidden as before; `resume` purges them."""
    answer = admin_client(ctx).post("ttl/pause", {"target": target} if target else {})
    show(ctx, answer, answer["targets"])


@ttl.command()
@click.argument("target", required=False)
@click.option(
    "--notice",
    metavar="DURATION",
    callback=check_with(parse_span),
    help="No record expires before this much time has passed.",
)
@click.option("--dry-run", is_flag=True, help="Only show the effects.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@output_option
@click.pass_context
def resume(ctx: click.Context, target: str | None, notice: str | None, dry_run: bool, yes: bool) -> None:
    """Resume expiry and purging where they are paused, in TARGET or everywhere, after showing the effects."""
    body: dict[str, object] = {"target": target} if target else {}
    if notice:
        body["notice"] = notice
    admin = admin_client(ctx)
    ahead = admin.post("ttl/resume", body | {"dry_run": True})
    if not dry_run:
        count = sum(row["purge_now"] for row in ahead["targets"])
        if count:
            names = ", ".join(f"{row['target']} ({row['purge_now']})" for row in ahead["targets"] if row["purge_now"])
            ask_to_confirm(f"Remove {count} expired records for ever, of {names}?", yes=yes)
        ahead = admin.post("ttl/resume", body)
    show(ctx, ahead, ahead["targets"])


@ttl.command()
@click.argument("target", required=False)
@output_option
@click.pass_context
def purge(ctx: click.Context, target: str | None) -> None:
    """Purge what is due now, whatever the schedule. Only records that have expired are touched."""
    body = {"target": target} if target else {}
    show(ctx, post_with_progress(ctx, "purge", "purge", body, report_purge(target)))


ttl.add_command(advise)
