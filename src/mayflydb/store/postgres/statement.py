"""One statement out of many changes: a round trip costs more than most of them."""

from __future__ import annotations

from typing import Any

from mayflydb.store.postgres.connection import StaleRead


class Statement:
    """Parts that all see the database as it was before the statement; no two of them change the same row."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._arguments: list[Any] = []
        self._expected: dict[str, int] = {}

    def add(self, name: str, sql: str, *arguments: Any, expected: int | None = None) -> None:
        """SQL with {0}, {1}, ... for its arguments. `expected`: how many rows it must change and, so, return."""
        first = len(self._arguments) + 1
        self._parts.append(f"{name} AS ({sql.format(*(f'${first + n}' for n in range(len(arguments))))})")
        self._arguments += arguments
        if expected is not None:
            self._expected[name] = expected

    def __bool__(self) -> bool:
        return bool(self._parts)

    async def run(self, connection: Any) -> None:
        """Change everything; errors: StaleRead when some part changed other than it was to, which has to be rolled back."""
        counts = ", ".join(f"(SELECT count(*) FROM {name})" for name in self._expected) or "1"
        row = await connection.fetchrow(f"WITH {', '.join(self._parts)} SELECT {counts}", *self._arguments)
        if self._expected and tuple(row) != tuple(self._expected.values()):
            raise StaleRead("another transaction changed a record after it was read")
