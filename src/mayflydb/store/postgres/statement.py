"""Many changes in one statement: a round trip costs more than most of them."""

from __future__ import annotations

from typing import Any

from mayflydb.store.postgres.connection import StaleRead


class Statement:
    """Parts of one statement, as data-modifying CTEs. All see the database as it was before; no two of them change the
    same row.
    """

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._arguments: list[Any] = []
        self._expected: dict[str, int] = {}

    def add(self, name: str, sql: str, *arguments: Any, expected: int | None = None) -> None:
        """Add SQL with {0}, {1}, ... for its arguments. `expected`: the number of rows that it must change and, so, return."""
        first = len(self._arguments) + 1
        self._parts.append(f"{name} AS ({sql.format(*(f'${first + n}' for n in range(len(arguments))))})")
        self._arguments += arguments
        if expected is not None:
            self._expected[name] = expected

    def __bool__(self) -> bool:
        return bool(self._parts)

    async def run(self, connection: Any) -> None:
        """Make all changes. Errors: StaleRead when a part changed another number of rows than expected; the caller rolls back."""
        counts = ", ".join(f"(SELECT count(*) FROM {name})" for name in self._expected) or "1"
        row = await connection.fetchrow(f"WITH {', '.join(self._parts)} SELECT {counts}", *self._arguments)
        if self._expected and tuple(row) != tuple(self._expected.values()):
            raise StaleRead("another transaction changed a record after it was read")
