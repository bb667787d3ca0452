"""CREATE, ALTER and DROP of users and groups; GRANT and REVOKE."""

from __future__ import annotations

from typing import Final, Literal

from mayflydb.query.yql.definitions import Grant, UserSpec
from mayflydb.query.yql.lexer import STRING
from mayflydb.query.yql.parser.tables import Tables
from mayflydb.query.yql.syntax import At

_Options = list[tuple[str, str | None]]

_SECOND_WORDS: Final = {
    "MODIFY": ("TABLES", "ATTRIBUTES"),
    "UPDATE": ("ROW",),
    "ERASE": ("ROW",),
    "REMOVE": ("SCHEMA",),
    "DESCRIBE": ("SCHEMA",),
    "ALTER": ("SCHEMA",),
}
"""Permissions of two words."""
_OPTIONAL_WORDS: Final = {
    "SELECT": ("TABLES", "ATTRIBUTES", "ROW"),
    "USE": ("LEGACY",),
    "FULL": ("LEGACY",),
    "CREATE": ("DIRECTORY", "TABLE", "QUEUE"),
}
_ONE_WORD: Final = ("CONNECT", "LIST", "INSERT", "MANAGE", "DROP", "GRANT")


class PermissionStatements(Tables):
    def role(self) -> str:
        """The name of a user or a group."""
        if self.kind == "$":
            self.refuse("A user's name by a named expression")
        return self.name()

    def _roles(self, *ends: str) -> tuple[str, ...]:
        names = [self.role()]
        while self.accept(","):
            if self.kind in ends:
                break
            names.append(self.role())
        return tuple(names)

    def user(self, at: At, verb: Literal["CREATE", "ALTER"]) -> UserSpec:
        """Parse the rest of `CREATE USER` or `ALTER USER`."""
        name = self.role()
        if verb == "ALTER" and self.accept_words("RENAME", "TO"):
            return UserSpec(at, verb, "USER", (name,), (("RENAME TO", self.role()),))
        self.accept("WITH")
        options: _Options = []
        while self._option(options):
            pass
        if verb == "ALTER" and not options:
            self.fail("ENCRYPTED", "HASH", "LOGIN", "NOLOGIN", "PASSWORD", "RENAME")
        return UserSpec(at, verb, "USER", (name,), tuple(options))

    def _option(self, options: _Options) -> bool:
        if self.kind == "ENCRYPTED":
            self.refuse("ENCRYPTED PASSWORD")
        if self.accept("PASSWORD"):
            options.append(("PASSWORD", None if self.accept("NULL") else self.text()))
        elif self.accept("HASH"):
            options.append(("HASH", self.text()))
        elif self.kind in ("LOGIN", "NOLOGIN"):
            options.append((self.word(), None))
        else:
            return False
        return True

    def role_group(self, at: At, verb: Literal["CREATE", "ALTER"]) -> UserSpec:
        """Parse the rest of `CREATE GROUP` or `ALTER GROUP`."""
        name = self.role()
        if verb == "ALTER" and self.accept_words("RENAME", "TO"):
            return UserSpec(at, verb, "GROUP", (name,), (("RENAME TO", self.role()),))
        phrase = ""
        if verb == "ALTER":
            phrase = f"{self.expect_any(('ADD', 'DROP'))} USER"
            self.expect("USER")
        elif self.accept("WITH"):
            self.expect("USER")
            phrase = "ADD USER"
        members = self._roles(";", "<EOF>") if phrase else ()
        return UserSpec(at, verb, "GROUP", (name,), tuple((phrase, each) for each in members))

    def drop_roles(self, at: At, kind: Literal["USER", "GROUP"]) -> UserSpec:
        """Parse the rest of `DROP USER` or `DROP GROUP`."""
        if_exists = self.if_exists()
        return UserSpec(at, "DROP", kind, self._roles(";", "<EOF>"), (), if_exists)

    def grant(self) -> Grant:
        at = self.at()
        revoke = self.word() == "REVOKE"
        option = revoke and self.accept_words("GRANT", "OPTION", "FOR")
        permissions = self._permissions()
        self.expect("ON")
        paths = self.parse_list(self.path, None)
        self.expect("FROM" if revoke else "TO")
        subjects = self._roles("WITH", ";", "<EOF>")
        if not revoke and self.accept("WITH"):
            self.expect("GRANT", "OPTION")
            option = True
        return Grant(at, permissions, paths, subjects, revoke, option)

    def _permissions(self) -> tuple[str, ...]:
        if self.accept("ALL"):
            self.accept("PRIVILEGES")
            return ("ALL",)
        found = [self._permission()]
        while self.accept(","):
            if self.kind == "ON":
                break
            found.append(self._permission())
        return tuple(found)

    def _permission(self) -> str:
        if self.kind == STRING:
            return self.text()
        first = self.expect_any((*_ONE_WORD, *_SECOND_WORDS, *_OPTIONAL_WORDS))
        if first in _SECOND_WORDS:
            return f"{first} {self.expect_any(_SECOND_WORDS[first])}"
        second = self.accept_any(_OPTIONAL_WORDS.get(first, ()))
        return f"{first} {second}" if second else first
