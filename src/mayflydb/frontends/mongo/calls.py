"""A command in progress, as data. The services that its handler uses are handed beside it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import msgspec

from mayflydb.evaluation.statement import CHEAP_BYTES
from mayflydb.frontends.mongo.evaluation import Evaluation
from mayflydb.frontends.mongo.sessions.registry import LogicalSession
from mayflydb.frontends.mongo.sessions.snapshot_reads import KeptSnapshot
from mayflydb.frontends.mongo.sessions.units import UnitOfWork
from mayflydb.frontends.mongo.spending import BudgetGrant, SpentUnits
from mayflydb.frontends.mongo.state import ConnectionState
from mayflydb.model.errors import MayflyError
from mayflydb.model.instant import Instant
from mayflydb.query.mongo.cheapness import is_costly_message
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
        # Old drivers, and gateways between client and server, add these arguments. They change nothing here.
        "$queryOptions",
        "$audit",
        "$client",
        "$configServerState",
        "mayBypassWriteBlocking",
        "recoveryToken",
    }
)
"""Arguments that every command accepts."""


class Call(msgspec.Struct, gc=False):
    """One command.

    `body`: the command's document, decoded, generic arguments such as `$db` included, without the arrays in
    `sequences`. `sequences`: the arrays `documents`, `updates`, `deletes`, `ops` and `nsInfo`; each element is the raw
    bytes of a document, not decoded yet. `now`: the instant by which the whole command sees records; within a
    transaction, the transaction's. `session`: the session that `lsid` names. `transaction`: the transaction that the
    command is part of.

    `started_monotonic`: the host's monotonic microseconds at the start. `spent`: request units of reads and writes so far.
    `grants`: the units that budgets have granted. `payer`: (database, name) of the collection whose budget pays.
    `throttled`: a budget refused a part of the command. `charge`: its price in request units, once it has ended.

    `size`: bytes of the command. `raw`: the command's document, if it is small. `costly`: compiling what it says may take long
    (`is_costly_message`); None: nothing has looked. `evaluation`: what it computes, once it does. `operation`: its id, once a
    client has seen it. `interruption`: why it is cancelled. `as_of`: the instant that it reads, which is its `now` then;
    `is_past`: an earlier one. `snapshot`: what it reads outside of a transaction, whose instant is its `now` then.
    """

    name: str
    database: str
    body: Document
    sequences: dict[str, list[bytes]]
    connection: ConnectionState
    now: Instant
    session: LogicalSession | None = None
    transaction: UnitOfWork | None = None
    started_monotonic: int = 0
    spent: SpentUnits | None = None
    grants: Sequence[BudgetGrant] = ()
    payer: tuple[str, str] | None = None
    throttled: bool = False
    charge: float | None = None
    size: int = 0
    evaluation: Evaluation | None = None
    operation: int = 0
    interruption: MayflyError | None = None
    raw: bytes = b""
    costly: bool | None = None
    as_of: Instant | None = None
    is_past: bool = False
    snapshot: KeptSnapshot | None = None

    @property
    def is_cheap(self) -> bool:
        """True if compiling what it says is cheap."""
        if self.size > CHEAP_BYTES:
            return False
        if self.costly is None:
            self.costly = is_costly_message(self.raw)
        return not self.costly

    def note_statement(self, raw: bytes) -> None:
        """Look at a statement that came beside the command's own document. A costly one makes the whole command so."""
        if not self.costly and (len(raw) > CHEAP_BYTES or is_costly_message(raw)):
            self.costly = True
            if self.evaluation is not None:
                self.evaluation.cheap = False

    @property
    def owner(self) -> str:
        """The owner of the sessions and cursors that this command may use: `db.name` of the user, empty without a login."""
        user = self.connection.user
        return "" if user is None else user.key

    @property
    def session_id(self) -> bytes | None:
        """The id of the session that `lsid` names; None without `lsid`."""
        lsid = self.body.get("lsid")
        return bytes(lsid["id"]) if isinstance(lsid, dict) and "id" in lsid else None

    def check_fields(self, allowed: Collection[str]) -> None:
        """Raise MqlError 40415 for an argument that is neither in `allowed`, nor generic, nor the command's own name."""
        for given in (self.body, self.sequences):
            for field in given:
                if field not in allowed and field not in GENERIC_ARGUMENTS and field != self.name:
                    raise MqlError(40415, f"BSON field '{self.name}.{field}' is an unknown field.")
