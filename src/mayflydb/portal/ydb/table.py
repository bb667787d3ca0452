"""The rows of a table as JSON by column: read in pages, written and deleted by queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from mayflydb.admin import formats
from mayflydb.admin.record_files import FileRecord
from mayflydb.admin.targets import ContainerTarget
from mayflydb.admin.wires import Ydb
from mayflydb.model.errors import BadRequest, MayflyError, NotFound
from mayflydb.model.instant import Instant
from mayflydb.portal.ydb.querying import describe_fault, rows_of
from mayflydb.query.yql.answers import Answer, AnswerLimits, Parameters
from mayflydb.query.yql.faults import Fault
from mayflydb.query.yql.key_paging import condition_behind, key_parameters, quote_name, same_value

MAX_REFUSALS: Final = 50
"""Rows of an upload whose refusals are shown."""

_TEXTS: Final = ("Utf8", "String", "Utf8?", "String?")

Row = Mapping[str, Any]


class RowTable:
    """One table. `types`: of its columns, by name, in the table's order. `key`: the columns of its primary key."""

    def __init__(self, ydb: Ydb, container: ContainerTarget, at: Instant | None = None) -> None:
        """`at`: the instant as of which `page` reads; None: the present."""
        self._as_of = "" if at is None else f'PRAGMA mayfly.AsOf = "{formats.time(at)}"; '
        self._ydb = ydb
        self._database = container.database
        self._name = quote_name(container.node.name)
        body = container.node.body
        self.types: Mapping[str, str] = {each["name"]: each["type"] for each in body["columns"]}
        self.key: Sequence[str] = body["key"]

    def key_of(self, row: Row) -> str:
        """Return the key of a row as a JSON list."""
        return msgspec.json.encode([row[name] for name in self.key]).decode()

    async def page(
        self, where: str = "", sort: str = "", descending: bool = False, after: str | None = None, limit: int = 101
    ) -> list[dict[str, Any]]:
        """Return rows in the order of the key, or of a column. `where`: a condition of YQL.

        `after`: the key of the last row of the page before; of a page that is sorted, the number of rows before it.
        """
        conditions, parameters, offset = [], {}, ""  # type: list[str], dict[str, tuple[str, Any]], str
        if where.strip():
            # A comment at its end must not swallow the parenthesis.
            conditions.append(f"({where}\n)")
        way = " DESC" if descending else ""
        if sort and sort not in self.types:
            raise BadRequest(f"There is no column {sort}.")
        if after is not None and sort:
            offset = f" OFFSET {int(after) if after.isascii() and after.isdigit() and len(after) < 10 else 0}"
        elif after is not None:
            condition, parameters = condition_behind(self.key, self.types, self._parse_key(after))
            conditions.append(condition)
        order = ", ".join(f"{quote_name(name)}{way}" for name in ([sort] if sort else []) + [*self.key])
        wanted = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        text = f"{self._as_of}SELECT * FROM {self._name}{wanted} ORDER BY {order} LIMIT {limit}{offset}"  # noqa: S608
        limits = AnswerLimits(seconds=30, rows=limit)
        answer = await self._run(text, parameters, limits)
        return rows_of(answer.results[0])

    async def read(self, key: str) -> dict[str, Any]:
        """Return one row. NotFound if it does not exist."""
        values = self._parse_key(key)
        same = [same_value(name, value, n) for n, (name, value) in enumerate(zip(self.key, values, strict=True))]
        parameters = key_parameters(self.key, self.types, values)
        limits = AnswerLimits(bytes=64 << 20)
        answer = await self._run(f"SELECT * FROM {self._name} WHERE {' AND '.join(same)}", parameters, limits)  # noqa: S608
        found = rows_of(answer.results[0])
        if not found:
            raise NotFound(f"There is no row {key}.", hint="Rows that have expired are shown no more.")
        return {name: found[0][name] for name in self.types if name in found[0]}

    async def write(self, verb: str, rows: Sequence[Row]) -> None:
        """Write rows that have the same columns. `verb`: INSERT, UPSERT or REPLACE."""
        names = list(rows[0])
        if unknown := [name for name in names if name not in self.types]:
            raise BadRequest(f"There is no column {unknown[0]}.")
        if missing := [name for name in self.key if name not in names]:
            raise BadRequest(f"The key's column {missing[0]} is missing.")
        given = {"rows": (self._list_type(names), list(rows))}
        columns = ", ".join(map(quote_name, names))
        await self._run(f"{verb} INTO {self._name} ({columns}) SELECT {columns} FROM AS_TABLE($rows)", given)  # noqa: S608

    async def delete(self, keys: Sequence[str]) -> None:
        """Delete rows by their keys. Rows that do not exist are passed over."""
        rows = [dict(zip(self.key, self._parse_key(key), strict=True)) for key in keys]
        given = {"rows": (self._list_type(self.key), rows)}
        await self._run(f"DELETE FROM {self._name} ON SELECT * FROM AS_TABLE($rows)", given)  # noqa: S608

    async def upload(self, records: Sequence[FileRecord], replaces: bool) -> tuple[int, list[tuple[str, str]]]:
        """Write records. Return the number of those that were written, and (place, reason) of the others."""
        verb = "REPLACE" if replaces else "INSERT"
        groups: dict[tuple[str, ...], list[tuple[str, dict[str, Any]]]] = {}
        for record in records:
            row = {name: self._as_text(name, value) for name, value in record.value.items()}
            groups.setdefault(tuple(row), []).append((record.place, row))
        done, refusals = 0, []  # type: int, list[tuple[str, str]]
        for group in groups.values():
            for start in range(0, len(group), 500):
                batch = group[start : start + 500]
                try:
                    await self.write(verb, [row for _, row in batch])
                    done += len(batch)
                except MayflyError:
                    for place, row in batch:
                        try:
                            await self.write(verb, [row])
                            done += 1
                        except MayflyError as error:
                            refusals.append((place, error.message))
        return done, refusals

    def _as_text(self, name: str, value: Any) -> Any:
        """Return a number as the text that it was in a CSV file, where its column has texts."""
        if self.types.get(name) in _TEXTS and isinstance(value, (int, float)):
            return msgspec.json.encode(value).decode()
        return value

    def _list_type(self, names: Sequence[str]) -> str:
        members = ",".join(f"{quote_name(name)}:{self.types[name]}" for name in names)
        return f"List<Struct<{members}>>"

    def _parse_key(self, key: str) -> list[Any]:
        try:
            values = msgspec.json.decode(key, type=list[Any])
        except (msgspec.DecodeError, msgspec.ValidationError, UnicodeEncodeError):
            values = []
        if len(values) != len(self.key):
            raise BadRequest(f"A key of this table is a JSON list of {len(self.key)} values.")
        return values

    async def _run(self, text: str, parameters: Parameters | None = None, limits: AnswerLimits | None = None) -> Answer:
        try:
            return await self._ydb(self._database, text, parameters, limits=limits or AnswerLimits())
        except Fault as error:
            raise describe_fault(error) from None
