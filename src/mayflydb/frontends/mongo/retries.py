"""Retryable writes: what each numbered write of a session did, kept in the transaction that did it.

The last number of a session is a document of `config.transactions`. The same number again executes nothing that was executed, and
gets the answers that were given. A lower one is refused.
Rules: https://github.com/mongodb/specifications/blob/master/source/retryable-writes/retryable-writes.md
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from bson import DatetimeMS, Int64

from mayflydb.engine.commands import Command, Mode
from mayflydb.engine.transactions import Transaction
from mayflydb.frontends.mongo.collections import Collection, Place, place_of
from mayflydb.frontends.mongo.documents import milliseconds
from mayflydb.frontends.mongo.writing import Steps
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.values import Document, decode, encode

DATABASE: Final = "config"
NAME: Final = "transactions"


class Attempt:
    """One numbered write of a session, and what is known of its statements. Made anew by each run of a decision."""

    def __init__(self, sessions: Collection, session: Any, number: int) -> None:
        """`sessions`: `config.transactions`; `session`: the lsid as it was sent."""
        self._sessions = sessions
        self._id = {"id": session}
        self._place = _place_of_session(session)
        self._number = number
        self._known: dict[int, Document | None] = {}
        self._noted: list[tuple[int, Document | None]] = []

    def load(self, transaction: Transaction) -> Steps[None]:
        """Learn what was done under this number. MqlError 225 if the session has gone on."""
        self._known, self._noted = {}, []
        space = yield from transaction.on(self._sessions.id)
        place = self._place
        record = yield from space.get(place.partition, place.key)
        if record is None:
            return
        kept = decode(record.value)
        last = int(kept["txnNum"])
        if last > self._number:
            text = f"Cannot start a transaction {self._number} because a newer retryable write with number {last} has started"
            raise MqlError(225, text)
        if last == self._number:
            for first, end, answer in kept["done"]:
                self._known.update(dict.fromkeys(range(first, end), answer))

    def answer(self, statement: int) -> tuple[bool, Document | None]:
        """Whether this statement was executed already, and what was noted of it."""
        return statement in self._known, self._known.get(statement)

    def note(self, statement: int, answer: Document | None) -> None:
        """It is executed in this transaction. Statements that were refused are not noted: they may be tried again."""
        self._noted.append((statement, answer))

    def save(self, transaction: Transaction) -> Steps[None]:
        """Keep what was noted."""
        if not self._noted:
            return
        self._known.update(self._noted)
        document = {
            "_id": self._id,
            "txnNum": Int64(self._number),
            "lastWriteDate": DatetimeMS(milliseconds(transaction.now)),
            "done": _runs(sorted(self._known.items())),
        }
        place = self._place
        draft = self._sessions.draft(document, encode(document))
        space = yield from transaction.on(self._sessions.id)
        yield from space.run(Command(Mode.UPSERT, place.partition, place.key, draft))


@lru_cache(maxsize=4096)
def _place_of_session(session: Any) -> Place:
    """Where a session is kept: the same for each of its writes."""
    return place_of({"id": session})


def _runs(statements: Sequence[tuple[int, Document | None]]) -> list[list[Any]]:
    """[first, end, answer]: what follows one another and was answered alike lies together."""
    runs: list[list[Any]] = []
    for number, answer in statements:
        if runs and runs[-1][1] == number and runs[-1][2] == answer:
            runs[-1][1] = number + 1
        else:
            runs.append([number, number + 1, answer])
    return runs
