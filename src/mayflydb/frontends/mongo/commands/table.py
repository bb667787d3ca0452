"""The table of commands: name -> what answers it. Other spellings of a name have rows of their own."""

from __future__ import annotations

from typing import Final

from mayflydb.frontends.mongo.calls import Command
from mayflydb.frontends.mongo.commands import handshake, login, server, sessions, users

HANDLERS: Final[dict[str, Command]] = {
    **handshake.HANDLERS,
    **login.HANDLERS,
    **users.HANDLERS,
    **sessions.HANDLERS,
    **server.HANDLERS,
}
