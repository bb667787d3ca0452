"""A server with a clock that tests move, as YDB's own client sees it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from mayflydb.embedded import RunningServer

START = "2030-01-01T00:00:00Z"
T = 1893456000
"""START in seconds."""

SECOND = 1_000_000
LAST = (253402300799 - T) * SECOND
"""The last second of the year 9999, in microseconds from START."""

MINUTE, HOUR = 60, 3600

STATUSES = {
    "BadRequest": "BAD_REQUEST",
    "SchemeError": "SCHEME_ERROR",
    "GenericError": "GENERIC_ERROR",
    "PreconditionFailed": "PRECONDITION_FAILED",
    "Unsupported": "UNSUPPORTED",
    "Aborted": "ABORTED",
}
"""Exceptions of the client, by the statuses that they stand for."""


class YdbWorld:
    """Its clock stands at START when a test begins, and nothing is stored; times are seconds from there."""

    def __init__(self, server: RunningServer, store: str) -> None:
        self.ydb: Any = pytest.importorskip("ydb")
        self.server = server
        self.store = store
        self.driver = server.ydb.driver()
        self.pool = self.ydb.QuerySessionPool(self.driver, size=4)

    def begin(self) -> None:
        self.server.reset()

    def close(self) -> None:
        self.pool.stop()
        self.driver.stop()

    # --- time --------------------------------------------------------------------------------------------------------

    def to(self, micros: int, sweep: str = "none") -> None:
        """On to an instant in microseconds from START. `sweep`: whether what is due is erased on the way there."""
        self.server.clock.advance(f"{micros - self.micros()}us", sweep=sweep)  # type: ignore[arg-type]

    def advance(self, seconds: float) -> dict[str, int]:
        """On, with all runs that are due; how many rows each table has lost."""
        answer = self.server.clock.advance(f"{round(seconds * SECOND)}us")
        return {
            target.removeprefix("ydb:/local/"): told["purged"]
            for target, told in answer["by_target"].items()
            if told["purged"]
        }

    def micros(self) -> int:
        """From START."""
        return round(self.server.clock.now().timestamp() * SECOND) - T * SECOND

    @property
    def session(self) -> Any:
        """One of the table service. Those end unused by the server's clock, so each use has its own."""
        return self.driver.table_client.session().create()

    # --- statements --------------------------------------------------------------------------------------------------

    def rows(self, text: str, parameters: dict[str, Any] | None = None) -> list[tuple[Any, ...]]:
        """Those of the first result, by the query service."""
        (first, *_) = self.pool.execute_with_retries(text, parameters)
        return [tuple(row[column.name] for column in first.columns) for row in first.rows]

    def do(self, *texts: str) -> None:
        """Statements without results, by the query service."""
        for text in texts:
            self.pool.execute_with_retries(text)

    def ids(self, table: str, rest: str = "") -> list[Any]:
        """The keys of a table, whose key column is `id`."""
        return sorted(id for (id,) in self.rows(f"SELECT id FROM `{table}` {rest}"))

    def described(self, table: str, **include: bool) -> Any:
        """A table as the table service tells of it."""
        settings = self.ydb.DescribeTableSettings()
        for name, value in include.items():
            getattr(settings, f"with_include_{name}")(value)
        return self.session.describe_table(f"/local/{table}", settings)

    def ran(self, table: str) -> tuple[int | None, int | None, int | None]:
        """The last run as `.sys/partition_stats` has it: (seconds from START, rows looked at, rows erased)."""
        ((at, processed, erased),) = self.rows(
            "SELECT LastTtlRunTime AS a, LastTtlRowsProcessed AS b, LastTtlRowsErased AS c "
            f"FROM `.sys/partition_stats` WHERE Path = '/local/{table}'"
        )
        return (
            None if at is None else round(at.timestamp() if hasattr(at, "timestamp") else at / SECOND) - T,
            processed,
            erased,
        )

    # --- refusals ----------------------------------------------------------------------------------------------------

    def refused(self, work: Any, *arguments: Any, **named: Any) -> tuple[str, str]:
        """(status, the texts of all issues) of what a call is refused with."""
        with pytest.raises(self.ydb.Error) as caught:
            work(*arguments, **named)
        found = STATUSES.get(type(caught.value).__name__, type(caught.value).__name__)
        return found, "\n".join(_messages(getattr(caught.value, "issues", None) or ()))


def _messages(issues: Iterable[Any]) -> Iterable[str]:
    for issue in issues:
        yield issue.message
        yield from _messages(issue.issues)


def moments(deadlines: Sequence[int | None]) -> list[int]:
    """The instants just before, at and behind each of these, from START on, in order."""
    around = {ends + step for ends in deadlines if ends is not None for step in (-1, 0, 1)}
    return sorted(each for each in around | {0} if 0 <= each <= LAST)


def seconds_of(text: str) -> float:
    """`3600.000000s` as a number."""
    found = re.fullmatch(r"([0-9.]+)s", text)
    assert found, text
    return float(found[1])
