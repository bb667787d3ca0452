"""The table of methods: name -> what answers it."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from typing import Final

from mayflydb.frontends.ydb.calls import Streaming, Unary

_PARTS: Final = (
    "discovery",
    "auth",
    "sessions",
    "queries",
    "operations",
    "schemes",
    "directories",
    "data",
    "reads",
    "scripting",
)


def _gathered() -> dict[str, Unary | Streaming]:
    found: dict[str, Unary | Streaming] = {}
    for part in _PARTS:
        name = f"mayflydb.frontends.ydb.commands.{part}"
        if find_spec(name) is not None:
            with suppress(ImportError):
                found |= import_module(name).COMMANDS
    return found


COMMANDS: Final = _gathered()
