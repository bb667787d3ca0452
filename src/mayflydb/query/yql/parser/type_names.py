"""Types: `Uint64`, `Decimal(22, 9)`, `List<Struct<a: Utf8?>>`."""

from __future__ import annotations

from typing import Final

from mayflydb.query.yql.faults import fault
from mayflydb.query.yql.lexer import ID, INTEGER, QUOTED, STRING
from mayflydb.query.yql.parser.cursor import TokenCursor
from mayflydb.query.yql.parser.literals import split_integer, split_text
from mayflydb.query.yql.syntax import At, TypeName

COMPOSITE: Final = frozenset(
    (
        "OPTIONAL",
        "TUPLE",
        "STRUCT",
        "VARIANT",
        "LIST",
        "DICT",
        "SET",
        "ENUM",
        "RESOURCE",
        "TAGGED",
        "STREAM",
        "FLOW",
        "CALLABLE",
    )
)
"""Names of types that take arguments in `<>`."""

_REFUSED: Final = frozenset({"STREAM", "FLOW"})
_TAGS: Final = frozenset({"ENUM", "RESOURCE"})
_COUNTS: Final = {"OPTIONAL": 1, "LIST": 1, "SET": 1, "DICT": 2}
_BEHIND_TYPES: Final = frozenset(("?", ",", ")", ">", ";", "=", "<EOF>", "|>", "]", "}"))
"""Tokens that follow a type. `Int32??` before one of them is an Optional of an Optional; else `??` is the operator."""

_MAX_DIGITS: Final = 9


class TypeNames(TokenCursor):
    def type_name(self) -> TypeName:
        """Parse a type, with all `?` behind it."""
        self.enter()
        at = self.at()
        if self.kind in COMPOSITE and self.next_kind in ("<", "<>"):
            found = self._composite(at)
        elif self.kind == "(":
            found = self.callable_type(at, "Callable")
        elif self.kind == "$":
            self.index += 1
            found = TypeName(at, "$" + self.name())
        elif self.kind == "DECIMAL" and self.next_kind == "(":
            name = self.name()
            found = TypeName(at, name, self.parse_in_parentheses(self._digits))
            if len(found.arguments) != 2:
                raise fault("Decimal takes a precision and a scale", at)
        elif self.kind == STRING:
            self.fail(ID, QUOTED)
        elif self.accept("NULL"):
            found = TypeName(at, "Null")
        else:
            found = TypeName(at, self.name())
        found = self.optionals(found)
        self.leave()
        return found

    def optionals(self, found: TypeName) -> TypeName:
        """Parse the `?` behind a type, and return its Optional."""
        deeper = 0
        while self.kind == "?" and not self.is_coalescing():
            self.index += 1
            found = TypeName(found.at, "Optional", (found,))
            self.enter()
            deeper += 1
        self.leave(deeper)
        return found

    def is_coalescing(self) -> bool:
        """True if the next question mark begins the operator `??` and belongs to no type."""
        return self.next_kind == "?" and self.kind_at(2) not in _BEHIND_TYPES

    def _digits(self) -> int:
        self.expect(INTEGER) if self.kind != "$" else self.refuse("A type's digits by a named expression")
        # A number of nine digits is no precision, so a longer one may be cut; int() of a very long one would take long.
        number, _ = split_integer(self.texts[self.index - 1][:_MAX_DIGITS])
        return number

    def _composite(self, at: At) -> TypeName:
        kind = self.kind
        if kind in _REFUSED:
            self.refuse(f"Type {self.texts[self.index]}")
        name = self.texts[self.index]
        self.index += 1
        if self.accept("<>"):
            if kind not in ("TUPLE", "STRUCT"):
                self.index -= 1
                self.fail("<")
            return TypeName(at, name, (), () if kind == "STRUCT" else None)
        self.expect("<")
        # A Variant is over a Struct if its first argument has a name, else over a Tuple.
        if kind == "STRUCT" or (kind == "VARIANT" and self._is_member()):
            return self._members(at, name)
        if kind == "CALLABLE":
            found = self.callable_type(at, name)
            self.expect(">")
            return found
        if kind in _TAGS:
            return TypeName(at, name, self.parse_list(self.tag, ">"))
        if kind == "TAGGED":
            item = self.type_name()
            self.expect(",")
            tag = self.tag()
            self.expect(">")
            return TypeName(at, name, (item, tag))
        items: tuple[TypeName, ...] = ()
        if not (kind == "TUPLE" and self.accept(">")):
            items = self.parse_list(self.type_name, ">")
        if len(items) != _COUNTS.get(kind, len(items)):
            raise fault(f"{name} takes {_COUNTS[kind]} type arguments, but {len(items)} are given", at)
        return TypeName(at, name, items)

    def callable_type(self, at: At, name: str) -> TypeName:
        """Parse `(Int32, [a: String?]) -> Bool`.

        The arguments of the TypeName are the number of optional arguments, the type of the result, and for each argument an
        `Argument` of its type, whose members are its name and, if it has it, the flag AutoMap.
        """
        self.expect("(")
        given: list[TypeName] = []
        required: int | None = None
        while not self.accept(")"):
            if given:
                self.expect(",")
            if self.accept("["):
                required = len(given)
            given.append(self._callable_argument())
            if required is not None and self.accept("]"):
                self.expect(")")
                break
        self.expect("->")
        result = self.type_name()
        return TypeName(at, name, (0 if required is None else len(given) - required, result, *given))

    def _callable_argument(self) -> TypeName:
        at, label = self.at(), ""
        if self._is_member():
            label = self.tag()
            self.expect(":")
        item = self.type_name()
        members: tuple[str, ...] = (label,)
        if self.accept("{"):
            if self.name().upper() != "FLAGS":
                self.index -= 1
                self.fail(ID)
            self.expect(":")
            flag = self.name()
            if flag.upper() != "AUTOMAP":
                raise fault(f"Unknown flag: {flag}", at)
            members = (label, "AutoMap")
            self.expect("}")
        return TypeName(at, "Argument", (item,), members)

    def _is_member(self) -> bool:
        return self.next_kind == ":" and (self.is_word() or self.kind == STRING)

    def _members(self, at: At, name: str) -> TypeName:
        if self.accept(">"):
            return TypeName(at, name, (), ())
        members = self.parse_list(self._tagged_member, ">")
        return TypeName(at, name, tuple(part for _, part in members), tuple(tag for tag, _ in members))

    def _tagged_member(self) -> tuple[str, TypeName]:
        tag = self.tag()
        self.expect(":")
        return tag, self.type_name()

    def tag(self) -> str:
        """Parse a tag: a name, or a text instead of one."""
        if self.kind != STRING:
            return self.name()
        self.index += 1
        return self.text_of(self.index - 1)

    def text_of(self, index: int) -> str:
        """Decode the STRING_VALUE at this token. Faults: no UTF-8, a bad escape."""
        value, _ = self.bytes_of(index)
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise fault("Invalid UTF-8 in string literal", self.at(index)) from None

    def bytes_of(self, index: int) -> tuple[bytes, str]:
        """Decode the STRING_VALUE at this token into bytes and its suffix. Faults: a bad escape."""
        try:
            return split_text(self.texts[index], self.tokens.ansi)
        except ValueError as error:
            raise fault(f"Failed to parse string literal: {error}", self.at(index)) from None

    def text(self) -> str:
        """Parse a text literal."""
        self.expect(STRING)
        return self.text_of(self.index - 1)
