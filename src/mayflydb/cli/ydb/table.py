"""`table`: tables, with their attributes, indexes, TTL and rows."""

from __future__ import annotations

import json
from typing import Any, Final

import click

from mayflydb.cli.units import ALLOWED, NUMBERS, UNITS
from mayflydb.cli.ydb.client import Client
from mayflydb.cli.ydb.context import ClientContext, client_context
from mayflydb.cli.ydb.faults import Misuse
from mayflydb.cli.ydb.indexes import index
from mayflydb.cli.ydb.json_values import from_json
from mayflydb.cli.ydb.query import query
from mayflydb.cli.ydb.results import Printer, format_option
from mayflydb.frontends.ydb.descriptors import message
from mayflydb.frontends.ydb.values import decode_type, encode_typed_value
from mayflydb.query.yql.types import TupleType

TABLE: Final = "Ydb.Table.V1.TableService"

_path = click.argument("path")


@click.group()
def table() -> None:
    """Tables, and their rows."""


table.add_command(query)
table.add_command(index)


def alter(context: ClientContext, path: str, **changes: Any) -> None:
    """Send an AlterTable request with these changes."""
    absolute = context.path(path)
    with context.client.table_session() as id:
        context.client.call(f"{TABLE}/AlterTable", session_id=id, path=absolute, **changes)


@table.command()
@_path
@click.pass_context
def drop(ctx: click.Context, path: str) -> None:
    """Drop a table."""
    context = client_context(ctx)
    absolute = context.path(path)
    with context.client.table_session() as id:
        context.client.call(f"{TABLE}/DropTable", session_id=id, path=absolute)


# --- TTL -------------------------------------------------------------------------------------------------------------


@table.group()
def ttl() -> None:
    """TTL of tables."""


def _unit(ctx: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    if value is None:
        return None
    if value.lower() not in UNITS:
        raise Misuse(f"Unknown unit: {value}\nAllowed units: {ALLOWED}")
    # The number of ValueSinceUnixEpochModeSettings.Unit.
    return NUMBERS[UNITS[value.lower()]]


@ttl.command("set")
@click.option(
    "--column", required=True, metavar="NAME", help="The column with the instant from which the time to live counts."
)
@click.option(
    "--expire-after",
    type=click.IntRange(0, (1 << 32) - 1),
    default=0,
    show_default=True,
    metavar="SECONDS",
    help="A row expires so long after the instant in its column.",
)
@click.option("--unit", callback=_unit, metavar="UNIT", help=f"The unit of a column of numbers: {ALLOWED}.")
@click.option(
    "--run-interval",
    type=click.IntRange(0, (1 << 32) - 1),
    default=0,
    metavar="SECONDS",
    help="The time between removal runs.  [default: the server's]",
)
@_path
@click.pass_context
def set_(ctx: click.Context, path: str, column: str, expire_after: int, unit: int | None, run_interval: int) -> None:
    """Set the TTL of a table. Prints nothing."""
    # 0 stands for the server's interval.
    settings: dict[str, Any] = {"run_interval_seconds": run_interval}
    if unit is None:
        settings["date_type_column"] = {"column_name": column, "expire_after_seconds": expire_after}
    else:
        settings["value_since_unix_epoch"] = {
            "column_name": column,
            "column_unit": unit,
            "expire_after_seconds": expire_after,
        }
    alter(client_context(ctx), path, set_ttl_settings=settings)


@click.command("reset")
@_path
@click.pass_context
def reset(ctx: click.Context, path: str) -> None:
    """Remove the TTL of a table. Prints nothing."""
    alter(client_context(ctx), path, drop_ttl_settings={})


ttl.add_command(reset)
ttl.add_command(reset, "drop")


# --- attributes ------------------------------------------------------------------------------------------------------


@table.group()
def attribute() -> None:
    """Attributes of tables."""


@attribute.command("add")
@click.option("--attribute", "given", required=True, multiple=True, metavar="KEY=VALUE", help="May be repeated.")
@_path
@click.pass_context
def add_attributes(ctx: click.Context, path: str, given: tuple[str, ...]) -> None:
    """Set attributes."""
    pairs = [each.partition("=") for whole in given for each in whole.split(",")]
    if any(not key or not equals for key, equals, _ in pairs):
        raise Misuse("Attributes are given as KEY=VALUE")
    alter(client_context(ctx), path, alter_attributes={key: value for key, _, value in pairs})


@attribute.command("drop")
@click.option("--attributes", required=True, metavar="KEY[,KEY...]")
@_path
@click.pass_context
def drop_attributes(ctx: click.Context, path: str, attributes: str) -> None:
    """Remove attributes."""
    alter(client_context(ctx), path, alter_attributes=dict.fromkeys(attributes.split(","), ""))


table.add_command(attribute, "attr")


# --- rows ------------------------------------------------------------------------------------------------------------


@table.command()
@click.option("--ordered", is_flag=True, help="Print the rows in the order of the key.")
@click.option("--limit", type=click.IntRange(0), default=0, metavar="N", help="The greatest number of rows.")
@click.option("--columns", metavar="NAME[,NAME...]", help="The columns to print.")
@click.option("--count-only", is_flag=True, help="Print the number of rows alone.")
@click.option("--from", "start", metavar="JSON", help="The lower bound: a list with the first values of a key.")
@click.option("--from-exclusive", is_flag=True, help="Exclude the lower bound.")
@click.option("--to", "end", metavar="JSON", help="The upper bound.")
@click.option("--to-exclusive", is_flag=True, help="Exclude the upper bound.")
@click.option(
    "--input-format",
    type=click.Choice(["json-unicode", "json-base64"]),
    default="json-unicode",
    show_default=True,
    help="The notation of bytes in keys.",
)
@format_option
@_path
@click.pass_context
def read(
    ctx: click.Context,
    path: str,
    ordered: bool,
    limit: int,
    columns: str | None,
    count_only: bool,
    start: str | None,
    from_exclusive: bool,
    end: str | None,
    to_exclusive: bool,
    input_format: str,
    form: str,
) -> None:
    """Print the rows of a table."""
    context = client_context(ctx)
    client, absolute, in_base64 = context.client, context.path(path), "base64" in input_format
    with client.table_session() as id:
        request: dict[str, Any] = {"session_id": id, "path": absolute, "ordered": ordered, "row_limit": limit}
        described = client.call(f"{TABLE}/DescribeTable", session_id=id, path=absolute)
        if count_only:
            # Counting needs no values, so the least of each row is sent.
            request["columns"] = list(described.primary_key)
        elif columns:
            request["columns"] = columns.split(",")
        within = {}
        if start is not None:
            within["greater" if from_exclusive else "greater_or_equal"] = _key(described, start, "from", in_base64)
        if end is not None:
            within["less" if to_exclusive else "less_or_equal"] = _key(described, end, "to", in_base64)
        if within:
            request["key_range"] = within
        _show_rows(client, request, None if count_only else Printer(form))


table.add_command(read, "readtable")


def _show_rows(client: Client, request: dict[str, Any], printer: Printer | None) -> None:
    count = 0
    for part in client.stream(f"{TABLE}/StreamReadTable", **request):
        count += len(part.result.result_set.rows)
        if printer is not None and part.result.HasField("result_set"):
            printer.add(0, part.result.result_set)
    if printer is None:
        click.echo(count)
    else:
        printer.end()


def _key(described: Any, text: str, option: str, in_base64: bool) -> Any:
    """Return the TypedValue of a tuple with the first values of a key, from a JSON list."""
    try:
        values = json.loads(text)
    except ValueError as error:
        raise Misuse(f'Can\'t parse string "{text}" (--{option} option) as json') from error
    if not isinstance(values, list):
        raise Misuse(
            f'json string in "--{option}" should contain array of elements representing tuple with key prefix, '
            "but it doesn't"
        )
    types = {column.name: decode_type(column.type) for column in described.columns}
    key = [types[name] for name in described.primary_key]
    if len(values) > len(key):
        raise Misuse(
            f'json string in "--{option}" option contains more elements ({len(values)}) '
            f"then columns in table primary key ({len(key)})"
        )
    tuple_type = TupleType(tuple(key[: len(values)]))
    return message("Ydb.TypedValue").FromString(
        encode_typed_value(tuple_type, from_json(tuple_type, values, in_base64))
    )
