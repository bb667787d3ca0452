"""A command on its way, as data. The services that its handler uses are handed beside it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import msgspec

from mayflydb.frontends.mongo.sessions.registry import LogicalSession
from mayflydb.frontends.mongo.sessions.units import UnitOfWork
from mayflydb.frontends.mongo.spending import BudgetGrant, SpentUnits
from mayflydb.frontends.mongo.state import ConnectionState
from mayflydb.model.instant import Instant
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.values import Document

GENERIC_ARGUMENTS: Final = frozenset(
    {
        "$db",
        "lsid",
        "txnNumber",
        "autocommit",
        "startTransaction",
        "stmtId",
        "stmtIds",
        "$clusterTime",
        "$readPreference",
        "readConcern",
        "writeConcern",
        "maxTimeMS",
        "comment",
        "apiVersion",
        "apiStrict",
        "apiDeprecationErrors",
        # Old drivers and gateways between client and server add these; they say nothing that matters here.
        "$queryOptions",
        "$audit",
        "$client",
        "$configServerState",
        "mayBypassWriteBlocking",
        "recoveryToken",
    }
)
"""Arguments of every command."""


class Call(msgspec.Struct, gc=False):
    """One command.

    `body`: the command's document, decoded, `$db` and the other generic arguments included, without the arrays that are in
    `sequences`: those of `documents`, `updates`, `deletes`, `ops` and `nsInfo`, each element the raw bytes of a document that
    nobody has looked into yet. `now`: the instant of the command, which all of it goes by; of the transaction it is part of, if
    that is so. `session`: the one `lsid` names. `transaction`: what it is part of.

    `began`: when, of the host's monotonic microseconds. `spent`: what it has read and written. `grants`: what budgets have
    granted it, `payer`: by the name of which collection; `throttled`: something was refused over its budget.
    """

    name: str
    database: str
    body: Document
    sequences: dict[str, list[bytes]]
    connection: ConnectionState
    now: Instant
    session: LogicalSession | None = None
    transaction: UnitOfWork | None = None
    began: int = 0
    spent: SpentUnits | None = None
    grants: Sequence[BudgetGrant] = ()
    payer: tuple[str, str] | None = None
    throttled: bool = False

    @property
    def owner(self) -> str:
        """Whose the sessions and cursors are that this command may use: `db.name` of the user, empty without a login."""
        user = self.connection.user
        return "" if user is None else user.key

    def check_fields(self, allowed: Collection[str]) -> None:
        """MqlError 40415 for an argument that is neither among these, nor generic, nor the command itself."""
        for given in (self.body, self.sequences):
            for field in given:
                if field not in allowed and field not in GENERIC_ARGUMENTS and field != self.name:
                    raise MqlError(40415, f"BSON field '{self.name}.{field}' is an unknown field.")
