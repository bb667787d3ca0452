"""The table of methods: the handler of each name."""

from __future__ import annotations

from typing import Final

from mayflydb.frontends.ydb.commands import (
    auth,
    directories,
    discovery,
    operations,
    queries,
    reads,
    schemes,
    scripting,
    scripts,
    sessions,
    table_queries,
    topics,
)
from mayflydb.frontends.ydb.services import Handler

COMMANDS: Final[dict[str, Handler]] = {
    **discovery.COMMANDS,
    **auth.COMMANDS,
    **sessions.COMMANDS,
    **queries.COMMANDS,
    **scripts.COMMANDS,
    **operations.COMMANDS,
    **schemes.COMMANDS,
    **directories.COMMANDS,
    **table_queries.COMMANDS,
    **reads.COMMANDS,
    **scripting.COMMANDS,
    **topics.COMMANDS,
}
