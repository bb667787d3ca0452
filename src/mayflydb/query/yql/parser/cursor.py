"""A cursor over the tokens of a text, with the operations that all parts of the parser share."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, NoReturn, TypeVar

from mayflydb.query.yql.faults import Fault, Position, fault, syntax_fault, unsupported
from mayflydb.query.yql.keywords import KEYWORDS
from mayflydb.query.yql.lexer import END, ID, QUOTED, STRING, Tokens
from mayflydb.query.yql.parser.literals import unquote
from mayflydb.query.yql.syntax import At

MAX_DEPTH: Final = 64
"""Nested brackets that the parser accepts. Each level takes several frames of the stack, here and in the binder."""

_WORDS: Final = frozenset({ID, QUOTED, *KEYWORDS.values()})
# TRUE and FALSE are literals wherever an expression may stand; in backticks they are names.
_NAMES: Final = _WORDS - {"TRUE", "FALSE"}
_T = TypeVar("_T")


class TokenCursor:
    """Reads tokens in order. `kinds` and `texts` are those of all tokens; `index` is the number of the next one."""

    def __init__(self, tokens: Tokens) -> None:
        self.tokens = tokens
        self.kinds = tokens.kinds
        self.texts = tokens.texts
        self.index = 0
        self._depth = 0
        self._positions: dict[int, At] = {}

    @property
    def kind(self) -> str:
        return self.kinds[self.index]

    @property
    def next_kind(self) -> str:
        """The kind of the token after the next one; at the end, the end's own kind."""
        return self.kinds[self.index + 1] if self.index + 1 < len(self.kinds) else END

    def kind_at(self, distance: int) -> str:
        """The kind of the token at this distance from the next one."""
        index = self.index + distance
        return self.kinds[index] if index < len(self.kinds) else END

    def at(self, index: int | None = None) -> At:
        """The position of a token; without `index`, of the next one."""
        if index is None:
            index = self.index
        place = self._positions.get(index)
        if place is None:
            place = self._positions[index] = self.tokens.positions.at(self.tokens.starts[index])
        return place

    def accept(self, kind: str) -> bool:
        """Consume the next token if it is of this kind; True if it is."""
        if self.kinds[self.index] == kind:
            self.index += 1
            return True
        return False

    def accept_words(self, *words: str) -> bool:
        """Consume these words if they all come next, in this order; True if they do."""
        start = self.index
        if self.kinds[start : start + len(words)] == list(words):
            self.index += len(words)
            return True
        return False

    def accept_any(self, kinds: Collection[str]) -> str | None:
        """Consume the next token if it is of one of these kinds, and return its kind; else None."""
        kind = self.kinds[self.index]
        if kind in kinds:
            self.index += 1
            return kind
        return None

    def expect(self, *kinds: str) -> None:
        """Consume tokens of these kinds in order. Faults: a token of another kind."""
        for kind in kinds:
            if self.kinds[self.index] != kind:
                self.fail(kind)
            self.index += 1

    def expect_any(self, kinds: Collection[str]) -> str:
        """Consume a token of one of these kinds, and return its kind. Faults: a token of another kind."""
        kind = self.accept_any(kinds)
        return kind if kind is not None else self.fail(*kinds)

    def adjacent(self, count: int) -> bool:
        """True if the next `count` tokens follow each other without blanks."""
        tokens, index = self.tokens, self.index
        return all(tokens.end(each) == tokens.starts[each + 1] for each in range(index, index + count - 1))

    def parse_list(self, read: Callable[[], _T], close: str | None = ")") -> tuple[_T, ...]:
        """Parse a list with commas. With `close`, consume this sign at its end; a comma may come before it."""
        found = [read()]
        while self.accept(","):
            if close is not None and self.kinds[self.index] == close:
                break
            found.append(read())
        if close is not None:
            self.expect(close)
        return tuple(found)

    def parse_in_parentheses(self, read: Callable[[], _T]) -> tuple[_T, ...]:
        """Parse a list with commas in parentheses; it has at least one item."""
        self.expect("(")
        return self.parse_list(read)

    # --- names ---------------------------------------------------------------------------------------------------------

    def is_word(self, distance: int = 0) -> bool:
        """True if the token at this distance is a name or a keyword."""
        return self.kind_at(distance) in _WORDS

    def name(self) -> str:
        """Parse a name, without its backticks. A keyword may be a name, too."""
        kind = self.kinds[self.index]
        if kind not in _NAMES:
            # A text in quotes where a name is expected has a message of its own in YDB.
            if kind == STRING:
                raise fault("String literal can not be used here", self.at())
            self.fail(ID, QUOTED)
        self.index += 1
        text = self.texts[self.index - 1]
        return self.unquote_name(text) if kind == QUOTED else text

    def unquote_name(self, text: str) -> str:
        """Decode a quoted name. Faults: an unknown escape, text that is no UTF-8."""
        try:
            return unquote(text)
        except ValueError as error:
            raise fault(f"Cannot parse broken identifier: {error}", self.at(self.index - 1)) from None

    def word(self) -> str:
        """Consume the next token, and return its text in capitals, for a refusal that names it."""
        self.index += 1
        return self.texts[self.index - 1].upper()

    # --- what cannot be read --------------------------------------------------------------------------------------------

    def fail(self, *expected: str) -> NoReturn:
        """Refuse the next token, and name the kinds that were expected."""
        kind = self.kinds[self.index]
        # The words of ANTLR, whose messages YDB shows: a token is extraneous if the one behind it was expected.
        said = "extraneous" if kind != END and self.next_kind in expected else "mismatched"
        shown = [
            each if each.isidentifier() or each == END else f"'{each}'" for each in sorted(set(expected), key=_rank)
        ]
        wanted = shown[0] if len(shown) == 1 else "{" + ", ".join(shown) + "}"
        raise self.grammar_fault(f"{said} input '{self.next_text()}' expecting {wanted}")

    def next_text(self) -> str:
        """The text of the next token as refusals show it."""
        text = self.texts[self.index]
        if self.kinds[self.index] == END:
            return END
        return text.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")

    def grammar_fault(self, message: str) -> Fault:
        """A syntax error at the next token. As in YDB, the columns of grammar errors, and only these, count from 0."""
        place = self.at()
        return syntax_fault(message, Position(place.row, place.column - 1))

    def refuse(self, what: str, index: int | None = None) -> NoReturn:
        """Refuse syntax that YDB has and Mayfly does not support."""
        raise unsupported(what, self.at(index))

    # --- depth ----------------------------------------------------------------------------------------------------------

    def enter(self) -> None:
        """Enter a bracket. `leave` follows at its end; a Fault needs no `leave`, since it ends the parsing."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self.too_deep()

    def too_deep(self) -> Fault:
        """The refusal of too many nested brackets."""
        return fault(f"Nesting deeper than {MAX_DEPTH} is not supported", self.at())

    def leave(self, levels: int = 1) -> None:
        self._depth -= levels


def _rank(kind: str) -> tuple[int, str]:
    # ANTLR lists what it expected in the order of its tokens: the end, signs, words.
    if kind == END:
        return 0, ""
    return (2 if kind.isidentifier() else 1), kind
