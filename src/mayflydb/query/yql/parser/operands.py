"""Operands: literals, names, calls, brackets, CASE and CAST, followed by any `.x`, `[x]` and `(x)`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Final

from mayflydb.query.yql.faults import Fault, fault
from mayflydb.query.yql.keywords import RESERVED
from mayflydb.query.yql.lexer import END, ID, INTEGER, QUOTED, REAL, STRING
from mayflydb.query.yql.parser.calls import mark_type_arguments
from mayflydb.query.yql.parser.literals import split_integer
from mayflydb.query.yql.parser.type_names import COMPOSITE, TypeNames
from mayflydb.query.yql.syntax import (
    Apply,
    Argument,
    At,
    Binding,
    Case,
    Cast,
    DictLiteral,
    Expression,
    FunctionCall,
    Json,
    Lambda,
    ListLiteral,
    Literal_,
    Member,
    Name,
    NamedMember,
    Parameter,
    Query,
    QuerySource,
    StructLiteral,
    Subquery,
    Subscript,
    TupleLiteral,
    TypeArgument,
    Unary,
    Window,
)

_QUERY_BEGINS: Final = frozenset({"SELECT", "FROM", "PROCESS", "REDUCE"})
_MAYBE_QUERY_BEGINS: Final = frozenset({"COMBINE", "DISCARD", "WITH"})
_SIGNS: Final = {"-": "-", "+": "+", "~": "~", "NOT": "NOT"}
_INTEGER_SUFFIXES: Final = frozenset({"", "l", "s", "t", "u", "ul", "us", "ut"})
# The longest integer that fits has 64 binary digits, a prefix and a suffix. Longer texts never reach int(), whose time
# grows with the square of the length.
_MAX_DIGITS: Final = 80
# Each access makes the tree deeper, without a bracket that counts.
_MAX_ACCESSES: Final = 80
_SUFFIX_TYPES: Final = {
    "": "Uint64",
    "l": "Int64",
    "s": "Int16",
    "t": "Int8",
    "u": "Uint32",
    "ul": "Uint64",
    "us": "Uint16",
    "ut": "Uint8",
}
# Bits of the largest value. A minus is an operator of its own, so signed types have one bit less, and no suffix means
# up to Uint64.
_SUFFIX_BITS: Final = {"": 64, "l": 63, "s": 15, "t": 7, "u": 32, "ul": 64, "us": 16, "ut": 8}


class Operands(TypeNames):
    @abstractmethod
    def expression(self) -> Expression:
        """Parse an expression."""

    @abstractmethod
    def query(self) -> Query:
        """Parse a query: SELECT, VALUES, or several with UNION, EXCEPT or INTERSECT between them."""

    @abstractmethod
    def further_queries(self, first: Query) -> Query:
        """Parse the rest of a query whose first part is `first`: UNION, EXCEPT or INTERSECT and more queries."""

    @abstractmethod
    def over(self) -> Window | str:
        """Parse the window behind OVER, or its name."""

    @abstractmethod
    def json(self) -> Json:
        """Parse `JSON_VALUE(...)`, `JSON_EXISTS(...)` or `JSON_QUERY(...)`."""

    def operand(self) -> Expression:
        """Parse an operand with its signs."""
        sign = _SIGNS.get(self.kinds[self.index])
        if sign is None:
            return self.unsigned()
        at = self.at()
        self.index += 1
        self.enter()
        operand = self.operand()
        self.leave()
        return Unary(at, sign, operand)

    def unsigned(self) -> Expression:
        """Parse an operand without a sign, and its suffixes."""
        read = _READERS.get(self.kinds[self.index])
        found = read(self) if read is not None else self._name_or_call()
        return self.suffixes(found) if self.kinds[self.index] in (".", "[", "(", "COLLATE") else found

    def suffixes(self, found: Expression) -> Expression:
        """Parse any number of `.name`, `.0`, `[index]` and `(arguments)`."""
        length = 0
        while True:
            kind = self.kinds[self.index]
            if kind == ".":
                self.index += 1
                found = self._member(found)
            elif kind == "[":
                self.index += 1
                self.enter()
                found = Subscript(found.at, found, self.expression())
                self.leave()
                self.expect("]")
            elif kind == "(":
                arguments, distinct, star = self._arguments()
                if distinct or star:
                    self.index -= 1
                    self.fail(",", ")")
                found = Apply(found.at, found, arguments)
            elif kind == "COLLATE":
                self.refuse("COLLATE")
            else:
                return found
            length += 1
            if length > _MAX_ACCESSES:
                raise fault(f"More than {_MAX_ACCESSES} accesses in a row are not supported", self.at())

    def _member(self, of: Expression) -> Expression:
        kind, text = self.kind, self.texts[self.index]
        if kind == INTEGER and text.isdigit() and len(text) <= 9:
            self.index += 1
            return Member(of.at, of, int(text))
        # The lexer takes `0.1` of `t.0.1` for a real number. In `t.0.a` the number is `0.`, and its point is the one
        # before `a`.
        if kind == REAL and text.replace(".", "", 1).isdigit() and len(text) <= 9:
            self.index += 1
            first, second = text.split(".")
            inner = Member(of.at, of, int(first))
            return Member(of.at, inner, int(second)) if second else self._member(inner)
        if kind == "$":
            return NamedMember(of.at, of, self.parameter())
        return Member(of.at, of, self.name())

    # --- names and calls ------------------------------------------------------------------------------------------------

    def _name_or_call(self) -> Expression:
        """Parse a name, a call, or a type in the place of a value."""
        kind, following = self.kind, self.next_kind
        at = self.at()
        # `Struct<>` has no arguments: the lexer finds the sign `<>` in it, the inequality.
        if following == "<" or following == "<>":
            found = self._type_argument() if kind in COMPOSITE else None
            if found is not None:
                return found
        if kind in RESERVED or not self.is_word():
            self.fail_at_operand()
        quoted = kind == QUOTED
        name = self.name()
        if following == "::":
            self.index += 1
            name = f"{name}::{self.name()}"
        if self.kinds[self.index] != "(":
            return Name(at, name, quoted)
        return self._call(at, name)

    def fail_at_operand(self) -> Any:
        """Refuse a token that begins no expression."""
        self.fail(
            "(", "[", "{", "$", "-", "+", "~", "<|", "CASE", "CAST", "NOT", "NULL", ID, QUOTED, INTEGER, REAL, STRING
        )

    def _type_argument(self) -> Expression | None:
        """Parse `List<Int32>`; None if `<` is a comparison with a column of that name."""
        start, depth = self.index, self._depth
        try:
            return TypeArgument(self.at(), self.type_name())
        except Fault:
            # The refused type may have entered brackets that it did not leave.
            self.index, self._depth = start, depth
            return None

    def _call(self, at: At, name: str) -> FunctionCall:
        arguments, distinct, star = self._arguments()
        ignore_nulls: bool | None = None
        over: Window | str | None = None
        # IGNORE and RESPECT are names elsewhere; NULLS behind them decides.
        if self.kind in ("IGNORE", "RESPECT") and self.next_kind == "NULLS":
            ignore_nulls = self.kind == "IGNORE"
            self.index += 2
        if self.kind == "FILTER" and self.next_kind == "(":
            self.refuse("FILTER of an aggregate function")
        if self.accept("OVER"):
            over = self.over()
        return FunctionCall(at, name, mark_type_arguments(name, arguments), distinct, star, over, ignore_nulls)

    def _arguments(self) -> tuple[tuple[Argument, ...], bool, bool]:
        """Parse the brackets of a call: the arguments, True for DISTINCT, True for a star."""
        self.expect("(")
        if self.accept(")"):
            return (), False, False
        if self.kind == "*" and self.next_kind == ")":
            self.index += 2
            return (), False, True
        distinct = self.kind == "DISTINCT"
        if distinct or self.kind == "ALL":
            self.index += 1
        self.enter()
        arguments = self.parse_list(self.argument)
        self.leave()
        return arguments, distinct, False

    def argument(self) -> Argument:
        """`value`, or `value AS name`."""
        at = self.at()
        value = self.expression()
        return Argument(at, value, self.name() if self.accept("AS") else None)

    # --- literals -------------------------------------------------------------------------------------------------------

    def literal(self) -> Literal_:
        """A literal without a sign."""
        read = _LITERALS.get(self.kind)
        if read is None:
            self.fail("FALSE", INTEGER, "NULL", REAL, STRING, "TRUE")
        return read(self)

    def integer(self) -> Literal_:
        at = self.at()
        self.index += 1
        text = self.texts[self.index - 1]
        if len(text) > _MAX_DIGITS:
            raise _overflow(text, at)
        value, suffix = split_integer(text)
        if suffix not in _INTEGER_SUFFIXES:
            raise fault(f"Failed to parse number from string: {text}, unknown suffix {suffix}", at)
        # YDB has two messages: for more than 64 bits, and for more bits than the suffix allows.
        if value >> 64:
            raise _overflow(text, at)
        if value >> _SUFFIX_BITS[suffix]:
            kind = _SUFFIX_TYPES[suffix]
            raise fault(f"Failed to parse {value} as integer literal of {kind} type: value out of range for {kind}", at)
        return Literal_(at, "integer", value, suffix)

    def real(self) -> Literal_:
        at = self.at()
        text = self.texts[self.index].lower()
        self.index += 1
        if "p" in text:
            self.refuse("A number for PostgreSQL", self.index - 1)
        single = text.endswith("f")
        value = float(text.removesuffix("f"))
        if value == float("inf"):
            raise _overflow(text, at)
        return Literal_(at, "float" if single else "double", value, "f" if single else "")

    def string(self) -> Literal_:
        """A text: bytes for a String or Yson, str for a Utf8 or Json."""
        at = self.at()
        value, suffix = self.bytes_of(self.index)
        if suffix.startswith("p"):
            self.refuse("A text for PostgreSQL")
        if suffix in ("u", "j"):
            text = self.text_of(self.index)
            self.index += 1
            return Literal_(at, "string", text, suffix)
        self.index += 1
        return Literal_(at, "string", value, suffix)

    def constant(self) -> Literal_:
        """TRUE, FALSE or NULL."""
        at, kind = self.at(), self.kind
        self.index += 1
        return Literal_(at, "null", None) if kind == "NULL" else Literal_(at, "bool", kind == "TRUE")

    def parameter_name(self) -> str:
        """`$name`, without the dollar."""
        self.expect("$")
        # Behind a dollar these two are names.
        if self.kind in ("TRUE", "FALSE"):
            self.index += 1
            return self.texts[self.index - 1]
        name = self.name()
        if not name:
            raise fault("Empty symbol name is not allowed", self.at(self.index - 2))
        return name

    def parameter(self) -> Parameter:
        return Parameter(self.at(), self.parameter_name())

    # --- brackets -------------------------------------------------------------------------------------------------------

    def parenthesized_value(self) -> Expression:
        return self.parentheses()[0]

    def parentheses(self) -> tuple[Expression, bool]:
        """Parse parentheses: an expression, a query, a tuple, a struct, or the parameters of a lambda.

        Returns True if they hold one expression alone.
        """
        at = self.at()
        if self._is_lambda():
            return self._lambda(at), False
        self.enter()
        self.index += 1
        found = self._bracket_content(at)
        self.leave()
        return found

    def _bracket_content(self, at: At) -> tuple[Expression, bool]:
        if self.begins_query():
            query = self.query()
            self.expect(")")
            return Subquery(at, query), True
        if self.accept(","):
            self.expect(")")
            return TupleLiteral(at, ()), False
        if self.accept(")"):
            return TupleLiteral(at, ()), False
        first = self.argument()
        # `((SELECT 1) UNION SELECT 2)`: the parentheses that looked like a value were the first query.
        if self.kind in ("UNION", "EXCEPT", "INTERSECT"):
            query = self.further_queries(self._as_query(first.value))
            self.expect(")")
            return Subquery(at, query), True
        if first.name is None and self.accept(")"):
            return first.value, True
        items = [first]
        while self.accept(","):
            if self.kind == ")":
                break
            items.append(self.argument())
        self.expect(")")
        names = [each.name for each in items if each.name is not None]
        if not names:
            return TupleLiteral(at, tuple(each.value for each in items)), False
        if len(names) < len(items):
            raise fault("Structure does not allow anonymous members", at)
        return StructLiteral(at, tuple((each.name or "", each.value) for each in items)), False

    def begins_query(self) -> bool:
        """True if a query comes next, and not an expression that begins with the same word."""
        kind = self.kind
        # VALUES, COMBINE, DISCARD and WITH may name columns: the next token decides.
        if kind == "VALUES":
            return self.next_kind == "("
        return kind in _QUERY_BEGINS or (kind in _MAYBE_QUERY_BEGINS and self.is_word(1) and self.next_kind != "AS")

    def _as_query(self, operand: Expression) -> Query:
        if isinstance(operand, Subquery):
            return operand.query
        if isinstance(operand, Parameter):
            return QuerySource(operand.at, parameter=operand.name)
        return self.fail(")", ",")

    def _is_lambda(self) -> bool:
        """True if the next parentheses hold only parameters, and an arrow follows."""
        # `($a, $b)` alone is a tuple, so the arrow must be seen before parsing begins.
        kinds, index = self.kinds, self.index + 1
        while kinds[index] == "$":
            index += 2
            if index >= len(kinds):
                return False
            if kinds[index] == "?":
                index += 1
            if kinds[index] == ",":
                index += 1
        return kinds[index] == ")" and kinds[min(index + 1, len(kinds) - 1)] == "->"

    def _lambda(self, at: At) -> Lambda:
        self.index += 1
        names, optional = self.parameters()
        self.expect("->")
        self.enter()
        bindings: tuple[Binding, ...] = ()
        if self.accept("("):
            body = self.expression()
            self.expect(")")
        else:
            self.expect("{")
            bindings, body = self._block()
        self.leave()
        return Lambda(at, names, bindings, body, optional)

    def parameters(self) -> tuple[tuple[str, ...], int]:
        """Parse `$a, $b?)`, after the opening parenthesis: the names, and how many of the last ones a call may omit."""
        names: list[str] = []
        optional = 0
        while not self.accept(")"):
            if names:
                self.expect(",")
                if self.accept(")"):
                    break
            at = self.at()
            names.append(self.parameter_name())
            if self.accept("?"):
                optional += 1
            elif optional:
                raise fault("Non-optional argument can not follow optional one", at)
        return tuple(names), optional

    def _block(self) -> tuple[tuple[Binding, ...], Expression]:
        """`$x = ..; RETURN y; }`"""
        bindings: list[Binding] = []
        while True:
            while self.accept(";"):
                pass
            if self.accept("RETURN"):
                break
            if self.kind == "IMPORT":
                self.refuse("IMPORT")
            if self.kind != "$":
                self.fail("$", "RETURN")
            bindings.append(self.binding())
            self.expect(";")
        body = self.expression()
        while self.accept(";"):
            pass
        self.expect("}")
        return tuple(bindings), body

    @abstractmethod
    def binding(self) -> Binding:
        """`$a, $b = value`"""

    def list_literal(self) -> ListLiteral:
        at = self.at()
        self.index += 1
        return ListLiteral(at, self._items("]", self.expression))

    def dict_literal(self) -> DictLiteral:
        at = self.at()
        self.index += 1
        items = self._items("}", self._pair)
        # Each item is parsed as a pair or a key; all of them must be of one kind.
        if len({payload is None for _, payload in items}) > 1:
            raise fault("Expecting either a dict or a set, keys with values are mixed with keys alone", at)
        return DictLiteral(at, items)

    def _pair(self) -> tuple[Expression, Expression | None]:
        key = self.expression()
        return key, self.expression() if self.accept(":") else None

    def struct_literal(self) -> StructLiteral:
        at = self.at()
        self.index += 1
        return StructLiteral(at, self._items("|>", self._struct_member))

    def _struct_member(self) -> tuple[str | Expression, Expression]:
        computed = self.kind in ("$", "(") or (self.kind == STRING and self.next_kind != ":")
        name = self.expression() if computed else self.tag()
        self.expect(":")
        return name, self.expression()

    def _items(self, close: str, read: Callable[[], Any]) -> tuple[Any, ...]:
        if self.kind == "," and self.next_kind == close:
            self.index += 1
        if self.accept(close):
            return ()
        self.enter()
        items = self.parse_list(read, close)
        self.leave()
        return items

    # --- special forms --------------------------------------------------------------------------------------------------

    def case(self) -> Case:
        at = self.at()
        self.index += 1
        self.enter()
        operand = None if self.kind == "WHEN" else self.expression()
        branches = []
        while self.accept("WHEN"):
            condition = self.expression()
            if not self.accept("THEN"):
                raise self.grammar_fault(f"missing THEN at '{self.next_text()}'")
            branches.append((condition, self.expression()))
        if not branches:
            self.fail("WHEN")
        otherwise = self.expression() if self.accept("ELSE") else None
        if not self.accept("END"):
            self.fail(*(("END",) if otherwise is not None else ("ELSE", "END", "WHEN")))
        if otherwise is None:
            raise fault("ELSE is required", at)
        self.leave()
        return Case(at, operand, tuple(branches), otherwise)

    def cast(self) -> Cast:
        at = self.at()
        bitwise = self.kind == "BITCAST"
        self.index += 1
        self.expect("(")
        self.enter()
        operand = self.expression()
        self.leave()
        self.expect("AS")
        to = self.type_name()
        self.expect(")")
        return Cast(at, operand, to, bitwise)

    def exists(self) -> Subquery:
        at = self.at()
        self.index += 1
        self.expect("(")
        self.enter()
        query = self.query()
        self.leave()
        self.expect(")")
        return Subquery(at, query, exists=True)

    def refused_word(self) -> Any:
        self.refuse(self.kind)


def _overflow(text: str, at: At) -> Fault:
    return fault(f"Failed to parse number from string: {text}, number limit overflow", at)


_LITERALS: Final[dict[str, Callable[[Operands], Literal_]]] = {
    STRING: Operands.string,
    INTEGER: Operands.integer,
    REAL: Operands.real,
    **dict.fromkeys(("NULL", "TRUE", "FALSE"), Operands.constant),
}
_READERS: Final[dict[str, Callable[[Operands], Expression]]] = {
    **_LITERALS,
    "$": Operands.parameter,
    "(": Operands.parenthesized_value,
    "[": Operands.list_literal,
    "{": Operands.dict_literal,
    "<|": Operands.struct_literal,
    "CASE": Operands.case,
    "CAST": Operands.cast,
    "BITCAST": Operands.cast,
    "EXISTS": Operands.exists,
    **dict.fromkeys(("JSON_VALUE", "JSON_EXISTS", "JSON_QUERY"), lambda cursor: cursor.json()),
    **dict.fromkeys(("CURRENT_TIME", "CURRENT_DATE", "CURRENT_TIMESTAMP", "EMPTY_ACTION"), Operands.refused_word),
    END: Operands.fail_at_operand,
}
