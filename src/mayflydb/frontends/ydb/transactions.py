"""Transactions of sessions: control fields of requests, open transactions, commits and refusals.

Serializable transactions are optimistic. A transaction reads the state at its beginning and its own writes, and commits
only if no other transaction has changed what it read. An error in any statement ends the transaction; its id is unknown
afterwards.
"""

from __future__ import annotations

from typing import Any, Final, Literal, Protocol

import msgspec

from mayflydb.engine.contention import Target
from mayflydb.engine.snapshot import Snapshot
from mayflydb.frontends.ydb.schemes.temporary import TemporaryTables
from mayflydb.model.instant import Instant
from mayflydb.model.quota import Quota
from mayflydb.query.yql.faults import Fault, Issue, fault
from mayflydb.query.yql.schemas import RandomSource

TransactionMode = Literal[
    "serializable_read_write", "snapshot_read_only", "snapshot_read_write", "online_read_only", "stale_read_only"
]

READ_ONLY_MODES: Final = frozenset({"snapshot_read_only", "online_read_only", "stale_read_only"})
QUERY_ONLY_MODES: Final = frozenset({"online_read_only", "stale_read_only"})
"""Modes without a BeginTransaction request.

Only queries begin such a transaction, and in the table service the same query has to commit it.
"""


# Crockford's Base32, which the ids of YDB use too: without i, l, o and u.
_DIGITS: Final = "0123456789abcdefghjkmnpqrstvwxyz"


class TransactionOwner(Protocol):
    """The owner of open transactions, which closes them at its own end."""

    contended: tuple[Target, ...]
    """The targets that its last transaction contended for and lost."""

    temporary: TemporaryTables | None
    """Its temporary tables, if it has made any."""

    @property
    def transactions(self) -> dict[str, Any]: ...


class TransactionControl(msgspec.Struct, frozen=True):
    """The transaction control of a request: the `id` of an open transaction, or the mode of a new one (`begin`).

    `commit`: commit at the end of the request.
    """

    id: str = ""
    begin: TransactionMode | None = None
    commit: bool = False


class OpenTransaction(msgspec.Struct, eq=False):
    """A transaction between two requests. `snapshot` None: nothing was read or written yet. `counted`: the quota of open
    transactions that counts it, until it is closed. `contended`: the targets that the one before it contended for and
    lost; once it is closed, those that it has lost itself.
    """

    id: str
    mode: TransactionMode
    # The first statement begins the snapshot, and not BeginTransaction: until then, no old versions are kept for it.
    snapshot: Snapshot | None = None
    counted: Quota | None = None
    contended: tuple[Target, ...] = ()

    async def commit(self, now: Instant) -> None:
        """Commit the writes. Errors: WriteConflict, OwnerNotFound."""
        if self.snapshot is not None:
            await self.snapshot.commit(now)

    def close(self) -> None:
        """Discard the writes."""
        # Locks are released and old versions let go, after a commit as after a rollback.
        if self.snapshot is not None:
            self.snapshot.close()
            self.contended = self.snapshot.turns.lost
            self.snapshot = None
        if self.counted is not None:
            self.counted.give()
            self.counted = None


class Transactions:
    """The open transactions of one session."""

    def __init__(self, session: TransactionOwner, chance: RandomSource, limit: Quota, most: int) -> None:
        """`chance`: an unguessable source of ids. `limit`: of open transactions of all sessions; `most`: of this one."""
        self._chance = chance
        self._limit = limit
        self._most = most
        self._session = session
        self._open = session.transactions

    def begin(self, mode: TransactionMode) -> OpenTransaction:
        """Begin a transaction on request. BAD_REQUEST for a mode that only queries may begin."""
        if mode in QUERY_ONLY_MODES:
            raise begin_refusal(mode)
        return self.add(mode)

    def add(self, mode: TransactionMode) -> OpenTransaction:
        """Begin a transaction for a query. Faults: BAD_SESSION, code 2014, or OVERLOADED for too many open ones."""
        if len(self._open) >= self._most:
            text = f"Too many transactions, current active: {len(self._open)} MaxTxPerSession: {self._most}"
            raise fault(text, status="BAD_SESSION", code=2014)
        if not self._limit.take():
            raise fault(f"Too many transactions, current active: {self._limit.used}", status="OVERLOADED", code=2014)
        contended, self._session.contended = self._session.contended, ()
        transaction = OpenTransaction(new_id(self._chance), mode, counted=self._limit, contended=contended)
        self._open[transaction.id] = transaction
        return transaction

    def get(self, id: str) -> OpenTransaction:
        """Return the transaction with this id. Faults: NOT_FOUND, code 2015."""
        # The ids of a session only: another session's transaction is unknown here.
        found = self._open.get(id)
        if not isinstance(found, OpenTransaction):
            raise unknown_transaction(id)
        return found

    def end(self, transaction: OpenTransaction) -> None:
        """Remove a transaction and discard what it has not committed."""
        self._open.pop(transaction.id, None)
        transaction.close()
        # Clients repeat a transaction that failed, mostly in the same session.
        self._session.contended = transaction.contended


def new_id(chance: RandomSource) -> str:
    """Return a new id: 26 letters and digits, of 130 random bits."""
    bits = chance.getrandbits(130)
    return "".join(_DIGITS[bits >> shift & 31] for shift in range(0, 130, 5))


def _mode_name(mode: TransactionMode) -> str:
    return "".join(word.capitalize() for word in mode.split("_"))


def begin_refusal(mode: TransactionMode) -> Fault:
    """The fault of BeginTransaction in a mode that only queries may begin."""
    text = f"Failed to begin transaction: open transactions not supported for transaction mode {_mode_name(mode)}"
    return fault(
        f"{text}, use tx_control field in ExecuteDataQueryRequest to begin transaction with this mode.",
        status="BAD_REQUEST",
    )


def uncommitted_refusal(mode: TransactionMode) -> Fault:
    """The fault of a table service query that begins a transaction in such a mode and does not commit it."""
    text = f"Failed to execute query: open transactions not supported for transaction mode: {_mode_name(mode)}"
    return fault(f"{text}, use commit_tx flag to explicitely commit transaction.", status="BAD_REQUEST")


def unknown_transaction(id: str) -> Fault:
    """The fault of an unknown or ended transaction."""
    return fault(f"Transaction not found: {id}", status="NOT_FOUND", code=2015)


def invalid_locks(table: str | None) -> Fault:
    """The fault of a write conflict. Nothing was written."""
    where = "" if table is None else f" Table: `{table}`"
    # Two issues, as in YDB, whose locks are optimistic too: a lock is broken by a write, and found broken at the
    # commit.
    return Fault(
        "ABORTED",
        Issue(f"Transaction locks invalidated.{where}", 2001),
        Issue("Operation is aborting because locks are not valid", 2001),
    )


def schema_conflict(table: str | None) -> Fault:
    """The fault of a table whose definition has changed since the query was planned."""
    return fault(
        "Schema changed" if table is None else f"Schema changed. Table: `{table}`", status="ABORTED", code=2028
    )


def write_refusal(verb: str) -> Fault:
    """The fault of a write in a read-only mode."""
    return fault(f"Operation '{verb.capitalize()}' can't be performed in read only transaction", code=2008)


def data_statement_refusal(verb: str) -> Fault:
    """The fault of a data statement in a request for definitions."""
    return fault(f"Operation '{verb.capitalize()}' can't be performed in scheme query", code=2008)


def definition_refusal() -> Fault:
    """The fault of a definition with transaction control."""
    return fault("Scheme operations cannot be executed inside transaction", status="PRECONDITION_FAILED")


def mixed_statements_refusal() -> Fault:
    """The fault of definitions and data in one query."""
    text = "Queries with mixed data and scheme operations are not supported."
    return fault(f"{text} Use separate queries for different types of operations.", code=2009)
