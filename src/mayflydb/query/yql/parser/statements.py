"""Statements and scripts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mayflydb.query.yql.definitions import AlterSequence, CreateView, Definition, DropView, Setting, ShowCreate
from mayflydb.query.yql.faults import fault
from mayflydb.query.yql.lexer import END, INTEGER, REAL, STRING
from mayflydb.query.yql.parser.topics import TopicStatements
from mayflydb.query.yql.statements import (
    Action,
    Commit,
    Declare,
    Discard,
    Do,
    EvaluateFor,
    EvaluateIf,
    Pragma,
    Script,
    Statement,
)
from mayflydb.query.yql.syntax import At, Query

# Longer phrases come first: RESOURCE POOL begins RESOURCE POOL CLASSIFIER.
_REFUSED_OBJECTS: Final = (
    ("ASYNC", "REPLICATION"),
    ("TRANSFER",),
    ("EXTERNAL", "DATA", "SOURCE"),
    ("RESOURCE", "POOL", "CLASSIFIER"),
    ("RESOURCE", "POOL"),
    ("BACKUP", "COLLECTION"),
    ("STREAMING", "QUERY"),
    ("OBJECT",),
    ("SECRET",),
    ("SYMLINK",),
    ("SEQUENCE",),
    ("DATABASE",),
)
_CREATED: Final = ("EXTERNAL", "GROUP", "OR", "TABLE", "TABLESTORE", "TEMP", "TEMPORARY", "TOPIC", "USER", "VIEW")


class Statements(TopicStatements):
    def script(self) -> Script:
        """Parse all statements up to the end of the text."""
        statements = self._statements(END)
        return Script(statements)

    def _statements(self, end: str) -> tuple[Statement, ...]:
        found: list[Statement] = []
        while True:
            while self.accept(";"):
                pass
            if self.kinds[self.index] == end:
                return tuple(found)
            found.append(self.statement())
            if self.kinds[self.index] not in (";", end):
                self.fail(end, ";")

    def statement(self) -> Statement:
        kind = self.kinds[self.index]
        read = _STATEMENTS.get(kind)
        if read is None:
            if kind in _REFUSED_STATEMENTS:
                self.refuse(kind)
            self.fail(*_STATEMENTS, END)
        return read(self)

    # --- what is no query -----------------------------------------------------------------------------------------------

    def declare(self) -> Declare:
        at = self.at()
        self.index += 1
        name = self.parameter_name()
        self.expect("AS")
        kind = self.type_name()
        if self.kind == "=":
            self.refuse("A parameter's default")
        return Declare(at, name, kind)

    def pragma(self) -> Pragma:
        at = self.at()
        self.index += 1
        name = self.name()
        if self.accept("."):
            name = f"{name}.{self.name()}"
        if self.accept("="):
            return Pragma(at, name, (self._pragma_value(),))
        if self.kind == "(":
            return Pragma(at, name, self.parse_in_parentheses(self._pragma_value))
        return Pragma(at, name)

    def _pragma_value(self) -> str:
        if self.kind == STRING:
            return self.text()
        if self.kind == "$":
            self.refuse("A pragma's value by a named expression")
        sign = self.accept_any(("+", "-")) or ""
        if self.kind in (INTEGER, REAL) or (not sign and self.kind in ("TRUE", "FALSE")):
            self.index += 1
            return sign + self.texts[self.index - 1]
        if sign:
            self.fail(INTEGER, REAL)
        return self.name()

    def commit(self) -> Commit:
        at = self.at()
        return Commit(at, self.word() == "ROLLBACK")

    def discard(self) -> Discard:
        at = self.at()
        self.index += 1
        return Discard(at, self.query())

    def batch(self) -> Statement:
        self.index += 1
        if self.kind == "UPDATE":
            return self.update(batch=True)
        if self.kind == "DELETE":
            return self.delete(batch=True)
        return self.fail("DELETE", "UPDATE")

    # --- actions --------------------------------------------------------------------------------------------------------

    def define(self) -> Action:
        at = self.at()
        self.index += 1
        if self.kind == "SUBQUERY":
            self.refuse("DEFINE SUBQUERY")
        self.expect("ACTION")
        name = self.parameter_name()
        self.expect("(")
        names, optional = self.parameters()
        self.expect("AS")
        body = self._body()
        self.expect("END", "DEFINE")
        return Action(at, name, names, body, optional)

    def _body(self) -> tuple[Statement, ...]:
        self.enter()
        body = self._statements("END")
        self.leave()
        return body

    def do(self) -> Do:
        at = self.at()
        self.expect("DO")
        if self.accept("BEGIN"):
            body = self._body()
            self.expect("END", "DO")
            return Do(at, None, (), body)
        if self.kind == "EMPTY_ACTION":
            self.index += 1
            self.expect("(", ")")
            return Do(at, None)
        name = self.parameter_name()
        self.expect("(")
        arguments = () if self.accept(")") else self.parse_list(self.expression)
        return Do(at, name, arguments)

    def evaluate(self) -> EvaluateIf | EvaluateFor:
        at = self.at()
        # IF and FOR may stand without EVALUATE.
        self.accept("EVALUATE")
        if self.kind == "PARALLEL":
            self.refuse("PARALLEL FOR")
        if self.accept("IF"):
            condition = self.expression()
            then = self.do()
            return EvaluateIf(at, condition, then, self.do() if self.accept("ELSE") else None)
        if not self.accept("FOR"):
            self.fail("FOR", "IF")
        name = self.parameter_name()
        self.expect("IN")
        items = self.expression()
        body = self.do()
        return EvaluateFor(at, name, items, body, self.do() if self.accept("ELSE") else None)

    # --- the scheme -----------------------------------------------------------------------------------------------------

    def create(self) -> Definition:
        at = self.at()
        self.index += 1
        self._refuse_object("CREATE")
        or_replace = self.accept_words("OR", "REPLACE")
        if or_replace:
            self._refuse_object("CREATE OR REPLACE")
        if not or_replace:
            if self.accept("VIEW"):
                return self._create_view(at)
            if self.accept("TOPIC"):
                return self.create_topic(at)
            if self.accept("USER"):
                return self.user(at, "CREATE")
            if self.accept("GROUP"):
                return self.role_group(at, "CREATE")
        if self.accept_any(("TEMP", "TEMPORARY")):
            self.expect("TABLE")
            return self.create_table(at, "TABLE", or_replace, temporary=True)
        return self.create_table(at, self._table_kind(_CREATED), or_replace)

    def _table_kind(self, expected: tuple[str, ...]) -> str:
        if self.accept("TABLE"):
            return "TABLE"
        if self.accept("TABLESTORE"):
            return "TABLESTORE"
        if self.accept("EXTERNAL"):
            self.expect("TABLE")
            return "EXTERNAL TABLE"
        return self.fail(*expected)

    def _refuse_object(self, verb: str) -> None:
        for words in _REFUSED_OBJECTS:
            if self.kinds[self.index : self.index + len(words)] == list(words):
                self.refuse(f"{verb} {' '.join(words)}", self.index - 1)

    def _create_view(self, at: At) -> CreateView:
        # The stored text is parsed again by each query that reads the view, with the default lexer.
        if self.tokens.ansi:
            self.refuse("A view in a text for the ANSI lexer")
        if_not_exists = self.if_not_exists()
        name = self.object_path()
        settings: tuple[Setting, ...] = ()
        if self.accept("WITH"):
            settings = self.parse_in_parentheses(self._feature) if self.kind == "(" else (self._feature(),)
        self.expect("AS")
        if self.kind == "DO":
            self.refuse("A view of several statements")
        start = self.index
        query: Query = self.query()
        tokens = self.tokens
        text = tokens.text[tokens.starts[start] : tokens.end(self.index - 1)]
        return CreateView(at, name, query, text, settings, if_not_exists)

    def _feature(self) -> Setting:
        """Parse `NAME = value`, or a name alone, which means TRUE."""
        return self.setting() if self.next_kind == "=" else Setting(self.at(), self.name(), True)

    def alter(self) -> Definition:
        at = self.at()
        self.index += 1
        if self.accept("SEQUENCE"):
            return self._alter_sequence(at)
        self._refuse_object("ALTER")
        if self.kind in ("TABLESTORE", "EXTERNAL"):
            self.refuse(f"ALTER {self.kind}")
        if self.accept("TOPIC"):
            return self.alter_topic(at)
        if self.accept("USER"):
            return self.user(at, "ALTER")
        if self.accept("GROUP"):
            return self.role_group(at, "ALTER")
        if not self.accept("TABLE"):
            self.fail("GROUP", "TABLE", "TOPIC", "USER")
        return self.alter_table(at)

    def _alter_sequence(self, at: At) -> AlterSequence:
        if_exists = self.if_exists()
        name = self.object_path()
        given: dict[str, int | None] = {}
        while (place := self.kind) in ("START", "INCREMENT", "RESTART"):
            if place in given:
                raise fault(f"{place} is said twice", self.at())
            self.index += 1
            word = self.accept("BY" if place == "INCREMENT" else "WITH")
            # RESTART alone begins again at the start value of the sequence.
            bare = place == "RESTART" and not word and self.kind != INTEGER
            given[place] = None if bare else self._whole_number()
        if not given:
            self.fail("INCREMENT", "RESTART", "START")
        restart = "RESTART" in given
        return AlterSequence(
            at, name, given.get("START"), given.get("INCREMENT"), restart, given.get("RESTART"), if_exists
        )

    def _whole_number(self) -> int:
        if self.kind != INTEGER:
            self.fail(INTEGER)
        value = self.integer().value
        assert isinstance(value, int)
        return value

    def drop(self) -> Definition:
        at = self.at()
        self.index += 1
        self._refuse_object("DROP")
        if self.accept("VIEW"):
            if_exists = self.if_exists()
            return DropView(at, self.object_path(), if_exists)
        if self.accept("TOPIC"):
            return self.drop_topic(at)
        if self.accept("USER"):
            return self.drop_roles(at, "USER")
        if self.accept("GROUP"):
            return self.drop_roles(at, "GROUP")
        return self.drop_table(
            at, self._table_kind(("EXTERNAL", "GROUP", "TABLE", "TABLESTORE", "TOPIC", "USER", "VIEW"))
        )

    def show(self) -> ShowCreate:
        at = self.at()
        self.index += 1
        self.expect("CREATE")
        if self.kind == "EXTERNAL":
            self.refuse("SHOW CREATE EXTERNAL")
        if self.accept("VIEW"):
            return ShowCreate(at, "VIEW", self.object_path())
        if not self.accept("TABLE"):
            self.fail("TABLE", "VIEW")
        return ShowCreate(at, "TABLE", self.object_path())

    def upsert(self) -> Statement:
        if self.next_kind == "OBJECT":
            self.refuse("UPSERT OBJECT")
        return self.write()

    def explain(self) -> Statement:
        raise fault("EXPLAIN in a text is not supported; ask for the plan with the request", self.at())


_REFUSED_STATEMENTS: Final = frozenset(
    ("USE", "IMPORT", "EXPORT", "ANALYZE", "BACKUP", "RESTORE", "TRUNCATE", "MATERIALIZE", "KILL", "PARALLEL")
)
_STATEMENTS: Final[dict[str, Callable[[Statements], Statement]]] = {
    **dict.fromkeys(("SELECT", "VALUES", "FROM", "(", "WITH", "PROCESS", "REDUCE", "COMBINE"), Statements.query),
    "$": Statements.binding,
    "DECLARE": Statements.declare,
    "PRAGMA": Statements.pragma,
    "UPSERT": Statements.upsert,
    **dict.fromkeys(("REPLACE", "INSERT"), Statements.write),
    "UPDATE": Statements.update,
    "DELETE": Statements.delete,
    "BATCH": Statements.batch,
    **dict.fromkeys(("COMMIT", "ROLLBACK"), Statements.commit),
    "DISCARD": Statements.discard,
    "DEFINE": Statements.define,
    "DO": Statements.do,
    **dict.fromkeys(("EVALUATE", "IF", "FOR"), Statements.evaluate),
    "CREATE": Statements.create,
    "ALTER": Statements.alter,
    "DROP": Statements.drop,
    "SHOW": Statements.show,
    **dict.fromkeys(("GRANT", "REVOKE"), Statements.grant),
    "EXPLAIN": Statements.explain,
}
