"""One row of the table of settings, and a value for it before it is parsed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec


class RawValue(msgspec.Struct, frozen=True):
    """A raw value and its origin: `flag --port`, `variable MAYFLY_SERVER_PORT`, `file /etc/mayfly/mayfly.toml`, `default`."""

    value: Any
    origin: str


class Row(msgspec.Struct, frozen=True):
    """One setting. `key` is its TOML key and its place in Settings: the section is its first word, the name its last.

    `default` is written as in TOML. `parse` takes the text of a flag or variable, or a TOML value. It raises ValueError with a
    sentence for people. A flag named `--a/--no-a` or `--a` with `switch` takes no value. A flag with `many` may be repeated.
    """

    key: str
    flags: tuple[str, ...]
    default: Any
    parse: Callable[[Any], Any]
    help: str
    metavar: str = "TEXT"
    switch: bool = False
    many: bool = False

    @property
    def variable(self) -> str:
        """`MAYFLY_SERVER_PORT` for `server.port`."""
        return "MAYFLY_" + self.key.replace(".", "_").upper()
