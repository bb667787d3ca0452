"""`mayfly ttl advise`: a table of what the accesses to containers suggest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from mayflydb.cli.admin import admin_client
from mayflydb.cli.estimates import count_in_words
from mayflydb.cli.output import output_option, resolve_form, show
from mayflydb.model.durations import format_span
from mayflydb.model.instant import SECOND


@click.command()
@click.argument("target", required=False)
@output_option
@click.pass_context
def advise(ctx: click.Context, target: str | None) -> None:
    """Propose a ttl for TARGET, or for every container, by the ages at which records are read and updated. Changes nothing.

    Accesses are sampled (`mayfly serve --sample-accesses`). -o wide shows more, -o json also what other lives would have cost.
    """
    answer = admin_client(ctx).get("ttl/advise", {"target": target} if target else {})
    rows = [_row(container, advice) for container in answer["targets"] for advice in container["advice"]]
    brief = [_brief_row(container, advice) for container in answer["targets"] for advice in container["advice"]]
    show(ctx, answer, rows, brief)
    if resolve_form(ctx.find_root().obj["output"]) in ("table", "wide"):
        _print_notes(answer)


def _print_notes(answer: Mapping[str, Any]) -> None:
    if not answer["sampling"]:
        click.echo("Note: accesses are not observed; mayfly serve --sample-accesses 128", err=True)
    for container in answer["targets"]:
        if (growth := container["only_grows"]) is not None:
            records = growth["records_per_day"]
            gain = f"{records} {'record' if records == 1 else 'records'} and {growth['bytes_per_day']} bytes a day"
            click.echo(f"{container['target']} has no ttl and only grows: {gain}")
        for advice in container["advice"]:
            if advice["command"] is not None:
                click.echo(f"{advice['text']}\n  {advice['command']}")


def _row(container: Mapping[str, Any], advice: Mapping[str, Any]) -> dict[str, Any]:
    """Build a row with all that one piece of advice says."""
    growth, frees = container["only_grows"], advice["frees"]
    cost = next((each for each in advice["costs"] if each["seconds"] == advice["proposed"]), None)
    return {
        "target": container["target"],
        "since": container["since"],
        "counts_from": advice["field"] or advice["counts_from"],
        "present": advice["present"],
        **{
            f"{kind}_{name}": advice[kind][name]
            for kind in ("reads", "updates")
            for name in ("sampled", "p99", "longest")
        },
        "verdict": advice["verdict"],
        "proposed": advice["proposed"],
        "late_share": None if cost is None else cost["share"],
        **{f"frees_{name}": None if frees is None else frees[name] for name in ("records", "bytes", "exact")},
        "grows_records_a_day": None if growth is None else growth["records_per_day"],
        "text": advice["text"],
    }


def _brief_row(container: Mapping[str, Any], advice: Mapping[str, Any]) -> dict[str, Any]:
    """Build a row that fits a terminal."""
    frees = advice["frees"]
    longest = [advice[kind]["longest"] for kind in ("reads", "updates") if advice[kind]["longest"] is not None]
    return {
        "target": container["target"],
        "from": advice["field"] or "write",
        "ttl": "off" if advice["present"] is None else _life(advice["present"]),
        "sampled": advice["reads"]["sampled"] + advice["updates"]["sampled"],
        "longest": _life(max(longest)) if longest else None,
        "advice": advice["verdict"] if advice["proposed"] is None else _life(advice["proposed"]),
        "frees": None if frees is None else count_in_words(frees["records"], frees["exact"]),
    }


def _life(seconds: float) -> str:
    return format_span(int(seconds) * SECOND)
