"""`sql`, `yql` and `table query`: statements, each service's way."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from mayflydb.cli.ydb.client import Client
from mayflydb.cli.ydb.faults import Misuse
from mayflydb.cli.ydb.parameters import parameters
from mayflydb.cli.ydb.place import place_of
from mayflydb.cli.ydb.plans import show_plan
from mayflydb.cli.ydb.results import Printer, format_option

C = TypeVar("C", bound=Callable[..., Any])

TABLE: Final = "Ydb.Table.V1.TableService"
QUERY: Final = "Ydb.Query.V1.QueryService"

EXPLAIN: Final = 30
EXECUTE: Final = 50

STATS: Final = {"none": 10, "basic": 20, "full": 30, "profile": 40}
"""By their number in the query service; the table service has a tenth of it less one, see `_table_stats`."""

MODES: Final[dict[str, dict[str, Any]]] = {
    "serializable-rw": {"serializable_read_write": {}},
    "online-ro": {"online_read_only": {}},
    "stale-ro": {"stale_read_only": {}},
    "snapshot-ro": {"snapshot_read_only": {}},
    "snapshot-rw": {"snapshot_read_write": {}},
}

_stats = click.option("--stats", type=click.Choice(list(STATS)), default="none", show_default=True, help="Print them.")
_params = click.option(
    "-p", "--param", "given", multiple=True, metavar="$NAME=JSON", help="A parameter; may be repeated."
)
_input_format = click.option(
    "--input-format",
    type=click.Choice(["json-unicode", "json-base64"]),
    default="json-unicode",
    show_default=True,
    help="How bytes stand in parameters.",
)
_file = click.option("-f", "--file", metavar="PATH", help="The text is in this file; - for standard input.")


def text_of(text: str | None, file: str | None, option: str) -> str:
    """The text itself, or a file's. Misuse for both, or neither and a terminal."""
    if text is not None and file is not None:
        raise Misuse(f'Both mutually exclusive options "{option}" and "file" were provided.')
    if text is not None:
        return text
    if file is None:
        if sys.stdin.isatty():
            raise Misuse(f'Neither "{option}" nor "file" option was provided.')
        file = "-"
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Misuse(f"Can't read file {file}: {error}") from error


@click.command()
@click.option("-s", "--script", metavar="TEXT", help="The text.")
@_file
@click.option("--explain", is_flag=True, help="Do nothing; print the plan.")
@click.option("--explain-ast", is_flag=True, help="Do nothing; print the syntax tree.")
@click.option("--explain-analyze", is_flag=True, help="Run it; print its plan instead of its results.")
@click.option("--syntax", type=click.Choice(["yql", "pg"]), default="yql", show_default=True)
@_stats
@_params
@_input_format
@format_option
@click.pass_context
def sql(
    ctx: click.Context,
    script: str | None,
    file: str | None,
    explain: bool,
    explain_ast: bool,
    explain_analyze: bool,
    syntax: str,
    stats: str,
    given: tuple[str, ...],
    input_format: str,
    form: str,
) -> None:
    """Run statements by the query service."""
    text = text_of(script, file, "script")
    client = place_of(ctx).client
    only_plan = explain or explain_ast
    request = {
        "exec_mode": EXPLAIN if only_plan else EXECUTE,
        "query_content": {"syntax": 2 if syntax == "pg" else 1, "text": text},
        "stats_mode": STATS["full" if explain_analyze or only_plan else stats],
        "parameters": parameters(client, text, given, "base64" in input_format),
    }
    quiet = only_plan or explain_analyze
    told = _run(client, request, None if quiet else Printer(form))
    if told is None:
        return
    if explain_ast:
        click.echo(f"Query AST:\n{told.query_ast}")
    elif quiet:
        click.echo("Execution plan:" if explain_analyze else "Query Plan:") if form == "pretty" else None
        show_plan(told.query_plan, form)
    elif stats != "none":
        _show_stats(told)


def _run(client: Client, request: dict[str, Any], printer: Printer | None) -> Any:
    """Its statistics, if there are any."""
    told = None
    with client.query_session() as id:
        for part in client.stream(f"{QUERY}/ExecuteQuery", session_id=id, **request):
            if printer is not None and part.HasField("result_set"):
                printer.add(part.result_set_index, part.result_set)
            if part.HasField("exec_stats"):
                told = part.exec_stats
    if printer is not None:
        printer.end()
    return told


def _show_stats(told: Any) -> None:
    from google.protobuf import text_format

    click.echo("\nStatistics:\n" + text_format.MessageToString(told), nl=False)


@click.command()
@click.option("-s", "--script", metavar="TEXT", help="The text.")
@_file
@_stats
@_params
@_input_format
@format_option
@click.pass_context
def yql(
    ctx: click.Context,
    script: str | None,
    file: str | None,
    stats: str,
    given: tuple[str, ...],
    input_format: str,
    form: str,
) -> None:
    """Run statements by the scripting service."""
    text = text_of(script, file, "script")
    client = place_of(ctx).client
    printer, told = Printer(form), None
    for part in client.stream(
        "Ydb.Scripting.V1.ScriptingService/StreamExecuteYql",
        script=text,
        parameters=parameters(client, text, given, "base64" in input_format),
        collect_stats=_table_stats(stats),
    ):
        result = part.result
        if result.HasField("result_set"):
            printer.add(result.result_set_index, result.result_set)
        if result.HasField("query_stats"):
            told = result.query_stats
    printer.end()
    if told is not None and stats != "none":
        _show_stats(told)


def _table_stats(stats: str) -> int:
    """The number of a mode in the table service: 1 for none."""
    return STATS[stats] // 10


@click.group()
def query() -> None:
    """Statements, by the table service."""


@query.command()
@click.option("-q", "--query", "text", metavar="TEXT", help="The text.")
@_file
@click.option(
    "-t",
    "--type",
    "kind",
    type=click.Choice(["data", "scheme", "scan", "generic"]),
    default="data",
    show_default=True,
    help="Reads and writes; changes of tables; a long read; or anything, by the query service.",
)
@click.option(
    "--tx-mode",
    type=click.Choice([*MODES, "no-tx"]),
    default=None,
    help="How data is read.  [default: serializable-rw]",
)
@_stats
@_params
@_input_format
@format_option
@click.pass_context
def execute(
    ctx: click.Context,
    text: str | None,
    file: str | None,
    kind: str,
    tx_mode: str | None,
    stats: str,
    given: tuple[str, ...],
    input_format: str,
    form: str,
) -> None:
    """Run statements."""
    text = text_of(text, file, "query")
    client = place_of(ctx).client
    if kind == "scheme":
        with client.table_session() as id:
            client.call(f"{TABLE}/ExecuteSchemeQuery", session_id=id, yql_text=text)
        return
    values = parameters(client, text, given, "base64" in input_format)
    printer = Printer(form)
    if kind == "generic":
        request: dict[str, Any] = {
            "exec_mode": EXECUTE,
            "query_content": {"syntax": 1, "text": text},
            "stats_mode": STATS[stats],
            "parameters": values,
        }
        if tx_mode not in (None, "no-tx"):
            request["tx_control"] = _control(str(tx_mode))
        told = _run(client, request, printer)
    elif kind == "scan":
        told = _scan(client, text, values, stats, printer)
    else:
        if tx_mode == "no-tx":
            raise Misuse("Transaction mode no-tx is for queries of type generic")
        told = _data(client, text, values, tx_mode or "serializable-rw", stats, printer)
    if told is not None and stats != "none":
        _show_stats(told)


def _control(mode: str) -> dict[str, Any]:
    return {"begin_tx": MODES[mode], "commit_tx": True}


def _data(client: Client, text: str, values: dict[str, Any], mode: str, stats: str, printer: Printer) -> Any:
    with client.table_session() as id:
        result = client.call(
            f"{TABLE}/ExecuteDataQuery",
            session_id=id,
            tx_control=_control(mode),
            query={"yql_text": text},
            parameters=values,
            collect_stats=_table_stats(stats),
        )
    for number, each in enumerate(result.result_sets):
        printer.add(number, each)
    printer.end()
    return result.query_stats if result.HasField("query_stats") else None


def _scan(client: Client, text: str, values: dict[str, Any], stats: str, printer: Printer) -> Any:
    told = None
    for part in client.stream(
        f"{TABLE}/StreamExecuteScanQuery",
        query={"yql_text": text},
        parameters=values,
        mode=3,
        collect_stats=_table_stats(stats),
    ):
        if part.result.HasField("result_set"):
            printer.add(0, part.result.result_set)
        if part.result.HasField("query_stats"):
            told = part.result.query_stats
    printer.end()
    return told


@query.command("explain")
@click.option("-q", "--query", "text", metavar="TEXT", help="The text.")
@_file
@click.option("--ast", is_flag=True, help="The syntax tree too.")
@click.option("--format", "form", type=click.Choice(["pretty", "json-unicode", "json-base64"]), default="pretty")
@click.pass_context
def explain_query(ctx: click.Context, text: str | None, file: str | None, ast: bool, form: str) -> None:
    """Print the plan of a query."""
    text = text_of(text, file, "query")
    client = place_of(ctx).client
    with client.table_session() as id:
        result = client.call(f"{TABLE}/ExplainDataQuery", session_id=id, yql_text=text)
    if ast:
        click.echo(f"Query AST:\n{result.query_ast}\n")
    if form == "pretty":
        click.echo("Query Plan:")
    show_plan(result.query_plan, form)
