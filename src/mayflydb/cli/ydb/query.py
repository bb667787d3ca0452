"""`sql`, `yql` and `table query`: statements by the query, scripting and table service."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from mayflydb.cli.ydb.client import Client
from mayflydb.cli.ydb.context import client_context
from mayflydb.cli.ydb.faults import Misuse
from mayflydb.cli.ydb.parameters import ParameterInput, input_options, parameter_sets
from mayflydb.cli.ydb.plans import show_plan
from mayflydb.cli.ydb.results import Printer, format_option

C = TypeVar("C", bound=Callable[..., Any])

TABLE: Final = "Ydb.Table.V1.TableService"
QUERY: Final = "Ydb.Query.V1.QueryService"

EXPLAIN: Final = 30
EXECUTE: Final = 50

STATS_MODES: Final = {"none": 10, "basic": 20, "full": 30, "profile": 40}
"""Modes of statistics by their numbers in the query service. The other services have a tenth of each number."""

TRANSACTION_MODES: Final[dict[str, dict[str, Any]]] = {
    "serializable-rw": {"serializable_read_write": {}},
    "online-ro": {"online_read_only": {}},
    "stale-ro": {"stale_read_only": {}},
    "snapshot-ro": {"snapshot_read_only": {}},
    "snapshot-rw": {"snapshot_read_write": {}},
}
NO_TX: Final = ("notx", "no-tx")

_SCRIPT: Final = ('Text of script" ("--script", "-s")', 'Path to file with query text" ("--file", "-f")')
_QUERY: Final = ('Text of query" ("--query", "-q")', 'Path to file with query text" ("--file", "-f")')

_stats = click.option(
    "--stats", type=click.Choice(list(STATS_MODES)), default=None, help="The statistics to print.  [default: none]"
)
_file = click.option("-f", "--file", metavar="PATH", help="A file with the text; - for standard input.")


def read_text(text: str | None, file: str | None, names: tuple[str, str]) -> str:
    """Return the text itself or the text of a file. Misuse for both, or neither."""
    if text is not None and file is not None:
        raise Misuse(f'Both mutually exclusive options "{names[0]} and "{names[1]} were provided.')
    if text is not None:
        return text
    if file is None:
        raise Misuse(f'Neither "{names[0]} nor "{names[1]} were provided.')
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Misuse(f"Can't read file {file}: {error}") from error


def _parameter_input(options: dict[str, Any], file: str | None) -> ParameterInput:
    return ParameterInput(
        options["given"], options["input_file"], options["input_format"], options["input_framing"], file == "-"
    )


@click.command()
@click.option("-s", "--script", metavar="TEXT", help="The text.")
@_file
@click.option("--explain", is_flag=True, help="Print the plan, and do not run the query.")
@click.option("--explain-ast", is_flag=True, help="Print the syntax tree, and do not run the query.")
@click.option("--explain-analyze", is_flag=True, help="Run the query; print its plan instead of its results.")
@click.option("--syntax", type=click.Choice(["yql", "pg"]), default="yql", show_default=True)
@_stats
@input_options
@format_option
@click.pass_context
def sql(
    ctx: click.Context,
    /,
    script: str | None,
    file: str | None,
    explain: bool,
    explain_ast: bool,
    explain_analyze: bool,
    syntax: str,
    stats: str | None,
    form: str,
    **options: Any,
) -> None:
    """Run statements by the query service."""
    text = read_text(script, file, _SCRIPT)
    _check_explain(explain, explain_ast, explain_analyze, stats)
    client = client_context(ctx).client
    shows_plan = explain or explain_analyze
    # The syntax tree and the plan are parts of the statistics.
    request: dict[str, Any] = {
        "exec_mode": EXPLAIN if explain or explain_ast else EXECUTE,
        "query_content": {"syntax": 2 if syntax == "pg" else 1, "text": text},
        "stats_mode": STATS_MODES["full" if explain_ast or shows_plan else stats or "none"],
    }
    for parameters in parameter_sets(client, text, _parameter_input(options, file)):
        quiet = explain_ast or shows_plan
        query_stats = _run_query(client, {**request, "parameters": parameters}, None if quiet else Printer(form))
        if explain_ast:
            click.echo(f"Query AST:\n{query_stats.query_ast}")
        elif shows_plan:
            _show_plan("Execution plan:" if explain_analyze else "Query Plan:", query_stats.query_plan, form)
        else:
            _show_stats(query_stats, stats, form)


def _check_explain(explain: bool, ast: bool, analyze: bool, stats: str | None) -> None:
    modes = (
        (explain, '"Explain mode" ("--explain")'),
        (ast, '"Explain-AST mode" ("--explain-ast")'),
        (analyze, '"Explain-analyze mode" ("--explain-analyze")'),
    )
    given = [name for is_given, name in modes if is_given]
    if len(given) > 1:
        raise Misuse(f"Both mutually exclusive options {given[0]} and {given[1]} were provided.")
    if stats and given:
        mode = "explain-analyze" if analyze else "explain"
        raise Misuse(
            f'Statistics collection mode option "--stats" has no effect in {mode} mode. '
            "Relevant for execution mode only."
        )


def _run_query(client: Client, request: dict[str, Any], printer: Printer | None) -> Any:
    """Run a query, print its results, and return its statistics, if the answer has any."""
    query_stats = None
    with client.query_session() as id:
        for part in client.stream(f"{QUERY}/ExecuteQuery", session_id=id, **request):
            if printer is not None and part.HasField("result_set"):
                printer.add(part.result_set_index, part.result_set)
            if part.HasField("exec_stats"):
                query_stats = part.exec_stats
    if printer is not None:
        printer.end()
    return query_stats


def _show_plan(title: str, plan: str, form: str) -> None:
    # Other formats are for programs, which read the output as one JSON document.
    if form == "pretty":
        click.echo(title)
    show_plan(plan, form)


def _show_stats(query_stats: Any, stats: str | None, form: str) -> None:
    if query_stats is None or stats in (None, "none"):
        return
    from google.protobuf import text_format

    plan = query_stats.query_plan
    # The plan is printed as a tree below, and not once more as an escaped text.
    query_stats.query_plan = query_stats.query_ast = ""
    click.echo("\nStatistics:\n" + text_format.MessageToString(query_stats), nl=False)
    if plan:
        click.echo("\nFull statistics:")
        show_plan(plan, form)


@click.command()
@click.option("-s", "--script", metavar="TEXT", help="The text.")
@_file
@_stats
@input_options
@format_option
@click.pass_context
def yql(
    ctx: click.Context, /, script: str | None, file: str | None, stats: str | None, form: str, **options: Any
) -> None:
    """Run statements by the scripting service."""
    text = read_text(script, file, _SCRIPT)
    client = client_context(ctx).client
    for parameters in parameter_sets(client, text, _parameter_input(options, file)):
        printer, query_stats = Printer(form), None
        for part in client.stream(
            "Ydb.Scripting.V1.ScriptingService/StreamExecuteYql",
            script=text,
            parameters=parameters,
            collect_stats=_table_stats(stats),
        ):
            result = part.result
            if result.HasField("result_set"):
                printer.add(result.result_set_index, result.result_set)
            if result.HasField("query_stats"):
                query_stats = result.query_stats
        printer.end()
        _show_stats(query_stats, stats, form)


def _table_stats(stats: str | None) -> int:
    return STATS_MODES[stats or "none"] // 10


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
    type=click.Choice([*TRANSACTION_MODES, *NO_TX]),
    default="serializable-rw",
    show_default=True,
    help="The mode of the transaction; notx is for type generic alone.",
)
@_stats
@click.option("-s", "basic_stats", is_flag=True, help="The same as --stats basic.")
@input_options
@format_option
@click.pass_context
def execute(
    ctx: click.Context,
    /,
    text: str | None,
    file: str | None,
    kind: str,
    tx_mode: str,
    stats: str | None,
    basic_stats: bool,
    form: str,
    **options: Any,
) -> None:
    """Run statements."""
    text = read_text(text, file, _QUERY)
    if basic_stats and stats:
        raise Misuse('Both mutually exclusive options "stats" and "s" were provided.')
    stats = "basic" if basic_stats else stats
    if tx_mode in NO_TX and kind != "generic":
        raise Misuse(f"Transaction mode {tx_mode} is for queries of type generic alone")
    client = client_context(ctx).client
    if kind == "scheme":
        with client.table_session() as id:
            client.call(f"{TABLE}/ExecuteSchemeQuery", session_id=id, yql_text=text)
        return
    for parameters in parameter_sets(client, text, _parameter_input(options, file)):
        printer = Printer(form)
        if kind == "generic":
            query_stats = _run_generic(client, text, parameters, tx_mode, stats, printer)
        elif kind == "scan":
            query_stats = _run_scan(client, text, parameters, stats, printer)
        else:
            query_stats = _run_data(client, text, parameters, tx_mode, stats, printer)
        _show_stats(query_stats, stats, form)


query.add_command(execute, "exec")


def _transaction_control(mode: str) -> dict[str, Any]:
    return {"begin_tx": TRANSACTION_MODES[mode], "commit_tx": True}


def _run_generic(
    client: Client, text: str, values: dict[str, Any], mode: str, stats: str | None, printer: Printer
) -> Any:
    request: dict[str, Any] = {
        "exec_mode": EXECUTE,
        "query_content": {"syntax": 1, "text": text},
        "stats_mode": STATS_MODES[stats or "none"],
        "parameters": values,
    }
    # Without transaction control each query is a transaction of its own.
    if mode not in NO_TX:
        request["tx_control"] = _transaction_control(mode)
    return _run_query(client, request, printer)


def _run_data(client: Client, text: str, values: dict[str, Any], mode: str, stats: str | None, printer: Printer) -> Any:
    with client.table_session() as id:
        result = client.call(
            f"{TABLE}/ExecuteDataQuery",
            session_id=id,
            tx_control=_transaction_control(mode),
            query={"yql_text": text},
            parameters=values,
            collect_stats=_table_stats(stats),
        )
    for number, each in enumerate(result.result_sets):
        printer.add(number, each)
    printer.end()
    return result.query_stats if result.HasField("query_stats") else None


def _run_scan(client: Client, text: str, values: dict[str, Any], stats: str | None, printer: Printer) -> Any:
    query_stats = None
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
            query_stats = part.result.query_stats
    printer.end()
    return query_stats


@query.command("explain")
@click.option("-q", "--query", "text", metavar="TEXT", help="The text.")
@_file
@click.option("--ast", is_flag=True, help="The syntax tree instead.")
@click.option("--format", "form", type=click.Choice(["pretty", "json-unicode", "json-base64"]), default="pretty")
@click.pass_context
def explain_query(ctx: click.Context, text: str | None, file: str | None, ast: bool, form: str) -> None:
    """Print the plan of a query."""
    text = read_text(text, file, _QUERY)
    client = client_context(ctx).client
    with client.table_session() as id:
        result = client.call(f"{TABLE}/ExplainDataQuery", session_id=id, yql_text=text)
    if ast:
        click.echo(f"Query AST:\n{result.query_ast}")
    else:
        _show_plan("Query Plan:", result.query_plan, form)
