"""Transactions of sessions: what a request may say of its own, which are open, and how they end.

Serializable ones are optimistic: they read what was there when they began and what they have written, and hold if nobody has
changed that at their end. Whoever fails, even with a single statement, is over, and its id is unknown from then on.
"""

from __future__ import annotations

from typing import Any, Final, Literal, Protocol

import msgspec

from mayflydb.engine.snapshot import Snapshot
from mayflydb.model.instant import Instant
from mayflydb.query.yql.faults import Fault, Issue, fault
from mayflydb.query.yql.schemas import Chance

Mode = Literal[
    "serializable_read_write", "snapshot_read_only", "snapshot_read_write", "online_read_only", "stale_read_only"
]

READ_ONLY: Final = frozenset({"snapshot_read_only", "online_read_only", "stale_read_only"})
ONE_SHOT: Final = frozenset({"online_read_only", "stale_read_only"})
"""Modes in which no request begins a transaction; queries do, and those of the table service end it, too."""


_DIGITS: Final = "0123456789abcdefghjkmnpqrstvwxyz"


class Session(Protocol):
    """What keeps transactions between requests, and closes them at its end."""

    @property
    def transactions(self) -> dict[str, Any]: ...


class Control(msgspec.Struct, frozen=True):
    """What a request says of its transaction: the `id` of one that is open, or the mode in which one is to `begin`; `commit`: it
    ends with this request. A request that says nothing has None instead."""

    id: str = ""
    begin: Mode | None = None
    commit: bool = False


class OpenTransaction(msgspec.Struct, eq=False):
    """A transaction between two requests. `snapshot` None: nothing was read or written in it yet."""

    id: str
    mode: Mode
    snapshot: Snapshot | None = None

    async def commit(self, now: Instant) -> None:
        """Make its writes hold. Errors: WriteConflict, OwnerNotFound."""
        if self.snapshot is not None:
            await self.snapshot.commit(now)

    def close(self) -> None:
        """Forget what it has done."""
        if self.snapshot is not None:
            self.snapshot.close()
            self.snapshot = None


class Transactions:
    """Those of one session, which keeps them by id. `chance`: where ids come from, unguessable."""

    def __init__(self, session: Session, chance: Chance) -> None:
        self._chance = chance
        self._open = session.transactions

    def begin(self, mode: Mode) -> OpenTransaction:
        """A new one, by a request of its own. BAD_REQUEST for a mode that only a query may begin."""
        if mode in ONE_SHOT:
            raise begun_open(mode)
        return self.add(mode)

    def add(self, mode: Mode) -> OpenTransaction:
        """A new one, by a query."""
        transaction = OpenTransaction(new_id(self._chance), mode)
        self._open[transaction.id] = transaction
        return transaction

    def find(self, id: str) -> OpenTransaction:
        """The one with this id. NOT_FOUND, code 2015."""
        found = self._open.get(id)
        if not isinstance(found, OpenTransaction):
            raise not_found(id)
        return found

    def end(self, transaction: OpenTransaction) -> None:
        """It is over, however it ended."""
        self._open.pop(transaction.id, None)
        transaction.close()


def new_id(chance: Chance) -> str:
    """26 letters and digits, of 130 bits."""
    bits = chance.getrandbits(130)
    return "".join(_DIGITS[bits >> shift & 31] for shift in range(0, 130, 5))


def _mode_name(mode: Mode) -> str:
    return "".join(word.capitalize() for word in mode.split("_"))


def begun_open(mode: Mode) -> Fault:
    """BeginTransaction in a mode that only a query may begin."""
    text = f"Failed to begin transaction: open transactions not supported for transaction mode {_mode_name(mode)}"
    return fault(
        f"{text}, use tx_control field in ExecuteDataQueryRequest to begin transaction with this mode.",
        status="BAD_REQUEST",
    )


def left_open(mode: Mode) -> Fault:
    """A query of the table service that begins one in such a mode and does not commit it."""
    text = f"Failed to execute query: open transactions not supported for transaction mode: {_mode_name(mode)}"
    return fault(f"{text}, use commit_tx flag to explicitely commit transaction.", status="BAD_REQUEST")


def not_found(id: str) -> Fault:
    """A transaction that nobody knows, or not any more."""
    return fault(f"Transaction not found: {id}", status="NOT_FOUND", code=2015)


def aborted(table: str | None) -> Fault:
    """Somebody else was first; nothing was done."""
    where = "" if table is None else f" Table: `{table}`"
    return Fault(
        "ABORTED",
        Issue(f"Transaction locks invalidated.{where}", 2001),
        Issue("Operation is aborting because locks are not valid", 2001),
    )


def scheme_changed(table: str | None) -> Fault:
    """The table is no longer what the plan was made for."""
    return fault(
        "Schema changed" if table is None else f"Schema changed. Table: `{table}`", status="ABORTED", code=2028
    )


def read_only(verb: str) -> Fault:
    """A write in a mode that has none."""
    return fault(f"Operation '{verb.capitalize()}' can't be performed in read only transaction", code=2008)


def no_scheme(verb: str) -> Fault:
    """A statement where only those belong that change the scheme."""
    return fault(f"Operation '{verb.capitalize()}' can't be performed in scheme query", code=2008)


def scheme_in_transaction() -> Fault:
    """DDL with tx_control."""
    return fault("Scheme operations cannot be executed inside transaction", status="PRECONDITION_FAILED")


def mixed() -> Fault:
    """DDL and DML in one query."""
    text = "Queries with mixed data and scheme operations are not supported."
    return fault(f"{text} Use separate queries for different types of operations.", code=2009)
