"""`NAME = value` settings of tables, indexes, families and change feeds, with TTL among them."""

from __future__ import annotations

from typing import Final

from mayflydb.query.yql.definitions import Setting, SettingValue, Ttl
from mayflydb.query.yql.parser.writes import Writes
from mayflydb.query.yql.syntax import Expression, Literal_, Name, Unary

_UNITS: Final = ("MICROSECONDS", "MILLISECONDS", "NANOSECONDS", "SECONDS")


class Settings(Writes):
    def with_settings(self) -> tuple[Setting, ...]:
        """Parse `WITH (A = 1, B = 2)`, if it comes next."""
        return self.settings_list() if self.accept("WITH") else ()

    def settings_list(self) -> tuple[Setting, ...]:
        """`(A = 1, B = 2)`"""
        return self.parse_in_parentheses(self.setting)

    def setting(self) -> Setting:
        at = self.at()
        name = self.name()
        self.expect("=")
        return Setting(at, name, self.setting_value(name))

    def setting_value(self, name: str) -> SettingValue:
        """Parse the value of a setting."""
        if name.upper() == "TTL":
            return self._ttl()
        if self.kind == "(":
            return self._boundaries()
        return _plain(self.expression())

    def _boundaries(self) -> tuple[Expression | tuple[Expression, ...], ...]:
        """Parse literals as `(1, 2)` or `((1, "a"), (2, "b"))`."""
        return self.parse_in_parentheses(self._boundary)

    def _boundary(self) -> Expression | tuple[Expression, ...]:
        return self.parse_in_parentheses(self._signed_literal) if self.kind == "(" else self._signed_literal()

    def _signed_literal(self) -> Expression:
        at = self.at()
        return Unary(at, "-", self.literal()) if self.accept("-") else self.literal()

    def _ttl(self) -> Ttl:
        at = self.at()
        tiers = self.parse_list(self._tier, None)
        self.expect("ON")
        column = self.name()
        unit = self.expect_any(_UNITS) if self.accept("AS") else None
        return Ttl(at, tiers, column, unit)

    def _tier(self) -> tuple[Expression, str | None]:
        interval = self.expression()
        if self.accept("TO"):
            self.expect("EXTERNAL", "DATA", "SOURCE")
            path = self.path()
            return interval, f"{path}.{self.path()}" if self.accept(".") else path
        self.accept("DELETE")
        return interval, None


def _plain(value: Expression) -> SettingValue:
    """The value of a literal, or the text of a name; any other expression stays as it is."""
    # A literal with another suffix stays an expression, since its type is a part of the value.
    if isinstance(value, Literal_) and value.suffix in ("", "s", "u"):
        return value.value.encode() if isinstance(value.value, str) else _literal_value(value)
    if isinstance(value, Name):
        return value.name
    return value


def _literal_value(literal: Literal_) -> SettingValue:
    value = literal.value
    assert value is None or isinstance(value, (bool, int, float, bytes))
    return value
