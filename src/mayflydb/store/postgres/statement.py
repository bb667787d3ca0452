"""Many changes in one statement: a round trip costs more than most of them."""

from __future__ import annotations

from typing import Any

import asyncpg

from mayflydb.store.postgres.connection import StaleRead


class Statement:
    """Parts of one statement, as data-modifying CTEs. All see the database as it was before; no two of them change the
    same row.
    """

    def __init__(self, parts: str = "", *arguments: Any, condition: str = "") -> None:
        """`parts`: the first ones, with $1, $2, ... for the arguments. `condition`: what all that are added have to meet."""
        self._parts = [parts] if parts else []
        self._arguments = list(arguments)
        self._condition = condition
        self._expected: dict[str, int] = {}

    def add(self, name: str, sql: str, *arguments: Any, returning: str = "", expected: int | None = None) -> None:
        """Add SQL with {0}, {1}, ... for its arguments, which ends with a WHERE clause.

        `expected`: the number of rows that it must change.
        """
        if expected is not None:
            self._expected[name] = expected
            returning = "1"
        sql = f"{sql} AND {self._condition}" if self._condition else sql
        sql = f"{sql} RETURNING {returning}" if returning else sql
        first = len(self._arguments) + 1
        self._parts.append(f"{name} AS ({sql.format(*(f'${first + n}' for n in range(len(arguments))))})")
        self._arguments += arguments

    def __bool__(self) -> bool:
        return bool(self._parts)

    async def run(self, connection: Any) -> None:
        """Make all changes. Errors: StaleRead when a part changed another number of rows than expected; the caller rolls back."""
        counts = ", ".join(f"(SELECT count(*) FROM {name})" for name in self._expected) or "1"
        row = await self.fetch(connection, f"SELECT {counts}")
        if self._expected and tuple(row) != tuple(self._expected.values()):
            raise StaleRead("another transaction changed a record after it was read")

    async def commit(self, connection: Any) -> bool:
        """Make all changes as a transaction of their own. False, and nothing is changed, if the condition is not met.

        Errors: StaleRead, and nothing is changed, when a part would change another number of rows than expected.
        """
        first = len(self._arguments) + 1
        wrong = " OR ".join(
            f"(SELECT count(*) FROM {name}) <> ${first + n}::bigint" for n, name in enumerate(self._expected)
        )
        self._arguments += self._expected.values()
        # An error is the only way in which a statement undoes what its parts have changed.
        check = f"1 / CASE WHEN {self._condition} AND ({wrong or 'false'}) THEN 0 ELSE 1 END"
        try:
            met: bool = (await self.fetch(connection, f"SELECT {self._condition}, {check}"))[0]
        except asyncpg.DivisionByZeroError as error:
            raise StaleRead("another transaction changed a record after it was read") from error
        return met

    async def fetch(self, connection: Any, select: str) -> Any:
        """Make all changes, and return the row that `select` finds in what the parts return."""
        return await connection.fetchrow(f"WITH {', '.join(self._parts)} {select}", *self._arguments)
