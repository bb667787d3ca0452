"""Queries from within the process, such as the portal's. They pass through the front end as a client's do."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from contextlib import aclosing
from typing import Any, Final

import msgspec

from mayflydb.evaluation.statement import CHEAP_BYTES, Statement
from mayflydb.frontends.ydb.accounts import ROOT
from mayflydb.frontends.ydb.app import MAX_MESSAGE_BYTES, TIMEOUT_TEXTS, YdbApp, note_slow
from mayflydb.frontends.ydb.calls import GrpcCall
from mayflydb.frontends.ydb.errors import ANSWERED, describe_error, internal_error
from mayflydb.frontends.ydb.executor import QueryDescription, changes_scheme
from mayflydb.frontends.ydb.json_values import read_value, writer
from mayflydb.frontends.ydb.query_run import SMALL_REQUEST, Columns, QueryStats, ResultPart
from mayflydb.frontends.ydb.schemes.columns import parse_stored_type
from mayflydb.model.errors import drop_frames
from mayflydb.query.yql.answers import (
    DEFAULT_LIMITS,
    Answer,
    AnswerLimits,
    Mode,
    Parameters,
    Result,
    Stats,
    TableAccess,
)
from mayflydb.query.yql.faults import Fault, Issue, fault
from mayflydb.query.yql.schemas import Row
from mayflydb.query.yql.types import Type, Value, format_type

log = logging.getLogger(__name__)

_SLICE_ROWS: Final = 128
"""Rows that are made JSON at once: about a millisecond of work."""


class YdbCaller:
    """A caller that runs queries as the administrator `root`."""

    def __init__(self, app: YdbApp) -> None:
        self._app = app
        services = app.services
        self._calls = services.engine.quotas.get("ydb_calls", services.options.max_calls)

    async def __call__(
        self,
        database: str,
        text: str,
        parameters: Parameters | None = None,
        *,
        mode: Mode = "execute",
        stats: bool = False,
        limits: AnswerLimits = DEFAULT_LIMITS,
    ) -> Answer:
        """Run a query in a transaction of its own, and definitions one by one.

        Every error is a Fault. A query whose caller is cancelled ends at once.
        """
        services = self._app.services
        size = _measure(text, parameters)
        if not self._calls.take():
            raise fault(f"More than {self._calls.limit} calls are in work.", status="OVERLOADED")
        slow_log = services.engine.slow_log
        began = slow_log.stopwatch()
        call = GrpcCall(database, await services.engine.now(), ROOT, size=size, row_counts=[])
        try:
            async with asyncio.timeout(limits.seconds):
                return await _Query(self._app, call, text, limits).run(parameters or {}, mode, stats)
        except TimeoutError:
            raise fault(TIMEOUT_TEXTS["TIMEOUT"], status="TIMEOUT") from None
        except Fault:
            raise
        except ANSWERED as error:
            drop_frames(error)
            status, issues = describe_error(error)
            raise Fault(status, *issues) from None
        except Exception:
            log.exception("a query was not answered")
            status, issues = internal_error()
            raise Fault(status, *issues) from None
        finally:
            self._calls.give()
            if slow_log.is_slow(began):
                note_slow(slow_log, began, "caller", call)


class _Query:
    """One query of a caller."""

    def __init__(self, app: YdbApp, call: GrpcCall, text: str, limits: AnswerLimits) -> None:
        self._app = app
        self._call = call
        self._text = text
        self._limits = limits
        self._executor = app.services.executor
        self._statement = app.services.environment.begin_statement(call)
        self._statement.deadline = app.services.engine.evaluators.deadline(limits.seconds)

    async def run(self, given: Parameters, mode: Mode, stats: bool) -> Answer:
        self._check()
        parameters = await self._read_parameters(given)
        types = {name: type for name, (type, _) in parameters.items()}
        described = await self._executor.describe_query(self._call, self._text, types, self._statement, keeps=False)
        # Parsed above, so the tree comes from the cache.
        script = await self._executor.planner.parse(self._statement, self._text)
        changes = described.writes or changes_scheme(script)
        plan = await described.explain() if stats or mode == "explain" else None
        if mode == "explain":
            return Answer(warnings=described.plan.warnings, plan=plan, changes=changes)
        collected = _Results(self._statement, self._limits)
        counted: QueryStats | None = None
        warnings: list[Issue] = []
        parts = self._executor.execute(
            self._call, None, self._text, parameters, None, stats, self._statement, streams=True
        )
        async with aclosing(parts):
            async for part in parts:
                await collected.add(part)
                warnings += part.warnings
                counted = part.stats or counted
                if collected.is_full(part.index) and _ends_with(described, part) and not stats:
                    break
        counts = None if counted is None else _describe_stats(counted)
        return Answer(collected.results(), tuple(warnings), counts, None if counts is None else plan, changes)

    def _check(self) -> None:
        """Refuse a query without text, of a database that is not served, or of too many bytes."""
        databases = self._app.services.options.databases
        if self._call.database not in databases:
            raise fault("Requested database not exists", status="SCHEME_ERROR", code=2003)
        if not self._text.strip():
            raise fault("Query content is empty", status="BAD_REQUEST")
        if self._call.size > MAX_MESSAGE_BYTES:
            text = f"The query has more than {MAX_MESSAGE_BYTES} bytes with its parameters."
            raise fault(text, status="BAD_REQUEST")

    async def _read_parameters(self, given: Parameters) -> dict[str, tuple[Type, Value]]:
        if self._call.size <= SMALL_REQUEST:
            return _read_parameters(given)
        return await self._statement.call(self._call.size, _read_parameters, given)


def _measure(text: str, parameters: Parameters | None) -> int:
    """Return the size of a query in bytes. Faults: BAD_REQUEST for half of a surrogate pair, which UTF-8 cannot encode."""
    try:
        return len(text.encode()) + len(msgspec.json.encode(parameters or {}))
    except UnicodeEncodeError:
        raise fault("A text has half of a surrogate pair.", status="BAD_REQUEST") from None


def _read_parameters(given: Parameters) -> dict[str, tuple[Type, Value]]:
    found: dict[str, tuple[Type, Value]] = {}
    for name, (type_name, value) in given.items():
        plain = name.removeprefix("$")
        type = parse_stored_type(type_name)
        found[plain] = (type, read_value(f"${plain}", type, value))
    return found


def _ends_with(described: QueryDescription, part: ResultPart) -> bool:
    """Return whether nothing but further rows of this part's result set is left of a query."""
    return not described.writes and part.index == len(described.results) - 1


def _describe_stats(stats: QueryStats) -> Stats:
    tables = (TableAccess(path, each.reads, each.updates, each.deletes) for path, each in stats.row_counts.items())
    return Stats(stats.total_us, stats.planning_us, stats.cached, tuple(tables))


class _Results:
    """The result sets of one query, up to its limits."""

    def __init__(self, statement: Statement, limits: AnswerLimits) -> None:
        self._statement = statement
        self._limits = limits
        self._sets: dict[int, _ResultSet] = {}

    def is_full(self, index: int) -> bool:
        """Return whether a result set has reached its limits."""
        return index in self._sets and self._sets[index].truncated

    def results(self) -> tuple[Result, ...]:
        """Return all result sets in order."""
        return tuple(self._sets[index].result() for index in sorted(self._sets))

    async def add(self, part: ResultPart) -> None:
        """Take the rows of a part. Rows above the limits are dropped, so that memory stays bounded."""
        if part.index < 0:
            return
        kept = self._sets.get(part.index)
        if kept is None:
            kept = self._sets[part.index] = _ResultSet(part.columns, self._limits)
        start = 0
        while start < len(part.rows) and not kept.truncated:
            rows = part.rows[start : start + _SLICE_ROWS]
            start += len(rows)
            kept.add(await self._statement.call(CHEAP_BYTES, _write_rows, part.columns, rows))
            await self._statement.take_turn()


def _write_rows(columns: Columns, rows: Iterable[Row]) -> list[tuple[list[Any], int]]:
    """Return rows as JSON values, each with its size in bytes."""
    writers = [writer(type) for _, type in columns]
    found = [[write(value) for write, value in zip(writers, row, strict=True)] for row in rows]
    return [(row, len(msgspec.json.encode(row))) for row in found]


class _ResultSet:
    """The rows of one result set."""

    def __init__(self, columns: Columns, limits: AnswerLimits) -> None:
        self._columns = columns
        self._limits = limits
        self._rows: list[list[Any]] = []
        self._bytes = 0
        self.truncated = False

    def add(self, rows: Sequence[tuple[list[Any], int]]) -> None:
        """Add rows until a limit is reached. The first row is taken whatever its size."""
        for row, size in rows:
            self._bytes += size
            if len(self._rows) >= self._limits.rows or (self._rows and self._bytes > self._limits.bytes):
                self.truncated = True
                return
            self._rows.append(row)

    def result(self) -> Result:
        """Return the rows with their columns."""
        return Result(tuple((name, format_type(type)) for name, type in self._columns), self._rows, self.truncated)
