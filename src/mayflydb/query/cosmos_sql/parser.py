"""Tokens into a syntax tree: one precedence loop for expressions, one method per clause."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from mayflydb.query.cosmos_sql.faults import (
    LIMIT_IN_SUBQUERY,
    ORDER_IN_SUBQUERY,
    TOP_IN_SUBQUERY,
    bad_query,
    syntax_error,
)
from mayflydb.query.cosmos_sql.functions.vector import is_distance
from mayflydb.query.cosmos_sql.lexer import Kind, Token, tokenize
from mayflydb.query.cosmos_sql.syntax import (
    Array,
    Between,
    Binary,
    Call,
    Conditional,
    Expression,
    Field,
    In,
    Item,
    Like,
    Literal,
    Logical,
    Name,
    Node,
    Object,
    Order,
    Parameter,
    Path,
    Select,
    Source,
    Statement,
    Subquery,
    Unary,
    children,
)  # fmt: skip
from mayflydb.query.cosmos_sql.values import UNDEFINED
from mayflydb.query.cosmos_sql.vocabulary import RESERVED, STRICTLY_RESERVED, is_reserved

LONGEST_TEXT: Final = 512 * 1024
"""Bytes of UTF-8, as the service documents it."""

LONGEST_REMEMBERED: Final = 16 * 1024
"""Longer texts are parsed again each time: their trees would fill the cache with hundreds of megabytes."""

SUBQUERY_LEVELS: Final = 4
"""How many levels of nesting a subquery counts for: running one takes about as many calls."""

DEEPEST_NESTING: Final = 100
"""Brackets, calls, subqueries and prefix operators inside one another."""

TALLEST_TREE: Final = 150
"""Levels of the tree; chains of operators other than AND and OR count one each."""

LITERALS: Final = {"true": True, "false": False, "null": None, "undefined": UNDEFINED}

_CONDITIONAL, _OR, _AND, _COMPARISON = 1, 3, 4, 10
POWERS: Final = {
    "?": _CONDITIONAL, "??": 2, "OR": _OR, "AND": _AND,
    "=": _COMPARISON, "!=": _COMPARISON, "<>": _COMPARISON, "<": _COMPARISON, "<=": _COMPARISON, ">": _COMPARISON,
    ">=": _COMPARISON, "IN": _COMPARISON, "BETWEEN": _COMPARISON, "LIKE": _COMPARISON, "NOT": _COMPARISON,
    "|": 20, "^": 30, "&": 40, "<<": 50, ">>": 50, ">>>": 50, "||": 60, "+": 70, "-": 70, "*": 80, "/": 80, "%": 80,
}  # fmt: skip
"""How tightly infix operators bind; prefix operators bind tighter than all of them."""

_AFTER_KEY = frozenset({"ASC", "DESC", "OFFSET"})
_FUNCTIONS = frozenset({"LEFT", "RIGHT"})
_SUBQUERY_FORMS = frozenset({"EXISTS", "ARRAY", "ALL", "FIRST", "LAST"})


def parse(text: str, lenient: bool = False) -> Statement:
    """The syntax tree of `text`; BadQuery with code and place, or Unsupported for what Mayfly refuses by name.

    `lenient`: names may be reserved words and aliases strings, and subqueries may have TOP, ORDER BY and OFFSET LIMIT.
    """
    if len(text) > LONGEST_TEXT or len(text.encode("utf-8", "surrogatepass")) > LONGEST_TEXT:
        raise bad_query(f"The query is longer than {LONGEST_TEXT} bytes.", 0, len(text))
    return _remembered(text, lenient) if len(text) <= LONGEST_REMEMBERED else _parsed(text, lenient)


@lru_cache(maxsize=512)
def _remembered(text: str, lenient: bool) -> Statement:
    return _parsed(text, lenient)


def _parsed(text: str, lenient: bool) -> Statement:
    try:
        select = Parser(text, lenient).statement()
    except RecursionError:
        raise _too_deep(0, len(text)) from None
    _check_height(select)
    return Statement(text, select)


def _too_deep(start: int, end: int) -> Exception:
    return bad_query(f"The query is nested more than {DEEPEST_NESTING} levels deep.", start, end)


def _check_height(root: Node) -> None:
    level: list[Node] = [root]
    for _ in range(TALLEST_TREE):
        level = [child for node in level for child in children(node)]
        if not level:
            return
    raise _too_deep(level[0].start, level[0].end)


class Parser:
    """Reads one query. Each method reads one construct and leaves the next token in `token`."""

    def __init__(self, text: str, lenient: bool) -> None:
        self.lenient = lenient
        self.reserved = RESERVED if lenient else STRICTLY_RESERVED
        self.subqueries = 0
        """How many subqueries the current token stands in."""
        self.tokens = tokenize(text)
        self.place = 0
        self.token = self.tokens[0]
        self.depth = 0

    # Tokens.

    def advance(self) -> Token:
        """The current token, stepping past it; the last token is never passed."""
        token = self.token
        if token.kind is not Kind.END:
            self.place += 1
            self.token = self.tokens[self.place]
        return token

    def peek(self, distance: int = 1) -> Token:
        """The token `distance` ahead."""
        return self.tokens[min(self.place + distance, len(self.tokens) - 1)]

    def accept(self, symbol: str) -> bool:
        """Step past `symbol`, a mark or an upper-case keyword, if it is next."""
        if self.token.upper != symbol:
            return False
        self.advance()
        return True

    def expect(self, symbol: str) -> None:
        """Step past `symbol` or fail."""
        if not self.accept(symbol):
            raise self.unexpected()

    def unexpected(self) -> Exception:
        """The syntax error at the current token."""
        return syntax_error(self.token.text, self.token.start, self.token.end)

    def last_end(self) -> int:
        """Where the token before the current one ended."""
        return self.tokens[self.place - 1].end if self.place else 0

    def word(self) -> str:
        """Any word, keywords included."""
        if self.token.kind is not Kind.WORD:
            raise self.unexpected()
        return self.advance().text

    def name(self) -> str:
        """A word where only a name can stand: after a dot, after AS, after `udf.`."""
        if not self.lenient and is_reserved(self.token.text):
            raise self.unexpected()
        return self.word()

    def at_identifier(self) -> bool:
        """Whether the current token can name something."""
        token = self.token
        return token.kind is Kind.WORD and token.upper not in self.reserved and token.text not in LITERALS

    def outermost(self, clause: str, start: int, code: str) -> None:
        """Refuse the clause that ends before the current token if it stands in a subquery."""
        if self.subqueries and not self.lenient:
            raise bad_query(f"{clause} is not supported in subqueries.", start, self.last_end(), code)

    # Clauses.

    def statement(self) -> Select:
        """A whole query."""
        select = self.select()
        if self.token.kind is not Kind.END:
            raise self.unexpected()
        return select

    def select(self) -> Select:
        """`SELECT` with all its clauses."""
        start = self.token.start
        self.expect("SELECT")
        distinct = self.accept("DISTINCT")
        top = self.top() if self.token.upper == "TOP" else None
        star, value, items = self.selection()
        sources = self.sources() if self.accept("FROM") else ()
        where = self.expression() if self.accept("WHERE") else None
        group_by = self.group_by() if self.accept("GROUP") else ()
        order_by = self.order_by() if self.accept("ORDER") else ()
        offset, limit = self.window() if self.token.upper == "OFFSET" else (None, None)
        return Select(
            distinct=distinct, top=top, star=star, value=value, items=items, sources=sources, where=where,
            group_by=group_by, order_by=order_by, offset=offset, limit=limit, start=start, end=self.last_end(),
        )  # fmt: skip

    def top(self) -> Expression:
        """`TOP n`."""
        start = self.advance().start
        found = self.count()
        self.outermost("'TOP'", start, TOP_IN_SUBQUERY)
        return found

    def window(self) -> tuple[Expression, Expression]:
        """`OFFSET n LIMIT m`."""
        start = self.advance().start
        offset = self.count()
        self.expect("LIMIT")
        limit = self.count()
        self.outermost("'OFFSET LIMIT' clause", start, LIMIT_IN_SUBQUERY)
        return offset, limit

    def count(self) -> Expression:
        """The number of TOP, OFFSET or LIMIT: a literal or a parameter."""
        if self.token.kind not in (Kind.NUMBER, Kind.PARAMETER):
            raise self.unexpected()
        return self.primary()

    def selection(self) -> tuple[bool, Expression | None, tuple[Item, ...]]:
        """What SELECT puts out: star, VALUE or a list."""
        if self.accept("*"):
            return True, None, ()
        if self.accept("VALUE"):
            return False, self.expression(), ()
        items = [self.item()]
        while self.accept(","):
            items.append(self.item())
        return False, None, tuple(items)

    def item(self) -> Item:
        """`expression [[AS] alias]`."""
        start = self.token.start
        expression = self.expression()
        alias: str | None = None
        if self.accept("AS"):
            alias = self.quoted_or_word() if self.lenient else self.name()
        elif self.at_identifier() or (self.lenient and self.token.kind is Kind.STRING):
            alias = self.quoted_or_word()
        return Item(expression=expression, alias=alias, start=start, end=self.last_end())

    def quoted_or_word(self) -> str:
        """A name as a string literal or any word."""
        return str(self.advance().value) if self.token.kind is Kind.STRING else self.word()

    def sources(self) -> tuple[Source, ...]:
        """The inputs of FROM, joined."""
        sources = [self.source()]
        while self.accept("JOIN"):
            sources.append(self.source())
        return tuple(sources)

    def source(self) -> Source:
        """`x IN collection` or `collection [[AS] alias]`."""
        start = self.token.start
        if self.at_identifier() and self.peek().upper == "IN":
            alias: str | None = self.word()
            self.advance()
            return Source(expression=self.collection(), alias=alias, unnest=True, start=start, end=self.last_end())
        expression = self.collection()
        alias = None
        if self.accept("AS"):
            alias = self.name()
        elif self.at_identifier():
            alias = self.word()
        return Source(expression=expression, alias=alias, unnest=False, start=start, end=self.last_end())

    def collection(self) -> Expression:
        """A name, a path below one, or a subquery."""
        token = self.token
        found = self.operand()
        base = found.base if isinstance(found, Path) else found
        if isinstance(base, Name) or (isinstance(found, Subquery) and not found.form):
            return found
        raise syntax_error(token.text, token.start, token.end)

    def group_by(self) -> tuple[Expression, ...]:
        """`BY e, …` after GROUP."""
        self.expect("BY")
        return self.expressions()

    def order_by(self) -> tuple[Order, ...]:
        """`BY e [ASC|DESC], …` or `BY RANK e` after ORDER."""
        start = self.tokens[self.place - 1].start
        self.expect("BY")
        # RANK is a word like any other: what is ordered may be called so.
        if self.token.upper == "RANK" and self.peek().kind is Kind.WORD and self.peek().upper not in _AFTER_KEY:
            return (self.rank(start),)
        orders = [self.order()]
        while self.accept(","):
            orders.append(self.order())
        self.outermost("'ORDER BY'", start, ORDER_IN_SUBQUERY)
        return tuple(orders)

    def rank(self, start: int) -> Order:
        """`RANK e`."""
        self.expect("RANK")
        expression = self.expression()
        if self.token.upper in ("ASC", "DESC"):
            message = "Specifying a sort order (ASC or DESC) in the ORDER BY RANK clause is not allowed."
            raise bad_query(message, self.token.start, self.token.end)
        return Order(expression=expression, descending=False, rank=True, start=start, end=self.last_end())

    def order(self) -> Order:
        """One sort key."""
        start = self.token.start
        expression = self.expression()
        direction = self.token
        descending = self.accept("DESC")
        if (descending or self.accept("ASC")) and is_distance(expression):
            message = "Specifying a sorting order (ASC or DESC) with VectorDistance function is not supported."
            raise bad_query(message, direction.start, direction.end)
        return Order(expression=expression, descending=descending, start=start, end=self.last_end())

    # Expressions.

    def expressions(self) -> tuple[Expression, ...]:
        """One or more, separated by commas."""
        found = [self.expression()]
        while self.accept(","):
            found.append(self.expression())
        return tuple(found)

    def expression(self, floor: int = 0) -> Expression:
        """An expression of operators that bind at least as tightly as `floor`."""
        left = self.operand()
        predicated = False
        while True:
            power = POWERS.get(self.token.upper)
            if power is None or power < floor:
                return left
            predicate = power == _COMPARISON and self.token.kind is Kind.WORD
            if predicate and predicated and not self.lenient:
                raise self.unexpected()
            predicated = predicate
            left = self.infix(left, power)

    def infix(self, left: Expression, power: int) -> Expression:
        """The operator at the current token, applied to `left` and what follows."""
        if power in (_AND, _OR):
            return self.logical(left, power)
        if power == _CONDITIONAL:
            return self.conditional(left)
        symbol = self.advance().upper
        if power == _COMPARISON and symbol.isalpha():
            return self.predicate(left, symbol)
        right = self.expression(power + 1)
        symbol = "!=" if symbol == "<>" else symbol
        return Binary(operator=symbol, left=left, right=right, start=left.start, end=right.end)

    def logical(self, first: Expression, power: int) -> Expression:
        """A chain of AND or of OR."""
        symbol = self.token.upper
        operands = [first]
        while self.accept(symbol):
            operands.append(self.expression(power + 1))
        return Logical(operator=symbol, operands=tuple(operands), start=first.start, end=operands[-1].end)

    def conditional(self, test: Expression) -> Expression:
        """`? chosen : otherwise`."""
        self.enter()
        self.expect("?")
        chosen = self.expression()
        self.expect(":")
        otherwise = self.expression(_CONDITIONAL)
        self.depth -= 1
        return Conditional(test=test, chosen=chosen, otherwise=otherwise, start=test.start, end=otherwise.end)

    def predicate(self, operand: Expression, symbol: str) -> Expression:
        """`[NOT] IN`, `[NOT] BETWEEN` and `[NOT] LIKE`; the first word is read already."""
        negated = symbol == "NOT"
        if negated:
            symbol = self.advance().upper
        if symbol == "IN":
            choices = self.bracketed("(", ")")
            if not choices:
                raise self.unexpected()
            return In(operand=operand, choices=choices, negated=negated, start=operand.start, end=self.last_end())
        if symbol == "BETWEEN":
            low = self.expression(_COMPARISON + 1)
            self.expect("AND")
            high = self.expression(_COMPARISON + 1)
            return Between(operand=operand, low=low, high=high, negated=negated, start=operand.start, end=high.end)
        if symbol != "LIKE":
            self.place -= 1
            self.token = self.tokens[self.place]
            raise self.unexpected()
        pattern = self.expression(_COMPARISON + 1)
        escape = self.primary() if self.accept("ESCAPE") else None
        return Like(
            operand=operand, pattern=pattern, escape=escape, negated=negated, start=operand.start, end=self.last_end()
        )

    def enter(self) -> None:
        """Go one level deeper; whoever calls this takes it back by `depth -= 1`."""
        self.depth += 1
        if self.depth > DEEPEST_NESTING:
            raise _too_deep(self.token.start, self.token.end)

    def bracketed(self, opening: str, closing: str) -> tuple[Expression, ...]:
        """`opening e, … closing`, possibly empty."""
        self.enter()
        self.expect(opening)
        found: tuple[Expression, ...] = ()
        if self.token.upper != closing:
            found = self.expressions()
        self.expect(closing)
        self.depth -= 1
        return found

    def operand(self) -> Expression:
        """A prefix operator and its operand, or a primary with the path below it."""
        token = self.token
        if token.upper in ("NOT", "-", "+", "~"):
            self.enter()
            self.advance()
            operand = self.operand()
            self.depth -= 1
            return Unary(operator=token.upper, operand=operand, start=token.start, end=operand.end)
        base = self.primary()
        if self.token.upper not in (".", "["):
            return base
        steps: list[Expression] = []
        while self.token.upper in (".", "["):
            steps.append(self.step())
        return Path(base=base, steps=tuple(steps), start=token.start, end=self.last_end())

    def step(self) -> Expression:
        """`.name` or `[expression]`."""
        if self.advance().upper == ".":
            token = self.token
            return Literal(value=self.name(), start=token.start, end=token.end)
        self.enter()
        found = self.expression()
        self.expect("]")
        self.depth -= 1
        return found

    def primary(self) -> Expression:
        """A literal, parameter, name, call, constructor, bracket or subquery."""
        token = self.token
        if token.kind is Kind.NUMBER or token.kind is Kind.STRING:
            self.advance()
            return Literal(value=token.value, start=token.start, end=token.end)
        if token.kind is Kind.PARAMETER:
            self.advance()
            return Parameter(name=token.text, start=token.start, end=token.end)
        if token.upper == "(":
            return self.parenthesis()
        if token.upper == "[":
            items = self.bracketed("[", "]")
            return Array(items=items, start=token.start, end=self.last_end())
        if token.upper == "{":
            return self.object()
        if token.kind is Kind.WORD:
            return self.named()
        raise self.unexpected()

    def parenthesis(self) -> Expression:
        """`(e)` or `(SELECT …)`."""
        if self.peek().upper == "SELECT":
            return self.subquery("", self.token.start)
        self.enter()
        self.advance()
        found = self.expression()
        self.expect(")")
        self.depth -= 1
        return found

    def subquery(self, form: str, start: int) -> Subquery:
        """`(SELECT …)`, the word before it read already."""
        self.depth += SUBQUERY_LEVELS - 1
        self.enter()
        self.expect("(")
        self.subqueries += 1
        select = self.select()
        self.subqueries -= 1
        self.expect(")")
        self.depth -= SUBQUERY_LEVELS
        return Subquery(form=form, select=select, start=start, end=self.last_end())

    def object(self) -> Expression:
        """`{name: e, …}`."""
        start = self.token.start
        self.enter()
        self.advance()
        fields: list[Field] = []
        while not self.accept("}"):
            if fields:
                self.expect(",")
            at = self.token.start
            name = self.quoted_or_word()
            self.expect(":")
            value = self.expression()
            fields.append(Field(name=name, value=value, start=at, end=value.end))
        self.depth -= 1
        return Object(fields=tuple(fields), start=start, end=self.last_end())

    def named(self) -> Expression:
        """What starts with a word: literal, subquery form, call or name."""
        token = self.token
        if token.text in LITERALS:
            self.advance()
            return Literal(value=LITERALS[token.text], start=token.start, end=token.end)
        if token.upper in _SUBQUERY_FORMS and self.peek().upper == "(" and self.peek(2).upper == "SELECT":
            self.advance()
            return self.subquery(token.upper, token.start)
        udf = token.upper == "UDF" and self.peek().upper == "."
        if udf:
            self.advance()
            self.advance()
            name = self.name()
        elif token.upper in self.reserved and not (token.upper in _FUNCTIONS and self.peek().upper == "("):
            raise self.unexpected()
        else:
            name = self.advance().text
        if not udf and self.token.upper != "(":
            return Name(name=name, start=token.start, end=token.end)
        arguments = self.bracketed("(", ")")
        return Call(name=name, arguments=arguments, udf=udf, start=token.start, end=self.last_end())
