"""The parser: tokens to a syntax tree. One precedence loop parses expressions, one method each clause."""

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
from mayflydb.query.cosmos_sql.lexer import Token, TokenKind, tokenize
from mayflydb.query.cosmos_sql.syntax import (
    Array,
    Between,
    Binary,
    Conditional,
    Expression,
    Field,
    FromSource,
    FunctionCall,
    In,
    Like,
    Literal,
    Logical,
    Name,
    Object,
    Order,
    ParsedQuery,
    Path,
    QueryParameter,
    Select,
    SelectItem,
    Subquery,
    SyntaxNode,
    Unary,
    children,
)  # fmt: skip
from mayflydb.query.cosmos_sql.values import UNDEFINED
from mayflydb.query.cosmos_sql.vocabulary import RESERVED, STRICTLY_RESERVED, is_reserved

MAX_TEXT_BYTES: Final = 512 * 1024
"""The longest query text, in bytes of UTF-8, as the service documents it."""

MAX_CACHED_CHARACTERS: Final = 16 * 1024
"""The syntax trees of longer texts are not cached: they would fill the cache with hundreds of megabytes."""

SUBQUERY_LEVELS: Final = 4
"""The levels of nesting that a subquery counts for: its execution nests about as many calls."""

MAX_NESTING: Final = 100
"""The deepest nesting of brackets, calls, subqueries and prefix operators."""

MAX_TREE_HEIGHT: Final = 150
"""The height of the tree; each operator of a chain, other than AND and OR, counts one level."""

LITERALS: Final = {"true": True, "false": False, "null": None, "undefined": UNDEFINED}

_CONDITIONAL, _OR, _AND, _COMPARISON = 1, 3, 4, 10
BINDING_POWERS: Final = {
    "?": _CONDITIONAL, "??": 2, "OR": _OR, "AND": _AND,
    "=": _COMPARISON, "!=": _COMPARISON, "<>": _COMPARISON, "<": _COMPARISON, "<=": _COMPARISON, ">": _COMPARISON,
    ">=": _COMPARISON, "IN": _COMPARISON, "BETWEEN": _COMPARISON, "LIKE": _COMPARISON, "NOT": _COMPARISON,
    "|": 20, "^": 30, "&": 40, "<<": 50, ">>": 50, ">>>": 50, "||": 60, "+": 70, "-": 70, "*": 80, "/": 80, "%": 80,
}  # fmt: skip
"""The binding powers of infix operators; prefix operators bind tighter than all of them."""

_AFTER_SORT_KEY = frozenset({"ASC", "DESC", "OFFSET"})
_RESERVED_FUNCTIONS = frozenset({"LEFT", "RIGHT"})
_SUBQUERY_FORMS = frozenset({"EXISTS", "ARRAY", "ALL", "FIRST", "LAST"})


def parse(text: str, lenient: bool = False) -> ParsedQuery:
    """Parse a query. BadQuery, with code and position, for a wrong text; Unsupported for a feature that Mayfly refuses by
    name.

    `lenient`: names may be reserved words and aliases strings, and subqueries may have TOP, ORDER BY and OFFSET LIMIT.
    """
    if len(text) > MAX_TEXT_BYTES or len(text.encode("utf-8", "surrogatepass")) > MAX_TEXT_BYTES:
        raise bad_query(f"The query is longer than {MAX_TEXT_BYTES} bytes.", 0, len(text))
    return _parse_cached(text, lenient) if len(text) <= MAX_CACHED_CHARACTERS else _parse(text, lenient)


@lru_cache(maxsize=512)
def _parse_cached(text: str, lenient: bool) -> ParsedQuery:
    return _parse(text, lenient)


def _parse(text: str, lenient: bool) -> ParsedQuery:
    try:
        select = Parser(text, lenient).parse_statement()
    except RecursionError:
        # `MAX_NESTING` refuses deep texts first, unless the caller has already used most of Python's stack.
        raise _too_deep(0, len(text)) from None
    _check_height(select)
    return ParsedQuery(text, select)


def _too_deep(start: int, end: int) -> Exception:
    return bad_query(f"The query is nested more than {MAX_NESTING} levels deep.", start, end)


def _check_height(root: SyntaxNode) -> None:
    level: list[SyntaxNode] = [root]
    for _ in range(MAX_TREE_HEIGHT):
        level = [child for node in level for child in children(node)]
        if not level:
            return
    raise _too_deep(level[0].start, level[0].end)


class Parser:
    """Parses one query. Each method parses one construct and leaves `token` at the first token behind it."""

    def __init__(self, text: str, lenient: bool) -> None:
        self.lenient = lenient
        self.reserved = RESERVED if lenient else STRICTLY_RESERVED
        self.subqueries = 0
        """The number of subqueries around the current token."""
        self.tokens = tokenize(text)
        self.position = 0
        self.token = self.tokens[0]
        self.depth = 0

    # Tokens.

    def advance(self) -> Token:
        """Return the current token and step past it. The END token is never passed."""
        token = self.token
        if token.kind is not TokenKind.END:
            self.position += 1
            self.token = self.tokens[self.position]
        return token

    def peek(self, distance: int = 1) -> Token:
        """Return the token `distance` ahead."""
        return self.tokens[min(self.position + distance, len(self.tokens) - 1)]

    def accept(self, symbol: str) -> bool:
        """Step past `symbol`, a mark or an upper-case keyword, if it is the current token; return whether it was."""
        if self.token.upper != symbol:
            return False
        self.advance()
        return True

    def expect(self, symbol: str) -> None:
        """Step past `symbol`; BadQuery if it is not the current token."""
        if not self.accept(symbol):
            raise self.unexpected_token()

    def unexpected_token(self) -> Exception:
        """Return the syntax error at the current token."""
        return syntax_error(self.token.text, self.token.start, self.token.end)

    def last_end(self) -> int:
        """The end of the token before the current one."""
        return self.tokens[self.position - 1].end if self.position else 0

    def take_word(self) -> str:
        """Take a word, keywords included."""
        if self.token.kind is not TokenKind.WORD:
            raise self.unexpected_token()
        return self.advance().text

    def take_name(self) -> str:
        """Take a word where only a name can stand: after a dot, after AS, after `udf.`."""
        if not self.lenient and is_reserved(self.token.text):
            raise self.unexpected_token()
        return self.take_word()

    def at_identifier(self) -> bool:
        """True if the current token can name an alias or a source."""
        token = self.token
        return token.kind is TokenKind.WORD and token.upper not in self.reserved and token.text not in LITERALS

    def refuse_in_subquery(self, clause: str, start: int, code: str) -> None:
        """Refuse the clause that ends before the current token if it stands in a subquery."""
        if self.subqueries and not self.lenient:
            raise bad_query(f"{clause} is not supported in subqueries.", start, self.last_end(), code)

    # Clauses.

    def parse_statement(self) -> Select:
        """Parse a whole query."""
        select = self.parse_select()
        if self.token.kind is not TokenKind.END:
            raise self.unexpected_token()
        return select

    def parse_select(self) -> Select:
        """Parse `SELECT` with all its clauses."""
        start = self.token.start
        self.expect("SELECT")
        distinct = self.accept("DISTINCT")
        top = self.parse_top() if self.token.upper == "TOP" else None
        star, value, items = self.parse_selection()
        sources = self.parse_sources() if self.accept("FROM") else ()
        where = self.parse_expression() if self.accept("WHERE") else None
        group_by = self.parse_group_by() if self.accept("GROUP") else ()
        order_by = self.parse_order_by() if self.accept("ORDER") else ()
        offset, limit = self.parse_window() if self.token.upper == "OFFSET" else (None, None)
        return Select(
            distinct=distinct, top=top, star=star, value=value, items=items, sources=sources, where=where,
            group_by=group_by, order_by=order_by, offset=offset, limit=limit, start=start, end=self.last_end(),
        )  # fmt: skip

    def parse_top(self) -> Expression:
        """Parse `TOP n`."""
        start = self.advance().start
        found = self.parse_count()
        self.refuse_in_subquery("'TOP'", start, TOP_IN_SUBQUERY)
        return found

    def parse_window(self) -> tuple[Expression, Expression]:
        """Parse `OFFSET n LIMIT m`."""
        start = self.advance().start
        offset = self.parse_count()
        self.expect("LIMIT")
        limit = self.parse_count()
        self.refuse_in_subquery("'OFFSET LIMIT' clause", start, LIMIT_IN_SUBQUERY)
        return offset, limit

    def parse_count(self) -> Expression:
        """Parse the number of TOP, OFFSET or LIMIT: a literal or a parameter."""
        if self.token.kind not in (TokenKind.NUMBER, TokenKind.PARAMETER):
            raise self.unexpected_token()
        return self.parse_primary()

    def parse_selection(self) -> tuple[bool, Expression | None, tuple[SelectItem, ...]]:
        """Parse the SELECT list: (star, the expression after VALUE, the items)."""
        if self.accept("*"):
            return True, None, ()
        if self.accept("VALUE"):
            return False, self.parse_expression(), ()
        items = [self.parse_item()]
        while self.accept(","):
            items.append(self.parse_item())
        return False, None, tuple(items)

    def parse_item(self) -> SelectItem:
        """Parse `expression [[AS] alias]`."""
        start = self.token.start
        expression = self.parse_expression()
        alias: str | None = None
        if self.accept("AS"):
            alias = self.take_quoted_or_word() if self.lenient else self.take_name()
        elif self.at_identifier() or (self.lenient and self.token.kind is TokenKind.STRING):
            alias = self.take_quoted_or_word()
        return SelectItem(expression=expression, alias=alias, start=start, end=self.last_end())

    def take_quoted_or_word(self) -> str:
        """Take a name: a string literal or any word."""
        return str(self.advance().value) if self.token.kind is TokenKind.STRING else self.take_word()

    def parse_sources(self) -> tuple[FromSource, ...]:
        """Parse the inputs of FROM with their JOINs."""
        sources = [self.parse_source()]
        while self.accept("JOIN"):
            sources.append(self.parse_source())
        return tuple(sources)

    def parse_source(self) -> FromSource:
        """Parse `x IN collection` or `collection [[AS] alias]`."""
        start = self.token.start
        if self.at_identifier() and self.peek().upper == "IN":
            alias: str | None = self.take_word()
            self.advance()
            return FromSource(
                expression=self.parse_collection(), alias=alias, unnest=True, start=start, end=self.last_end()
            )
        expression = self.parse_collection()
        alias = None
        if self.accept("AS"):
            alias = self.take_name()
        elif self.at_identifier():
            alias = self.take_word()
        return FromSource(expression=expression, alias=alias, unnest=False, start=start, end=self.last_end())

    def parse_collection(self) -> Expression:
        """Parse a name, a path below a name, or a subquery."""
        token = self.token
        found = self.parse_operand()
        base = found.base if isinstance(found, Path) else found
        if isinstance(base, Name) or (isinstance(found, Subquery) and not found.form):
            return found
        raise syntax_error(token.text, token.start, token.end)

    def parse_group_by(self) -> tuple[Expression, ...]:
        """Parse `BY e, …` after GROUP."""
        self.expect("BY")
        return self.parse_expressions()

    def parse_order_by(self) -> tuple[Order, ...]:
        """Parse `BY e [ASC|DESC], …` or `BY RANK e` after ORDER."""
        start = self.tokens[self.position - 1].start
        self.expect("BY")
        # RANK is no reserved word: it may be the name of a sort key.
        if (
            self.token.upper == "RANK"
            and self.peek().kind is TokenKind.WORD
            and self.peek().upper not in _AFTER_SORT_KEY
        ):
            return (self.parse_rank(start),)
        orders = [self.parse_order()]
        while self.accept(","):
            orders.append(self.parse_order())
        self.refuse_in_subquery("'ORDER BY'", start, ORDER_IN_SUBQUERY)
        return tuple(orders)

    def parse_rank(self, start: int) -> Order:
        """Parse `RANK e`."""
        self.expect("RANK")
        expression = self.parse_expression()
        if self.token.upper in ("ASC", "DESC"):
            message = "Specifying a sort order (ASC or DESC) in the ORDER BY RANK clause is not allowed."
            raise bad_query(message, self.token.start, self.token.end)
        return Order(expression=expression, descending=False, rank=True, start=start, end=self.last_end())

    def parse_order(self) -> Order:
        """Parse one sort key."""
        start = self.token.start
        expression = self.parse_expression()
        direction = self.token
        descending = self.accept("DESC")
        if (descending or self.accept("ASC")) and is_distance(expression):
            message = "Specifying a sorting order (ASC or DESC) with VectorDistance function is not supported."
            raise bad_query(message, direction.start, direction.end)
        return Order(expression=expression, descending=descending, start=start, end=self.last_end())

    # Expressions.

    def parse_expressions(self) -> tuple[Expression, ...]:
        """Parse one or more expressions, separated by commas."""
        found = [self.parse_expression()]
        while self.accept(","):
            found.append(self.parse_expression())
        return tuple(found)

    def parse_expression(self, floor: int = 0) -> Expression:
        """Parse an expression whose infix operators bind at least as tightly as `floor`."""
        left = self.parse_operand()
        predicated = False
        while True:
            power = BINDING_POWERS.get(self.token.upper)
            if power is None or power < floor:
                return left
            # IN, BETWEEN and LIKE do not chain in the service's grammar: `a IN (1) LIKE b` needs brackets.
            predicate = power == _COMPARISON and self.token.kind is TokenKind.WORD
            if predicate and predicated and not self.lenient:
                raise self.unexpected_token()
            predicated = predicate
            left = self.parse_infix(left, power)

    def parse_infix(self, left: Expression, power: int) -> Expression:
        """Parse the operator at the current token with `left` as its left operand."""
        if power in (_AND, _OR):
            return self.parse_logical(left, power)
        if power == _CONDITIONAL:
            return self.parse_conditional(left)
        symbol = self.advance().upper
        if power == _COMPARISON and symbol.isalpha():
            return self.parse_predicate(left, symbol)
        # Operators of one power group to the left: the next of them ends this operand.
        right = self.parse_expression(power + 1)
        symbol = "!=" if symbol == "<>" else symbol
        return Binary(operator=symbol, left=left, right=right, start=left.start, end=right.end)

    def parse_logical(self, first: Expression, power: int) -> Expression:
        """Parse a chain of AND or of OR."""
        symbol = self.token.upper
        # One node for the whole chain: a tree with a level for each AND would exceed the limit of its height.
        operands = [first]
        while self.accept(symbol):
            operands.append(self.parse_expression(power + 1))
        return Logical(operator=symbol, operands=tuple(operands), start=first.start, end=operands[-1].end)

    def parse_conditional(self, test: Expression) -> Expression:
        """Parse `? chosen : otherwise`."""
        self.enter_level()
        self.expect("?")
        chosen = self.parse_expression()
        self.expect(":")
        # `a ? b : c ? d : e` groups to the right.
        otherwise = self.parse_expression(_CONDITIONAL)
        self.depth -= 1
        return Conditional(test=test, chosen=chosen, otherwise=otherwise, start=test.start, end=otherwise.end)

    def parse_predicate(self, operand: Expression, symbol: str) -> Expression:
        """Parse `[NOT] IN`, `[NOT] BETWEEN` or `[NOT] LIKE`; the caller has taken its first word."""
        negated = symbol == "NOT"
        if negated:
            symbol = self.advance().upper
        if symbol == "IN":
            choices = self.parse_bracketed("(", ")")
            if not choices:
                raise self.unexpected_token()
            return In(operand=operand, choices=choices, negated=negated, start=operand.start, end=self.last_end())
        if symbol == "BETWEEN":
            # A tighter power than AND has: the word between the bounds is not taken for the operator.
            low = self.parse_expression(_COMPARISON + 1)
            self.expect("AND")
            high = self.parse_expression(_COMPARISON + 1)
            return Between(operand=operand, low=low, high=high, negated=negated, start=operand.start, end=high.end)
        if symbol != "LIKE":
            # The error is at the word behind NOT, which was taken above.
            self.position -= 1
            self.token = self.tokens[self.position]
            raise self.unexpected_token()
        pattern = self.parse_expression(_COMPARISON + 1)
        escape = self.parse_primary() if self.accept("ESCAPE") else None
        return Like(
            operand=operand, pattern=pattern, escape=escape, negated=negated, start=operand.start, end=self.last_end()
        )

    def enter_level(self) -> None:
        """Enter one level of nesting. The caller leaves it with `depth -= 1`."""
        self.depth += 1
        if self.depth > MAX_NESTING:
            raise _too_deep(self.token.start, self.token.end)

    def parse_bracketed(self, opening: str, closing: str) -> tuple[Expression, ...]:
        """Parse `opening e, … closing`, possibly empty."""
        self.enter_level()
        self.expect(opening)
        found: tuple[Expression, ...] = ()
        if self.token.upper != closing:
            found = self.parse_expressions()
        self.expect(closing)
        self.depth -= 1
        return found

    def parse_operand(self) -> Expression:
        """Parse a prefix operator with its operand, or a primary with the path below it."""
        token = self.token
        if token.upper in ("NOT", "-", "+", "~"):
            self.enter_level()
            self.advance()
            operand = self.parse_operand()
            self.depth -= 1
            return Unary(operator=token.upper, operand=operand, start=token.start, end=operand.end)
        base = self.parse_primary()
        if self.token.upper not in (".", "["):
            return base
        steps: list[Expression] = []
        while self.token.upper in (".", "["):
            steps.append(self.parse_step())
        return Path(base=base, steps=tuple(steps), start=token.start, end=self.last_end())

    def parse_step(self) -> Expression:
        """Parse `.name` or `[expression]`."""
        if self.advance().upper == ".":
            token = self.token
            return Literal(value=self.take_name(), start=token.start, end=token.end)
        self.enter_level()
        found = self.parse_expression()
        self.expect("]")
        self.depth -= 1
        return found

    def parse_primary(self) -> Expression:
        """Parse a literal, parameter, name, call, constructor, bracket or subquery."""
        token = self.token
        if token.kind is TokenKind.NUMBER or token.kind is TokenKind.STRING:
            self.advance()
            return Literal(value=token.value, start=token.start, end=token.end)
        if token.kind is TokenKind.PARAMETER:
            self.advance()
            return QueryParameter(name=token.text, start=token.start, end=token.end)
        if token.upper == "(":
            return self.parse_parenthesis()
        if token.upper == "[":
            items = self.parse_bracketed("[", "]")
            return Array(items=items, start=token.start, end=self.last_end())
        if token.upper == "{":
            return self.parse_object()
        if token.kind is TokenKind.WORD:
            return self.parse_word_expression()
        raise self.unexpected_token()

    def parse_parenthesis(self) -> Expression:
        """Parse `(e)` or `(SELECT …)`."""
        if self.peek().upper == "SELECT":
            return self.parse_subquery("", self.token.start)
        self.enter_level()
        self.advance()
        found = self.parse_expression()
        self.expect(")")
        self.depth -= 1
        return found

    def parse_subquery(self, form: str, start: int) -> Subquery:
        """Parse `(SELECT …)`; the caller has taken the word before it."""
        self.depth += SUBQUERY_LEVELS - 1
        self.enter_level()
        self.expect("(")
        self.subqueries += 1
        select = self.parse_select()
        self.subqueries -= 1
        self.expect(")")
        self.depth -= SUBQUERY_LEVELS
        return Subquery(form=form, select=select, start=start, end=self.last_end())

    def parse_object(self) -> Expression:
        """Parse `{name: e, …}`."""
        start = self.token.start
        self.enter_level()
        self.advance()
        fields: list[Field] = []
        while not self.accept("}"):
            if fields:
                self.expect(",")
            at = self.token.start
            name = self.take_quoted_or_word()
            self.expect(":")
            value = self.parse_expression()
            fields.append(Field(name=name, value=value, start=at, end=value.end))
        self.depth -= 1
        return Object(fields=tuple(fields), start=start, end=self.last_end())

    def parse_word_expression(self) -> Expression:
        """Parse an expression that starts with a word: literal, subquery form, call or name."""
        token = self.token
        if token.text in LITERALS:
            self.advance()
            return Literal(value=LITERALS[token.text], start=token.start, end=token.end)
        if token.upper in _SUBQUERY_FORMS and self.peek().upper == "(" and self.peek(2).upper == "SELECT":
            self.advance()
            return self.parse_subquery(token.upper, token.start)
        udf = token.upper == "UDF" and self.peek().upper == "."
        if udf:
            self.advance()
            self.advance()
            name = self.take_name()
        # LEFT and RIGHT are reserved words and functions. A bracket makes the difference.
        elif token.upper in self.reserved and not (token.upper in _RESERVED_FUNCTIONS and self.peek().upper == "("):
            raise self.unexpected_token()
        else:
            name = self.advance().text
        if not udf and self.token.upper != "(":
            return Name(name=name, start=token.start, end=token.end)
        arguments = self.parse_bracketed("(", ")")
        return FunctionCall(name=name, arguments=arguments, udf=udf, start=token.start, end=self.last_end())
