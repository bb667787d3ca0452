"""The table of commands: name -> entry. Other spellings of a name have entries of their own."""

from __future__ import annotations

from typing import Final

from mayflydb.frontends.mongo.commands import (
    aggregate,
    api_validation,
    bulk_write,
    capping,
    catalog,
    cluster,
    custom_action,
    diagnostics,
    explain,
    find_and_modify,
    handshake,
    indexes,
    login,
    maintenance,
    operations,
    parameters,
    queries,
    roles,
    server,
    sessions,
    statistics,
    status,
    users,
    validation,
    writes,
)
from mayflydb.frontends.mongo.services import CommandEntry

HANDLERS: Final[dict[str, CommandEntry]] = {
    **handshake.HANDLERS,
    **login.HANDLERS,
    **users.HANDLERS,
    **roles.HANDLERS,
    **sessions.HANDLERS,
    **server.HANDLERS,
    **operations.HANDLERS,
    **parameters.HANDLERS,
    **status.HANDLERS,
    **statistics.HANDLERS,
    **diagnostics.HANDLERS,
    **maintenance.HANDLERS,
    **cluster.HANDLERS,
    **catalog.HANDLERS,
    **capping.HANDLERS,
    **validation.HANDLERS,
    **indexes.HANDLERS,
    **api_validation.HANDLERS,
    **queries.HANDLERS,
    **writes.HANDLERS,
    **explain.HANDLERS,
    **find_and_modify.HANDLERS,
    **bulk_write.HANDLERS,
    **aggregate.HANDLERS,
    **custom_action.HANDLERS,
}
