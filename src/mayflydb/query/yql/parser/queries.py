"""SELECT and VALUES, FROM with its joins, and UNION, EXCEPT and INTERSECT."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from mayflydb.query.yql.faults import fault
from mayflydb.query.yql.keywords import CLAUSES, COMPATIBLE, NO_ALIAS
from mayflydb.query.yql.lexer import ID, QUOTED
from mayflydb.query.yql.parser.grouping import Grouping
from mayflydb.query.yql.syntax import (
    At,
    Binding,
    Compound,
    Expression,
    From,
    Item,
    Join,
    Member,
    OrderItem,
    Query,
    QuerySource,
    Select,
    Source,
    Star,
    Subquery,
    TableRef,
    Values,
)

_UNIONS: Final = frozenset({"UNION", "EXCEPT"})
_SET_OPERATIONS: Final = frozenset({"UNION", "EXCEPT", "INTERSECT"})
_JOINS: Final = frozenset({",", "JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "EXCLUSION", "NATURAL", "OUTER"})
# Without AS, only a word that begins no clause is an alias.
_ALIASES: Final = (COMPATIBLE - NO_ALIAS - CLAUSES) | {ID, QUOTED}
# Each UNION or JOIN adds a level to the tree of relations, and a frame to Python's stack when rows are read.
_MAX_QUERIES: Final = 250


class Queries(Grouping):
    _order_at: At | None = None
    """The position of ORDER BY or LIMIT of the last SELECT."""

    def query(self) -> Query:
        """Parse queries with UNION and EXCEPT between them; INTERSECT binds more tightly. Each may be in parentheses."""
        return self.further_queries(None)

    def further_queries(self, first: Query | None) -> Query:
        """Parse the rest of a query whose first part, `first`, was in parentheses and is parsed; None parses that part,
        too."""
        left, unparenthesized = self._intersection(first)
        operators = 0
        while self.kind in _UNIONS:
            if unparenthesized:
                self._check_inner(left)
            operator = self._operator()
            right, unparenthesized = self._intersection(None)
            left = _compound(operator, left, right, unparenthesized)
            operators += 1
            self._check_count(operators)
        return left

    def _intersection(self, first: Query | None) -> tuple[Query, bool]:
        """Parse queries with INTERSECT between them; True if the last one is not in parentheses."""
        left, unparenthesized = (first, False) if first is not None else self._query_term()
        operators = 0
        while self.kind == "INTERSECT":
            if unparenthesized:
                self._check_inner(left)
            operator = self._operator()
            right, unparenthesized = self._query_term()
            left = _compound(operator, left, right, unparenthesized)
            operators += 1
            self._check_count(operators)
        return left, unparenthesized

    def _check_inner(self, query: Query) -> None:
        """Refuse ORDER BY and LIMIT in a query that is neither the last one nor in parentheses."""
        if isinstance(query, (Select, Compound)) and (query.order or query.limit is not None):
            what = "ORDER BY" if query.order else "LIMIT"
            raise fault(f"{what} within UNION ALL is only allowed after last subquery", self._order_at)

    def _check_count(self, operators: int) -> None:
        if operators > _MAX_QUERIES:
            raise fault(f"More than {_MAX_QUERIES} queries in one are not supported", self.at())

    def _operator(self) -> str:
        operator = self.word()
        if self.accept("ALL"):
            return f"{operator} ALL"
        self.accept("DISTINCT")
        return operator

    def _query_term(self) -> tuple[Query, bool]:
        if self.kind == "(":
            self.enter()
            self.index += 1
            inner = self.query()
            self.expect(")")
            self.leave()
            return inner, False
        if self.kind == "$":
            return QuerySource(self.at(), parameter=self.parameter_name()), False
        if self.kind == "VALUES":
            return self.values(), False
        return self.select(), True

    def values(self) -> Values:
        at = self.at()
        self.expect("VALUES")
        rows = [self._row()]
        while self.accept(","):
            # A comma without a row behind it belongs to what is around VALUES.
            if self.kind != "(":
                break
            place, row = self.at(), self._row()
            if len(row) != len(rows[0]):
                message = f"All VALUES items should have same size: expecting {len(rows[0])}, got {len(row)}"
                raise fault(message, place)
            rows.append(row)
        return Values(at, tuple(rows))

    def _row(self) -> tuple[Expression, ...]:
        return self.parse_in_parentheses(self.expression)

    # --- SELECT ---------------------------------------------------------------------------------------------------------

    def select(self) -> Select:
        at = self.at()
        for word in ("PROCESS", "REDUCE", "COMBINE", "DISCARD"):
            if self.kind == word:
                self.refuse(f"{word} among queries" if word == "DISCARD" else word)
        if self.kind == "WITH":
            self.refuse("WITH of a query (common table expression)")
        source = self._from() if self.kind == "FROM" else None
        if not self.accept("SELECT"):
            self.fail("(", "FROM", "SELECT", "VALUES")
        self.enter()
        # `SELECT stream FROM t` names a column.
        if self.kind == "STREAM" and self.next_kind not in (",", "FROM", ".", ";"):
            self.refuse("SELECT STREAM")
        distinct = self.kind == "DISTINCT"
        if distinct or self.kind == "ALL":
            self.index += 1
        items = self.result_items()
        without = self._without() if self.accept("WITHOUT") else ()
        if self.kind == "FROM":
            if source is not None:
                raise fault("Only one FROM clause is allowed", self.at())
            source = self._from()
        where = self.expression() if self.accept("WHERE") else None
        group = self.group() if self.kind == "GROUP" else None
        having = self.expression() if self.accept("HAVING") else None
        windows = self.parse_list(self.window_definition, None) if self.accept("WINDOW") else ()
        assume = self.kind == "ASSUME" and self.next_kind == "ORDER"
        if assume:
            self.index += 1
        if self.kind in ("ORDER", "LIMIT"):
            self._order_at = self.at()
        order = self.order() if self.kind == "ORDER" else ()
        limit, offset = self._limits()
        if self.kind == "INTO" and self.next_kind == "RESULT":
            self.refuse("INTO RESULT")
        self.leave()
        return Select(
            at,
            items,
            source,
            where,
            group,
            having,
            order,
            limit,
            offset,
            distinct,
            without,
            windows,
            assume and bool(order),
        )

    def result_items(self) -> tuple[Item | Star, ...]:
        """Parse the list behind SELECT; a comma may end it."""
        items = [self._result_item()]
        while self.accept(","):
            if self.kind in ("FROM", ";", ")", "<EOF>", "WITHOUT", "WHERE"):
                break
            items.append(self._result_item())
        return tuple(items)

    def _result_item(self) -> Item | Star:
        at = self.at()
        if self.accept("*"):
            return Star(at)
        # Three tokens tell `t.*` from an expression that begins with `t.a`.
        if self.next_kind == "." and self.kind_at(2) == "*" and self.is_word():
            name = self.name()
            self.index += 2
            return Star(at, name)
        value = self.expression()
        return Item(at, value, self._alias())

    def _alias(self) -> str | None:
        if self.accept("AS"):
            return self.name()
        return self.name() if self.kinds[self.index] in _ALIASES else None

    def _limits(self) -> tuple[Expression | None, Expression | None]:
        if not self.accept("LIMIT"):
            return None, None
        limit = self.expression()
        if self.accept("OFFSET"):
            return limit, self.expression()
        if self.accept(","):  # `LIMIT offset, limit`: the order differs from `LIMIT limit OFFSET offset`.
            return self.expression(), limit
        return limit, None

    def _without(self) -> tuple[str, ...]:
        if self.kind == "IF" and self.next_kind == "EXISTS":
            self.refuse("WITHOUT IF EXISTS")
        names = [self._column()]
        while self.accept(","):
            if self.kind in ("FROM", ";", ")", "<EOF>", "WHERE"):
                break
            names.append(self._column())
        return tuple(names)

    def _column(self) -> str:
        """`a`, or `t.a`"""
        name = self.name()
        return f"{name}.{self.name()}" if self.accept(".") else name

    # --- FROM -----------------------------------------------------------------------------------------------------------

    def _from(self) -> From:
        at = self.at()
        self.expect("FROM")
        any_at = self.at()
        # ANY may name a table: then a token follows that can only stand behind a table.
        any_ = (
            self.kind == "ANY" and self.next_kind not in (".", "AS", "JOIN", ";", ")", "<EOF>") and self.accept("ANY")
        )
        first = self.source()
        joins = []
        while self.kinds[self.index] in _JOINS:
            # A comma is a join only if a source follows; otherwise it belongs to what is around the query.
            if self.kind == "," and not self._is_source(1):
                break
            joins.append(self._join())
            self._check_count(len(joins))
        if any_ and not joins:
            raise fault("ANY is allowed only in JOIN", any_at)
        if any_ and joins[0].kind == "CROSS":
            raise fault("ANY should not be used with Cross JOIN", any_at)
        return From(at, first, tuple(joins), any_)

    def _is_source(self, distance: int) -> bool:
        return self.is_word(distance) or self.kind_at(distance) in ("(", "$")

    def _join(self) -> Join:
        at = self.at()
        kind = self._join_kind()
        if kind == "CROSS" and self.kind == "ANY":
            raise fault("ANY should not be used with Cross JOIN", self.at())
        any_ = self.accept("ANY")
        right = self.source()
        if self.accept("ON"):
            if kind == "CROSS":
                raise fault("CROSS JOIN should not have ON or USING expression", at)
            return Join(at, kind, right, self.expression(), (), any_)
        if self.accept("USING"):
            if kind == "CROSS":
                raise fault("CROSS JOIN should not have ON or USING expression", at)
            return Join(at, kind, right, None, self.parse_in_parentheses(self.name), any_)
        if kind != "CROSS":
            raise fault("Expecting ON or USING expression", self.at())
        return Join(at, kind, right, None, (), any_)

    def _join_kind(self) -> str:
        if self.accept(","):
            return "CROSS"
        if self.kind == "NATURAL":
            self.refuse("NATURAL JOIN")
        kind = self.accept_any(("INNER", "LEFT", "RIGHT", "FULL", "CROSS", "EXCLUSION")) or ""
        if kind in ("LEFT", "RIGHT"):
            side = self.accept_any(("ONLY", "SEMI"))
            kind = f"{kind} {side}" if side else kind
        at = self.at()
        outer = self.accept("OUTER")
        self.expect("JOIN")
        if outer and kind not in ("LEFT", "RIGHT", "FULL"):
            raise fault(
                f"Invalid join type: {kind}{' ' * bool(kind)}OUTER JOIN. "
                "OUTER keyword is optional and can only be used after LEFT, RIGHT or FULL",
                at,
            )
        return kind or "INNER"

    def source(self) -> Source:
        """Parse a source of FROM, with its alias and FLATTEN."""
        at = self.at()
        of = self._source_of()
        for word in ("MATCH_RECOGNIZE", "SAMPLE", "TABLESAMPLE"):
            if self.kind == word:
                self.refuse(word)
        alias = self._alias()
        columns: tuple[str, ...] = ()
        if alias is not None and self.kind == "(":
            columns = self._column_aliases(of)
        for word in ("SAMPLE", "TABLESAMPLE"):
            if self.kind == word:
                self.refuse(word)
        flatten = self._flatten() if self.accept("FLATTEN") else None
        return Source(at, of, alias, columns, flatten)

    def _column_aliases(self, of: TableRef | QuerySource) -> tuple[str, ...]:
        """Parse `(a, b)` behind the alias of VALUES: names of the first columns."""
        at = self.at()
        columns = self.parse_in_parentheses(self.name)
        if not isinstance(of, QuerySource) or not isinstance(of.query, Values):
            raise fault("Derived column list is only supported for VALUES", at)
        if len(columns) > len(of.query.rows[0]):
            raise fault("Derived column list size exceeds column count in VALUES", at)
        return columns

    def _source_of(self) -> TableRef | QuerySource:
        at = self.at()
        if self.kind == "$":
            found = QuerySource(at, parameter=self.parameter_name())
            if self.kind in ("VIEW", "(", "WITH"):
                self.refuse(f"{self.kind} behind a named expression in FROM")
            return found
        if self.kind == "(":
            self.enter()
            self.index += 1
            query = self.query()
            self.expect(")")
            self.leave()
            return QuerySource(at, query=query)
        if self.next_kind == "(" and self.is_word():
            return self._table_function()
        return self.table()

    def _table_function(self) -> QuerySource:
        at = self.at()
        name = self.word()
        if name != "AS_TABLE":
            self.refuse(f"Table function {name}", self.index - 1)
        self.expect("(")
        rows = self.expression()
        self.accept(",")
        self.expect(")")
        return QuerySource(at, rows=rows)

    def table(self) -> TableRef:
        """``cluster.`name` VIEW index WITH (hints)``"""
        at = self.at()
        cluster = None
        name = self.path()
        if self.accept("."):
            cluster, name = name, self.path()
        view = None
        if self.accept("VIEW"):
            view = "PRIMARY KEY" if self.accept_words("PRIMARY", "KEY") else self.name()
        hints = self._hints() if self.kind == "WITH" and self._is_hint() else ()
        return TableRef(at, name, view, cluster, hints)

    def path(self) -> str:
        """Parse the path of a table or another object."""
        if self.kind == "@":
            self.refuse("@ before a name")
        if self.kind == "$":
            self.refuse("A name by a named expression")
        return self.name()

    def _is_hint(self) -> bool:
        return self.kind_at(1) == "(" or self.is_word(1)

    def _hints(self) -> tuple[str, ...]:
        self.expect("WITH")
        return self.parse_in_parentheses(self._hint) if self.kind == "(" else (self._hint(),)

    def _hint(self) -> str:
        if self.kind in ("SCHEMA", "COLUMNS", "WATERMARK") or self.next_kind == "=":
            self.refuse(f"Table hint {self.kind if self.kind != ID else self.texts[self.index]}")
        return self.name()

    def _flatten(self) -> tuple[str, tuple[Item, ...]]:
        if self.accept("COLUMNS"):
            return "COLUMNS", ()
        mode = self.accept_any(("OPTIONAL", "LIST", "DICT")) or ""
        if not self.accept("BY"):
            self.fail("BY") if mode else self.fail("BY", "COLUMNS", "DICT", "LIST", "OPTIONAL")
        if self.accept("("):
            return mode, self.parse_list(self.named_item)
        at = self.at()
        value: Expression = self.column_reference()
        if isinstance(value, Member) and self.kind != "AS":
            raise fault("Unnamed expression after FLATTEN BY is not allowed", self.at(self.index - 1))
        return mode, (Item(at, value, self.name() if self.accept("AS") else None),)

    # --- named expressions ----------------------------------------------------------------------------------------------

    def binding(self) -> Binding:
        """`$a, $b = value`"""
        at = self.at()
        names = self.parse_list(self.parameter_name, None)
        self.expect("=")
        value: Expression | Query
        if self.begins_query():
            value = self.query()
        else:
            value = self.expression()
            # `$x = (SELECT ...)` names a query, which may go on with UNION; EXISTS is a value.
            if isinstance(value, Subquery) and not value.exists:
                value = value.query
                if self.kind in _SET_OPERATIONS:
                    value = self.further_queries(value)
        return Binding(at, names, value)


def _compound(operator: str, left: Query, right: Query, unparenthesized: bool) -> Compound:
    """Move ORDER BY and LIMIT of the last query to the compound, unless that query was in parentheses (not `unparenthesized`)."""
    order: tuple[OrderItem, ...] = ()
    limit = offset = None
    if unparenthesized and isinstance(right, (Select, Compound)) and (right.order or right.limit is not None):
        order, limit, offset = right.order, right.limit, right.offset
        plain: dict[str, Any] = {"order": (), "limit": None, "offset": None}
        right = msgspec.structs.replace(right, **plain)
    return Compound(left.at, operator, left, right, order, limit, offset)
