"""Random syntax trees in the form that parsing gives, for printing them and parsing them again."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Literal, TypeVar

from mayflydb.query.yql import definitions as d
from mayflydb.query.yql import statements as st
from mayflydb.query.yql import syntax as s
from mayflydb.query.yql.parser.calls import TYPE_ARGUMENTS
from query.yql.printing import write_query

T = TypeVar("T")
AT = s.At(1, 1)
WORDS = ("a", "b", "Total", "_x1", "key", "value", "timestamp", "group_id", "list", "table")
ODD_WORDS = ("Юг", "with space", "tick`", "back\\slash", "SELECT", "new\nline")
PLAIN = ("a", "b", "price", "key", "value", "timestamp", "Total", "table", "index", "json", "struct", "list")
TYPES = ("Uint64", "utf8", "Timestamp", "Date32", "JsonDocument", "INT", "Bool")
SIGNS = "+ - * / % || ?? == != < <= > >= AND OR XOR & | ^ << >> |<< >>|"
OPERATORS = (*SIGNS.split(), "IS DISTINCT FROM", "IS NOT DISTINCT FROM")
FUNCTIONS = ("Len", "DateTime::Format", "IF", "Coalesce", "String::Contains", "CurrentUtcTimestamp", "Date", "Variant")


class Trees:
    """Makes trees. `depth`: the number of levels that are still allowed below the node."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance

    def some(self, make: Callable[[], T], least: int = 0, most: int = 3) -> tuple[T, ...]:
        return tuple(make() for _ in range(self.chance.randint(least, most)))

    def maybe(self, make: Callable[[], T]) -> T | None:
        return make() if self.chance.random() < 0.4 else None

    def flag(self) -> bool:
        return self.chance.random() < 0.3

    def word(self) -> str:
        return self.chance.choice(ODD_WORDS if self.flag() else WORDS)

    def words(self, least: int = 1) -> tuple[str, ...]:
        return self.some(self.word, least)

    # --- types and expressions ------------------------------------------------------------------------------------------

    def type_name(self, depth: int) -> s.TypeName:
        def inner() -> s.TypeName:
            return self.type_name(depth - 1)

        if depth <= 0:
            return s.TypeName(AT, self.chance.choice(TYPES))
        match self.chance.randrange(7):
            case 0:
                return s.TypeName(AT, "Decimal", (self.chance.randint(1, 35), self.chance.randint(0, 9)))
            case 1:
                return s.TypeName(AT, self.chance.choice(("List", "Optional", "Set", "LIST")), (inner(),))
            case 2:
                return s.TypeName(AT, "Dict", (inner(), inner()))
            case 3:
                return s.TypeName(AT, "Tuple", self.some(inner))
            case 4:
                parts = self.some(inner)
                return s.TypeName(AT, "Struct", parts, tuple(self.word() for _ in parts))
            case 5:
                parts = self.some(inner, 1)
                return s.TypeName(AT, "Variant", parts, self.chance.choice((None, tuple(self.word() for _ in parts))))
            case _:
                return s.TypeName(AT, "Tagged", (inner(), self.word()))

    def literal(self) -> s.Literal_:
        chance = self.chance
        match chance.randrange(7):
            case 0:
                return s.Literal_(AT, "null", None)
            case 1:
                return s.Literal_(AT, "bool", self.flag())
            case 2:
                suffix = chance.choice(("", "u", "ul", "l", "s", "us", "t", "ut"))
                return s.Literal_(AT, "integer", chance.getrandbits(chance.randint(0, 7)), suffix)
            case 3:
                value = chance.choice((0.0, 1.5, 1e300, 1e-9, chance.random()))
                return s.Literal_(AT, "double", value)
            case 4:
                return s.Literal_(AT, "float", chance.choice((0.5, 1.0, 1e20)), "f")
            case 5:
                return s.Literal_(AT, "string", chance.randbytes(chance.randint(0, 6)), chance.choice(("", "y")))
            case _:
                text = "".join(chance.choice("ab\"'\\`\n\0éя漢🙂@-/*") for _ in range(chance.randint(0, 6)))
                return s.Literal_(AT, "string", text, chance.choice(("u", "j")))

    def expression(self, depth: int) -> s.Expression:
        chance = self.chance
        if depth <= 0 or chance.random() < 0.15:
            return chance.choice((self.literal, self.column, self.parameter))()
        makers = (self.binary, self.condition, self.call, self.access, self.bracket, self.special, self.function)
        return chance.choice(makers)(depth - 1)

    def column(self) -> s.Expression:
        if self.flag():
            return s.Name(AT, self.word(), quoted=True)
        name = s.Name(AT, self.chance.choice(PLAIN))
        return s.Member(AT, name, self.word()) if self.flag() else name

    def parameter(self) -> s.Expression:
        return s.Parameter(AT, self.word())

    def binary(self, depth: int) -> s.Expression:
        if self.flag():
            operator = self.chance.choice(("-", "+", "~", "NOT", "IS NULL", "IS NOT NULL"))
            return s.Unary(AT, operator, self.expression(depth))
        return s.Binary(AT, self.chance.choice(OPERATORS), self.expression(depth), self.expression(depth))

    def condition(self, depth: int) -> s.Expression:
        def inner() -> s.Expression:
            return self.expression(depth)

        match self.chance.randrange(3):
            case 0:
                operator = self.chance.choice(("LIKE", "ILIKE", "REGEXP", "MATCH", "RLIKE", "GLOB"))
                return s.Like(AT, operator, inner(), inner(), self.maybe(inner), self.flag())
            case 1:
                return s.Between(AT, inner(), inner(), inner(), self.flag(), self.flag())
            case _:
                subquery = s.Subquery(AT, self.query(depth - 1))
                within = self.chance.choice((s.ListLiteral(AT, self.some(inner)), subquery, self.parameter()))
                return s.In(AT, inner(), within, self.flag(), self.flag())

    def arguments(self, depth: int) -> tuple[s.Argument, ...]:
        return self.some(lambda: s.Argument(AT, self.expression(depth), self.maybe(self.word)))

    def call(self, depth: int) -> s.Expression:
        if self.flag():
            kind = s.TypeArgument(AT, self.type_name(depth))
            return s.FunctionCall(AT, "Nothing", (s.Argument(AT, kind),))
        name = self.chance.choice(FUNCTIONS)
        arguments = self.arguments(depth)
        if name.upper() in TYPE_ARGUMENTS:
            arguments = arguments[:2]
        star = not arguments and self.flag()
        over: s.Window | str | None = self.word() if self.flag() else self.maybe(lambda: self.window(depth))
        nulls = self.chance.choice((None, True, False)) if over is not None else None
        return s.FunctionCall(AT, name, arguments, bool(arguments) and self.flag(), star, over, nulls)

    def access(self, depth: int) -> s.Expression:
        of = self.expression(depth)
        match self.chance.randrange(3):
            case 0:
                return s.Subscript(AT, of, self.expression(depth))
            case 1:
                return s.Member(AT, of, self.chance.choice((0, 12, self.word())))
            case _:
                return s.Apply(AT, s.Parameter(AT, self.word()), self.arguments(depth))

    def bracket(self, depth: int) -> s.Expression:
        def inner() -> s.Expression:
            return self.expression(depth)

        match self.chance.randrange(5):
            case 0:
                return s.ListLiteral(AT, self.some(inner))
            case 1:
                return s.TupleLiteral(AT, self.some(inner))
            case 2:
                return s.StructLiteral(AT, self.some(lambda: (self.word(), inner())))
            case 3:
                return s.DictLiteral(AT, self.some(lambda: (inner(), inner())))
            case _:
                return s.DictLiteral(AT, self.some(lambda: (inner(), None)))

    def special(self, depth: int) -> s.Expression:
        def inner() -> s.Expression:
            return self.expression(depth)

        match self.chance.randrange(4):
            case 0:
                return s.Case(AT, self.maybe(inner), self.some(lambda: (inner(), inner()), 1), inner())
            case 1:
                return s.Cast(AT, inner(), self.type_name(depth), self.flag())
            case 2:
                return s.Subquery(AT, self.query(depth), self.flag())
            case _:
                clauses = self.chance.choice(
                    (
                        (),
                        (("RETURNING", None, self.type_name(0)), ("NULL ON EMPTY", None, None)),
                        ((f"PASSING {self.word()}", inner(), None), ("DEFAULT ON ERROR", inner(), None)),
                    )
                )
                return s.Json(AT, "JSON_VALUE", inner(), s.Literal_(AT, "string", b"$.a"), clauses)

    def function(self, depth: int) -> s.Expression:
        names = self.words(0)
        optional = self.chance.randint(0, len(names))
        bindings = self.some(lambda: self.binding(depth), 0, 2)
        return s.Lambda(AT, names, bindings, self.expression(depth), optional)

    # --- queries --------------------------------------------------------------------------------------------------------

    def binding(self, depth: int) -> s.Binding:
        value: s.Expression | s.Query = self.query(depth) if self.flag() else self.expression(depth)
        if isinstance(value, s.Subquery) and not value.exists:
            value = value.query
        return s.Binding(AT, self.words(), value)

    def item(self, depth: int) -> s.Item:
        return s.Item(AT, self.expression(depth), self.maybe(self.word))

    def order(self, depth: int) -> tuple[s.OrderItem, ...]:
        return self.some(lambda: s.OrderItem(AT, self.expression(depth), self.flag()))

    def window(self, depth: int) -> s.Window:
        frame = s.Frame(
            AT,
            self.chance.choice(("ROWS", "RANGE", "GROUPS")),
            *self.chance.choice(
                ((None, None), (None, 0), (None, -1), (-3, 0), (-3, -1), (0, 0), (0, 4), (2, 4), (2, None))
            ),
        )
        if frame.kind == "RANGE" and frame.lower and self.flag():
            lower = 1 if frame.lower > 0 else -1
            frame = s.Frame(AT, "RANGE", lower, frame.upper, self.expression(depth))
        items = self.some(lambda: self.item(depth))
        return s.Window(AT, items, self.order(depth), self.maybe(lambda: frame))

    def table(self) -> s.TableRef:
        return s.TableRef(AT, self.word(), self.maybe(self.word), self.maybe(self.word), self.words(0))

    def source(self, depth: int) -> s.Source:
        of = self.chance.choice(
            (
                self.table,
                lambda: s.QuerySource(AT, query=self.query(depth)),
                lambda: s.QuerySource(AT, parameter=self.word()),
                lambda: s.QuerySource(AT, rows=self.expression(depth)),
            )
        )()
        alias = self.maybe(self.word)
        columns: tuple[str, ...] = ()
        if alias is not None and isinstance(of, s.QuerySource) and isinstance(of.query, s.Values):
            columns = tuple(self.word() for _ in of.query.rows[0])
        flatten = self.maybe(
            lambda: (self.chance.choice(("", "LIST", "DICT", "OPTIONAL")), self.some(lambda: self.item(depth), 1))
        )
        return s.Source(AT, of, alias, columns, flatten)

    def join(self, depth: int) -> s.Join:
        kind = self.chance.choice(("INNER", "LEFT", "RIGHT", "FULL", "LEFT SEMI", "RIGHT ONLY", "EXCLUSION", "CROSS"))
        source = self.source(depth)
        if kind == "CROSS":
            return s.Join(AT, kind, source)
        if self.flag():
            return s.Join(AT, kind, source, None, self.words(), self.flag())
        return s.Join(AT, kind, source, self.expression(depth), (), self.flag())

    def from_(self, depth: int) -> s.From:
        joins = self.some(lambda: self.join(depth), 0, 2)
        return s.From(AT, self.source(depth), joins, bool(joins) and joins[0].kind != "CROSS" and self.flag())

    def group(self, depth: int) -> s.GroupBy:
        items = self.some(lambda: self.item(depth), 1)
        items = tuple(each for i, each in enumerate(items) if each not in items[:i])
        sets = self.maybe(lambda: (tuple(range(len(items))), ()))
        if sets is not None and any(each.name is None for each in items):
            items = tuple(s.Item(AT, each.value, each.name or f"k{i}") for i, each in enumerate(items))
        return s.GroupBy(AT, items, sets, self.flag())

    def select(self, depth: int) -> s.Select:
        order = self.order(depth)
        limit = self.maybe(lambda: self.expression(depth))
        return s.Select(
            AT,
            self.some(lambda: s.Star(AT, self.maybe(self.word)) if self.flag() else self.item(depth), 1),
            self.maybe(lambda: self.from_(depth)),
            self.maybe(lambda: self.expression(depth)),
            self.maybe(lambda: self.group(depth)),
            self.maybe(lambda: self.expression(depth)),
            order,
            limit,
            self.maybe(lambda: self.expression(depth)) if limit is not None else None,
            self.flag(),
            self.words(0),
            self.some(lambda: (self.word(), self.window(depth)), 0, 1),
            bool(order) and self.flag(),
        )

    def query(self, depth: int) -> s.Query:
        if depth <= 0 or self.chance.random() < 0.6:
            return self.select(depth - 1)
        if self.flag():
            width = self.chance.randint(1, 3)
            return s.Values(AT, self.some(lambda: tuple(self.expression(depth - 1) for _ in range(width)), 1))
        operator = self.chance.choice(("UNION", "UNION ALL", "EXCEPT", "INTERSECT", "INTERSECT ALL"))
        left, right = self.query(depth - 1), self.query(depth - 1)
        if isinstance(right, s.Select) and not right.order and right.limit is None:
            return s.Compound(AT, operator, left, right, self.order(depth - 1), self.maybe(self.literal))
        return s.Compound(AT, operator, left, right)

    # --- statements -----------------------------------------------------------------------------------------------------

    def returning(self) -> tuple[s.Item | s.Star, ...] | None:
        return self.maybe(
            lambda: self.chance.choice(((s.Star(AT),), (s.Item(AT, s.Name(AT, "a")), s.Item(AT, s.Name(AT, "b")))))
        )

    def rows(self, depth: int) -> tuple[tuple[str, ...] | None, s.Query]:
        source = self.query(depth)
        columns = tuple(self.word() for _ in source.rows[0]) if isinstance(source, s.Values) else self.maybe(self.words)
        return columns, source

    def statement(self, depth: int = 3) -> st.Statement:
        makers = (
            self.query,
            self.binding,
            self.write,
            self.update,
            self.delete,
            self.create,
            self.alter,
            self.small,
            self.view,
        )
        return self.chance.choice(makers)(depth)

    def target(self) -> s.TableRef:
        return s.TableRef(AT, self.word())

    def write(self, depth: int) -> st.Write:
        columns, source = self.rows(depth)
        while columns is None and isinstance(source, s.Values):
            columns, source = self.rows(depth)
        verb: Literal["UPSERT", "REPLACE", "INSERT"] = self.chance.choice(("UPSERT", "REPLACE", "INSERT"))
        or_ = self.chance.choice((None, "IGNORE", "ABORT")) if verb == "INSERT" else None
        return st.Write(AT, verb, self.target(), columns, source, self.returning(), or_)

    def update(self, depth: int) -> st.Update:
        if self.flag():
            return st.Update(AT, self.target(), on=self.rows(depth), returning=self.returning())
        sets = self.some(lambda: (self.word(), self.expression(depth)), 1)
        where = self.maybe(lambda: self.expression(depth))
        return st.Update(AT, self.target(), sets, where, None, self.returning(), self.flag())

    def delete(self, depth: int) -> st.Delete:
        if self.flag():
            return st.Delete(AT, self.target(), on=self.rows(depth), returning=self.returning())
        return st.Delete(
            AT, self.target(), self.maybe(lambda: self.expression(depth)), None, self.returning(), self.flag()
        )

    def setting(self) -> d.Setting:
        literal = s.Literal_(AT, "integer", 7)
        value = self.chance.choice((True, 5, 1.5, b"bytes", "BareWord", ((literal,), (literal, literal)), (literal,)))
        return d.Setting(AT, "KEY_" + self.chance.choice("AB"), value)

    def ttl(self) -> d.Setting:
        interval = s.FunctionCall(AT, "Interval", (s.Argument(AT, s.Literal_(AT, "string", b"PT1H")),))
        tiers = self.chance.choice((((interval, None),), ((interval, "/cold/store"), (interval, None))))
        return d.Setting(AT, "TTL", d.Ttl(AT, tiers, self.word(), self.chance.choice((None, "SECONDS", "NANOSECONDS"))))

    def column_spec(self, depth: int) -> d.ColumnSpec:
        default = self.maybe(lambda: self.expression(depth))
        not_null = self.chance.choice((None, True, False))
        return d.ColumnSpec(AT, self.word(), self.type_name(depth), not_null, default, self.maybe(self.word))

    def index_spec(self) -> d.IndexClause:
        unique, asynchronous = self.chance.choice(((False, False), (True, False), (False, True)))
        using = self.chance.choice((None, "secondary"))
        return d.IndexClause(
            AT, self.word(), self.words(), self.words(0), unique, asynchronous, False, using, self.some(self.setting)
        )

    def create(self, depth: int) -> d.CreateTable:
        return d.CreateTable(
            AT,
            self.word(),
            self.some(lambda: self.column_spec(depth - 1), 1),
            self.words(),
            self.some(self.index_spec, 0, 2),
            self.some(lambda: d.FamilySpec(AT, self.word(), self.some(self.setting, 0, 2)), 0, 1),
            self.some(lambda: d.ChangefeedSpec(AT, self.word(), self.some(self.setting, 1, 2)), 0, 1),
            self.some(self.chance.choice((self.setting, self.ttl)), 0, 2),
            self.words(0),
            self.flag(),
            False,
            self.flag(),
            "TABLE",
            self.maybe(lambda: self.query(depth - 1)),
        )

    def action(self, depth: int) -> d.TableAction:
        return self.chance.choice(
            (
                lambda: d.AddColumn(AT, self.column_spec(depth)),
                lambda: d.DropColumn(AT, self.word()),
                lambda: d.SetSettings(AT, (self.ttl(),)),
                lambda: d.ResetSettings(AT, ("TTL",)),
                lambda: d.AddIndex(AT, self.index_spec()),
                lambda: d.DropIndex(AT, self.word()),
                lambda: d.RenameIndex(AT, self.word(), self.word()),
                lambda: d.RenameTo(AT, self.word()),
                lambda: d.AlterColumn(AT, self.word(), "DROP NOT NULL"),
                lambda: d.AlterColumn(AT, self.word(), "SET DEFAULT", None, self.expression(depth)),
                lambda: d.AlterFamily(AT, self.word(), (self.setting(),)),
                lambda: d.DropChangefeed(AT, self.word()),
            )
        )()

    def alter(self, depth: int) -> d.AlterTable:
        return d.AlterTable(AT, self.word(), self.some(lambda: self.action(depth), 1))

    def view(self, depth: int) -> d.CreateView:
        query = self.query(depth)
        settings = self.chance.choice(((), (d.Setting(AT, "security_invoker", True),)))
        return d.CreateView(AT, self.word(), query, write_query(query), settings, self.flag())

    def small(self, depth: int) -> st.Statement:
        makers: tuple[Callable[[], st.Statement], ...] = (
            lambda: st.Declare(AT, self.word(), self.type_name(depth)),
            lambda: st.Pragma(AT, "TablePathPrefix", self.words(0)),
            lambda: st.Commit(AT, self.flag()),
            lambda: st.Discard(AT, self.query(depth)),
            lambda: st.Do(AT, self.word(), self.some(lambda: self.expression(depth))),
            lambda: st.Action(AT, self.word(), self.words(0), self.some(lambda: self.statement(depth - 1), 0, 2)),
            lambda: st.EvaluateIf(AT, self.expression(depth), st.Do(AT, "a"), self.maybe(lambda: st.Do(AT, "b"))),
            lambda: st.EvaluateFor(AT, "x", self.expression(depth), st.Do(AT, None, (), (self.delete(depth - 1),))),
            lambda: d.ShowCreate(AT, self.chance.choice(("TABLE", "VIEW")), self.word()),
            lambda: d.DropTable(AT, self.word(), self.flag()),
            lambda: d.DropView(AT, self.word(), self.flag()),
            lambda: d.UserSpec(AT, "CREATE", "USER", (self.word(),), (("PASSWORD", "p'\\"), ("LOGIN", None))),
            lambda: d.UserSpec(AT, "ALTER", "GROUP", (self.word(),), (("ADD USER", self.word()),)),
            lambda: d.UserSpec(AT, "DROP", "USER", self.words(), (), self.flag()),
            lambda: d.Grant(
                AT, ("SELECT ROW", "ydb.generic.read"), self.words(), self.words(), self.flag(), self.flag()
            ),
        )
        return self.chance.choice(makers)()

    def script(self) -> st.Script:
        return st.Script(self.some(self.statement, 1, 2))
