"""A place in the tokens of a text, and what every part of the parser asks of it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, NoReturn, TypeVar

from mayflydb.query.yql.faults import Fault, Position, fault, syntax_fault, unsupported
from mayflydb.query.yql.keywords import KEYWORDS
from mayflydb.query.yql.lexer import END, ID, QUOTED, STRING, Tokens
from mayflydb.query.yql.parser.literals import unquote
from mayflydb.query.yql.syntax import At

MAX_DEPTH: Final = 64
"""Brackets in one another that are still read: each costs a handful of frames of the stack here and in whoever binds them."""

_WORDS: Final = frozenset({ID, QUOTED, *KEYWORDS.values()})
_NAMES: Final = _WORDS - {"TRUE", "FALSE"}
_T = TypeVar("_T")


class TokenCursor:
    """Reads tokens one after the other; `kinds` and `texts` are theirs, `index` is the next one's number."""

    def __init__(self, tokens: Tokens) -> None:
        self.tokens = tokens
        self.kinds = tokens.kinds
        self.texts = tokens.texts
        self.index = 0
        self._depth = 0
        self._places: dict[int, At] = {}

    @property
    def kind(self) -> str:
        return self.kinds[self.index]

    @property
    def next_kind(self) -> str:
        """The kind of the token behind the next one; the end's own at the end."""
        return self.kinds[self.index + 1] if self.index + 1 < len(self.kinds) else END

    def kind_at(self, distance: int) -> str:
        """The kind of the token so many behind the next one."""
        index = self.index + distance
        return self.kinds[index] if index < len(self.kinds) else END

    def at(self, index: int | None = None) -> At:
        """Where a token begins; the next one, if none is named."""
        if index is None:
            index = self.index
        place = self._places.get(index)
        if place is None:
            place = self._places[index] = self.tokens.places.at(self.tokens.starts[index])
        return place

    def accept(self, kind: str) -> bool:
        """Pass over the next token if it is of this kind."""
        if self.kinds[self.index] == kind:
            self.index += 1
            return True
        return False

    def accept_words(self, *words: str) -> bool:
        """Pass over all of these if they come next, or over none."""
        start = self.index
        if self.kinds[start : start + len(words)] == list(words):
            self.index += len(words)
            return True
        return False

    def accept_any(self, kinds: Collection[str]) -> str | None:
        """Pass over one of these, and say which."""
        kind = self.kinds[self.index]
        if kind in kinds:
            self.index += 1
            return kind
        return None

    def expect(self, *kinds: str) -> None:
        """Pass over these, one after the other. Faults: what comes is something else."""
        for kind in kinds:
            if self.kinds[self.index] != kind:
                self.fail(kind)
            self.index += 1

    def expect_any(self, kinds: Collection[str]) -> str:
        """Pass over one of these. Faults: what comes is something else."""
        kind = self.accept_any(kinds)
        return kind if kind is not None else self.fail(*kinds)

    def adjacent(self, count: int) -> bool:
        """Whether this many tokens from the next one on follow each other without a blank."""
        tokens, index = self.tokens, self.index
        return all(tokens.end(each) == tokens.starts[each + 1] for each in range(index, index + count - 1))

    def list_of(self, read: Callable[[], _T], close: str | None = ")") -> tuple[_T, ...]:
        """Things with commas between them. With `close`: up to and with this sign; the last comma may have nothing behind it."""
        found = [read()]
        while self.accept(","):
            if close is not None and self.kinds[self.index] == close:
                break
            found.append(read())
        if close is not None:
            self.expect(close)
        return tuple(found)

    def in_parentheses(self, read: Callable[[], _T]) -> tuple[_T, ...]:
        """One thing or more between parentheses, with commas between them."""
        self.expect("(")
        return self.list_of(read)

    # --- names ---------------------------------------------------------------------------------------------------------

    def is_word(self, distance: int = 0) -> bool:
        """Whether a name or a keyword comes."""
        return self.kind_at(distance) in _WORDS

    def name(self) -> str:
        """A name, be it a keyword; without its backticks."""
        kind = self.kinds[self.index]
        if kind not in _NAMES:
            if kind == STRING:
                raise fault("String literal can not be used here", self.at())
            self.fail(ID, QUOTED)
        self.index += 1
        text = self.texts[self.index - 1]
        return self.unquote_name(text) if kind == QUOTED else text

    def unquote_name(self, text: str) -> str:
        """What a quoted name says. Faults: an escape that is none, text that is no UTF-8."""
        try:
            return unquote(text)
        except ValueError as error:
            raise fault(f"Cannot parse broken identifier: {error}", self.at(self.index - 1)) from None

    def word(self) -> str:
        """The next token in capitals, whatever word it is, passed over; for what is named in refusals."""
        self.index += 1
        return self.texts[self.index - 1].upper()

    # --- what cannot be read --------------------------------------------------------------------------------------------

    def fail(self, *expected: str) -> NoReturn:
        """Something else was expected here."""
        kind = self.kinds[self.index]
        said = "extraneous" if kind != END and self.next_kind in expected else "mismatched"
        shown = [
            each if each.isidentifier() or each == END else f"'{each}'" for each in sorted(set(expected), key=_rank)
        ]
        wanted = shown[0] if len(shown) == 1 else "{" + ", ".join(shown) + "}"
        raise self.grammar_fault(f"{said} input '{self.next_text()}' expecting {wanted}")

    def next_text(self) -> str:
        """The next token as refusals show it."""
        text = self.texts[self.index]
        if self.kinds[self.index] == END:
            return END
        return text.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")

    def grammar_fault(self, message: str) -> Fault:
        """A syntax error at the next token. Its column counts from 0, as YDB's do where the grammar fails, and only there."""
        place = self.at()
        return syntax_fault(message, Position(place.row, place.column - 1))

    def refuse(self, what: str, index: int | None = None) -> NoReturn:
        """What the grammar has and Mayfly has not."""
        raise unsupported(what, self.at(index))

    # --- depth ----------------------------------------------------------------------------------------------------------

    def enter(self) -> None:
        """One bracket deeper; `leave` is called behind its end, but not on the way of a Fault out."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self.too_deep()

    def too_deep(self) -> Fault:
        """More brackets in one another than are read."""
        return fault(f"Nesting deeper than {MAX_DEPTH} is not supported", self.at())

    def leave(self, levels: int = 1) -> None:
        self._depth -= levels


def _rank(kind: str) -> tuple[int, str]:
    if kind == END:
        return 0, ""
    return (2 if kind.isidentifier() else 1), kind
