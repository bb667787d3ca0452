"""`mayfly undelete`: expired records that are still stored come back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from mayflydb.cli.admin import AdminClient, CommandFailed, admin_client, check_with
from mayflydb.cli.output import output_option, show
from mayflydb.cli.progress import ProgressLine
from mayflydb.model.durations import parse_instant, parse_span


@click.command()
@click.argument("target")
@click.option("--id", metavar="ID", help="Only this record; of YDB the key, several columns as a JSON list.")
@click.option("--pk", metavar="KEY", help="Cosmos DB: the partition key of the record.")
@click.option(
    "--cause",
    "causes",
    multiple=True,
    type=click.Choice(["default", "item", "index", "column"]),
    help="Only records that expired by this cause. May be given several times.",
)
@click.option(
    "--from", "since", metavar="TIME", callback=check_with(parse_instant), help="Only deadlines after this time."
)
@click.option("--to", metavar="TIME", callback=check_with(parse_instant), help="Only deadlines up to this time.")
@click.option(
    "--life",
    metavar="TIME",
    callback=check_with(parse_span),
    help="The time that records which expire by a date have from now on, as in 7d. Default: the span of their TTL.",
)
@output_option
@click.pass_context
def undelete(ctx: click.Context, /, target: str, **options: Any) -> None:
    """Bring back the expired records of TARGET, or of each container of a database, that are not purged yet.

    They keep their content and get a new life. `mayfly lifecycle set TARGET --grace 7d` has expired records kept for a week, and
    `mayfly ttl due TARGET` lists them.
    """
    admin = admin_client(ctx)
    wanted = {"from" if name == "since" else name: value for name, value in options.items() if value}
    containers = [each["target"] for each in admin.get("lifecycle", {"target": target})["targets"]]
    if "id" in wanted and containers != [target]:
        raise CommandFailed(f"{target} is no container", hint="one record is undeleted in one container")
    rows = [_undelete(admin, {"target": each, **wanted}) for each in containers]
    show(ctx, rows[0] if containers == [target] else {"targets": rows}, rows)


def _undelete(admin: AdminClient, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Undelete in one container, and wait for the end."""
    with ProgressLine(f"undeleting {wanted['target']}") as line:
        answer: dict[str, Any] = admin.post("undelete", wanted)
        while not answer["done"]:
            line.update(answer["undeleted"])
            # The answer comes after a second, or at the end.
            answer = admin.get("undelete", {"target": wanted["target"]})
    return answer
