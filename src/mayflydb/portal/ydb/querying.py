"""The query page of a database: YQL with several result sets, statistics and the plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from mayflydb.admin.wires import Ydb
from mayflydb.model.errors import BadQuery, TooLarge
from mayflydb.portal import words
from mayflydb.portal.querying import (
    EXPORT_BYTES,
    EXPORT_ROWS,
    SECONDS,
    QueryAnswer,
    QueryNote,
    QueryOption,
    QueryPlace,
    QueryRequest,
)
from mayflydb.portal.results import format_json
from mayflydb.query.yql.answers import Answer, AnswerLimits, Result
from mayflydb.query.yql.faults import Fault, Issue, Position
from mayflydb.query.yql.key_paging import quote_name

_OPTIONS: Final = (QueryOption("mode", "Run", (("execute", "Execute"), ("explain", "Explain only")), "execute"),)


def place_of(address: str, database: str, table: str) -> QueryPlace:
    """Return the page of a table, or of a whole database where `table` is empty."""
    start = f"SELECT * FROM {quote_name(table)} LIMIT 100;" if table else "SELECT 1;"  # noqa: S608
    crumbs = ((database, ""), (table, f"{address}/rows")) if table else ((database, ""),)
    named = quote_name(table or "table")
    examples = (
        ("Number of rows", f"SELECT COUNT(*) FROM {named};"),  # noqa: S608
        ("Runs of the TTL", "SELECT Path, LastTtlRunTime, LastTtlRowsErased FROM `.sys/partition_stats`;"),
        ("Definition", f"SHOW CREATE TABLE {named};"),
    )
    return QueryPlace(f"{address}/query", crumbs, "yql", start, "YQL", _OPTIONS, examples)


class YqlRunner:
    """Runs the page's queries in one database."""

    def __init__(self, ydb: Ydb, database: str) -> None:
        self._ydb = ydb
        self._database = database

    async def run(self, request: QueryRequest) -> QueryAnswer:
        """See `QueryRunner.run`. The first result set is the page's table; further ones are notes."""
        try:
            if request.exports:
                return await self._export(request.text)
            mode = "explain" if request.options.get("mode") == "explain" else "execute"
            limits = AnswerLimits(seconds=SECONDS, rows=request.limit)
            answer = await self._ydb(self._database, request.text, mode=mode, stats=True, limits=limits)  # type: ignore[arg-type]
        except Fault as error:
            raise describe_fault(error, request.text) from None
        first, *others = answer.results or (Result((), []),)
        notes = [QueryNote(_title(number, each), format_json(rows_of(each))) for number, each in enumerate(others, 2)]
        if answer.plan is not None:
            notes.append(QueryNote("Plan", msgspec.json.format(answer.plan, indent=2)))
        notes += [QueryNote("Warnings", issue.message) for issue in answer.warnings]
        names = [name for name, _ in first.columns]
        return QueryAnswer(
            rows_of(first), _stats(answer), columns=names, notes=notes, done=_describe_done(answer, mode)
        )

    async def _export(self, text: str) -> QueryAnswer:
        if (await self._ydb(self._database, text, mode="explain")).changes:
            raise BadQuery("A query that changes data or definitions is not run again for a file.")
        limits = AnswerLimits(rows=EXPORT_ROWS, bytes=EXPORT_BYTES)
        answer = await self._ydb(self._database, text, limits=limits)
        first = answer.results[0] if answer.results else Result((), [])
        if first.truncated:
            raise TooLarge(f"The result has more than {EXPORT_ROWS:,} rows or {EXPORT_BYTES // 2**20} MiB.")
        return QueryAnswer(rows_of(first), columns=[name for name, _ in first.columns])


def rows_of(result: Result) -> list[dict[str, Any]]:
    """Return rows as objects."""
    names = [name for name, _ in result.columns]
    return [dict(zip(names, row, strict=True)) for row in result.rows]


def describe_fault(error: Fault, text: str = "") -> BadQuery:
    """Return a refusal with the messages of its causes, and the place of the first in the text."""
    leaves = [_leaf(issue) for issue in error.issues]
    code = " ".join(filter(None, (error.status, str(leaves[0].code or ""))))
    message = "; ".join(dict.fromkeys(leaf.message for leaf in leaves))
    start = _offset(text, leaves[0].position)
    if start is None:
        return BadQuery(message, code=code)
    return BadQuery(message, code=code, start=start, end=min(start + 1, len(text)))


def _leaf(issue: Issue) -> Issue:
    while issue.issues:
        issue = issue.issues[0]
    return issue


def _offset(text: str, position: Position | None) -> int | None:
    """Return the character at a position, whose column counts bytes."""
    lines = text.split("\n")
    if position is None or not 1 <= position.row <= len(lines):
        return None
    before = sum(len(line) + 1 for line in lines[: position.row - 1])
    within = lines[position.row - 1].encode("utf-8", "replace")[: position.column - 1]
    return before + len(within.decode("utf-8", "ignore"))


def _describe_done(answer: Answer, mode: str) -> str:
    """Say what a text that returns no result set has done; empty where it returns one."""
    if answer.results:
        return ""
    if mode == "explain":
        return "Nothing was executed."
    tables = () if answer.stats is None else answer.stats.tables
    changes = [f"{each.path}: {each.updates:,} written, {each.deletes:,} deleted." for each in tables]
    return " ".join(["Done.", *changes, "The statements return no rows."])


def _title(number: int, result: Result) -> str:
    return f"Result {number} ({len(result.rows)}{' of more' if result.truncated else ''} rows)"


def _stats(answer: Answer) -> Sequence[tuple[str, str]]:
    lines = []
    for number, each in enumerate(answer.results, 1):
        name = "Showing Results" if number == 1 else f"Showing Results {number}"
        lines.append((name, f"{words.number(len(each.rows))}{', and there are more' if each.truncated else ''}"))
        lines.append((f"Types {number}", ", ".join(f"{name} {type}" for name, type in each.columns)))
    if answer.stats is not None:
        lines.append(("Total time", f"{answer.stats.total_us / 1000:.2f} ms"))
        lines.append(("Planning time", f"{answer.stats.planning_us / 1000:.2f} ms"))
        lines.append(("Plan from cache", "yes" if answer.stats.cached else "no"))
        lines += [
            (each.path, f"{each.reads} read, {each.updates} written, {each.deletes} deleted")
            for each in answer.stats.tables
        ]
    return lines
