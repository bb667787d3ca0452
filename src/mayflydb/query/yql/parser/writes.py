"""UPSERT, REPLACE, INSERT, UPDATE and DELETE."""

from __future__ import annotations

from typing import Final, Literal

from mayflydb.query.yql.faults import fault
from mayflydb.query.yql.parser.queries import Queries
from mayflydb.query.yql.statements import Delete, Update, Write
from mayflydb.query.yql.syntax import (
    Expression,
    Item,
    Query,
    Star,
    StructLiteral,
    Subquery,
    TableRef,
    TupleLiteral,
    Values,
)

_VERBS: Final[dict[str, Literal["UPSERT", "REPLACE", "INSERT"]]] = {
    "UPSERT": "UPSERT",
    "REPLACE": "REPLACE",
    "INSERT": "INSERT",
}


class Writes(Queries):
    def write(self) -> Write:
        at = self.at()
        verb = _VERBS[self.word()]
        or_ = None
        if verb == "INSERT" and self.accept("OR"):
            or_ = self.expect_any(("ABORT", "IGNORE", "REVERT"))
        self.expect("INTO")
        table = self._target()
        if self.kind == "ERASE":
            self.refuse("ERASE BY")
        columns, source = self._rows(f"{verb} INTO")
        if columns is None and isinstance(source, Values):
            raise fault(f"{verb} INTO ... VALUES requires specification of table columns", table.at)
        return Write(at, verb, table, columns, source, self._returning(), or_)

    def _target(self) -> TableRef:
        table = self.table()
        if table.view is not None:
            raise fault("A write goes to a table, not to an index", table.at)
        return table

    def _rows(self, what: str = "ON") -> tuple[tuple[str, ...] | None, Query]:
        """`(columns) VALUES ...`, or `(columns) SELECT ...`"""
        if self.kind == "DEFAULT":
            self.refuse("DEFAULT VALUES")
        columns = None
        at = self.at()
        # A parenthesis also begins a query: in a list of columns a comma or parenthesis follows the first name.
        if self.kind == "(" and (self.kind_at(2) in (",", ")") and self.is_word(1)):
            at = self.at(self.index + 1)
            columns = self.parse_in_parentheses(self.name)
        source = self.query()
        if columns is not None and isinstance(source, Values) and len(source.rows[0]) != len(columns):
            width = len(source.rows[0])
            raise fault(f"VALUES have {width} columns, {what} expects: {len(columns)}", at)
        return columns, source

    def _returning(self) -> tuple[Item | Star, ...] | None:
        if not self.accept("RETURNING"):
            return None
        at = self.at()
        if self.accept("*"):
            return (Star(at),)
        return self.parse_list(self._returning_item, None)

    def _returning_item(self) -> Item:
        at = self.at()
        return Item(at, self.column_reference())

    def update(self, batch: bool = False) -> Update:
        at = self.at()
        self.expect("UPDATE")
        table = self._target()
        if self.accept("ON"):
            rows = self._rows()
            return Update(at, table, (), None, rows, self._returning(), batch)
        if not self.accept("SET"):
            self.fail("ON", "SET")
        sets = self._assignments() if self.kind == "(" else self.parse_list(self._assignment, None)
        where = self.expression() if self.accept("WHERE") else None
        return Update(at, table, sets, where, None, self._returning(), batch)

    def _assignment(self) -> tuple[str, Expression]:
        name = self._assignment_target()
        self.expect("=")
        return name, self.expression()

    def _assignment_target(self) -> str:
        name = self.name()
        return self.name() if self.accept(".") else name

    def _assignments(self) -> tuple[tuple[str, Expression], ...]:
        """Parse `SET (a, b) = (1, 2)`. A query on the right side, which would give several values at once, is refused."""
        names = self.parse_in_parentheses(self._assignment_target)
        self.expect("=")
        at = self.at()
        values = self.operand()
        if isinstance(values, Subquery):
            self.refuse("SET of several columns by a query")
        found: tuple[Expression, ...] = (values,)
        if isinstance(values, TupleLiteral):
            found = values.items
        elif isinstance(values, StructLiteral):
            found = tuple(value for _, value in values.members)
        if len(found) != len(names):
            raise fault(f"Mismatch of columns and values: {len(names)} and {len(found)}", at)
        return tuple(zip(names, found, strict=True))

    def delete(self, batch: bool = False) -> Delete:
        at = self.at()
        self.expect("DELETE", "FROM")
        table = self._target()
        if self.accept("ON"):
            return Delete(at, table, None, self._rows(), self._returning(), batch)
        where = self.expression() if self.accept("WHERE") else None
        return Delete(at, table, where, None, self._returning(), batch)
