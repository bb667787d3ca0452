"""Retryable writes: the answers of the statements of each retryable write of a session, stored in the transaction that made them.

A document of `config.transactions` holds the last number of a session. A write that repeats this number skips the
statements that were executed, and returns their stored answers. A lower number is refused. Rules:
https://github.com/mongodb/specifications/blob/master/source/retryable-writes/retryable-writes.md
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from functools import lru_cache
from hashlib import sha256
from operator import itemgetter
from typing import Any, Final

from bson import Binary, DatetimeMS, Int64

from mayflydb.engine.commands import Command, Mode
from mayflydb.engine.engine import Engine
from mayflydb.frontends.mongo.collections import Collection, Collections, Identity, identity_of
from mayflydb.frontends.mongo.decisions import DecisionTransaction, Steps
from mayflydb.frontends.mongo.documents import to_milliseconds
from mayflydb.frontends.mongo.sessions.registry import UUID_SUBTYPE, LogicalSession
from mayflydb.model.instant import Instant
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.values import Document, decode, encode

# A document of the collection:
#     {_id: {id: UUID, uid: digest of the user}, txnNum: the last number, lastWriteDate, done: [[first, end, answer] ...]}
# After the commit of a transaction, `done` is empty and `state` is "committed".
DATABASE: Final = "config"
COLLECTION: Final = "transactions"


RETRYABLE_COMMANDS: Final = frozenset({"insert", "update", "delete", "findAndModify", "findandmodify", "bulkWrite"})
"""Commands that may have a number outside of transactions."""


def record_id(session: LogicalSession) -> Document:
    """The `_id` of a session's document. Two users have two documents, even if their clients chose the same session id."""
    return _id_of(session.id, session.owner)


def _id_of(session: bytes, owner: str) -> Document:
    id: Document = {"id": Binary(session, UUID_SUBTYPE)}
    if owner:
        id["uid"] = Binary(sha256(owner.encode()).digest())
    return id


@lru_cache(maxsize=4096)
def _name_document(session: bytes, owner: str) -> tuple[Identity, bytes]:
    """The identity of a session's document, and its first elements, cached because each of the session's writes needs them."""
    id = _id_of(session, owner)
    return identity_of(id), encode({"_id": id})[4:-1] + _NUMBER_ELEMENT


async def read_session_document(engine: Engine, collections: Collections, session: LogicalSession) -> Document | None:
    """Read the document of a session; None: there is none."""
    found = await collections.find(DATABASE, COLLECTION)
    if found is None:
        return None
    identity = identity_of(record_id(session))
    # At instant 0: the collection has no TTL index, so no instant hides a document.
    record = await engine.get(found.node, identity.partition, identity.key, 0)
    return None if record is None else decode(record.value)


_INT32: Final = struct.Struct("<i")
_INT64: Final = struct.Struct("<q")
_ID_START: Final = 4 + len(b"\x03_id\0")
_NUMBER_ELEMENT: Final = b"\x12txnNum\0"
_DATE_ELEMENT: Final = b"\x09lastWriteDate\0"


def _number_of(document: bytes) -> int | None:
    """Read the number of a session's document without decoding it; None where it does not stand behind `_id`."""
    if document[4:_ID_START] != b"\x03_id\0":
        return None
    start = _ID_START + _INT32.unpack_from(document, _ID_START)[0]
    number = start + len(_NUMBER_ELEMENT)
    if document[start:number] != _NUMBER_ELEMENT:
        return None
    last: int = _INT64.unpack_from(document, number)[0]
    return last


class CommitMarker:
    """Marks a transaction as committed, in the same commit as its writes, so that a repeated commit has no second effect.

    After a crash or a lost connection, the marker is the proof of the outcome: it is there if and only if the writes are.
    """

    def __init__(self, sessions: Collection, session: LogicalSession, number: int) -> None:
        """`sessions`: the collection `config.transactions`."""
        self._sessions = sessions
        self._id = record_id(session)
        self._number = number

    def write(self, transaction: DecisionTransaction) -> Steps[bool]:
        """Write the marker. Return False if it is there already. Raise MqlError 251 if the session has a later number."""
        workspace = yield from transaction.on(self._sessions.id)
        identity = identity_of(self._id)
        record = yield from workspace.get(identity.partition, identity.key)
        before = {} if record is None else decode(record.value)
        last = int(before.get("txnNum", -1))
        # An earlier attempt has committed, and its answer was lost.
        if last == self._number and before.get("state") == "committed":
            return False
        # The session has used this number or a later one for something else, so this transaction can no longer commit.
        if last >= self._number:
            raise MqlError(251, f"Transaction with {{ txnNumber: {self._number} }} has been aborted.")
        document = {
            "_id": self._id,
            "txnNum": Int64(self._number),
            "lastWriteDate": DatetimeMS(to_milliseconds(transaction.now)),
            "state": "committed",
            "done": [],
        }
        draft = self._sessions.build_draft(document, encode(document))
        yield from workspace.run(Command(Mode.UPSERT, identity.partition, identity.key, draft))
        return True


class RetryableWrite:
    """One retryable write of a session, and the answers of its executed statements. Each run of a decision loads the answers.

    Answers are stored as runs [first, end, answer], in order. Consecutive statements with equal answers form one run,
    so that a write of a hundred thousand statements loads and saves as quickly as one of ten.
    """

    def __init__(self, sessions: Collection, session: LogicalSession, number: int) -> None:
        """`sessions`: the collection `config.transactions`."""
        self._sessions = sessions
        self._identity, self._start = _name_document(session.id, session.owner)
        self._number = number
        self._done: list[list[Any]] = []
        self._recorded = False

    @property
    def container(self) -> int:
        """The container of `config.transactions`."""
        return self._sessions.id

    def load(self, transaction: DecisionTransaction) -> Steps[None]:
        """Load the answers under this number. Raise MqlError 225 if the session has a later number."""
        # The writer may run a decision several times: nothing of an earlier run may stay.
        self._done, self._recorded = [], False
        workspace = yield from transaction.on(self._sessions.id)
        identity = self._identity
        record = yield from workspace.get(identity.partition, identity.key)
        if record is None:
            return
        before = _number_of(record.value)
        if before is not None and before < self._number:
            # The usual case: a new write, which needs no answers of the one before.
            return
        kept = decode(record.value)
        last = int(kept["txnNum"])
        if last > self._number:
            text = f"Cannot start a transaction {self._number} because a newer retryable write with number {last} has started"
            raise MqlError(225, text)
        if last == self._number:
            if kept.get("state") == "committed":
                raise MqlError(225, f"Cannot retry a write under number {last}: it is that of a transaction")
            self._done = kept["done"]

    def find_answer(self, statement: int) -> tuple[bool, Document | None]:
        """(True, stored answer) if an earlier attempt has executed the statement, otherwise (False, None)."""
        # The last run that begins at the statement or before; the end of a run is exclusive.
        at = bisect_right(self._done, statement, key=itemgetter(0)) - 1
        run = self._done[at] if at >= 0 else None
        return (False, None) if run is None or statement >= run[1] else (True, run[2])

    def record(self, statement: int, answer: Document | None) -> None:
        """Record the answer of a statement that this transaction executes.

        A refused statement is not recorded: it may be retried.
        """
        self._recorded = True
        at = bisect_right(self._done, statement, key=itemgetter(0))
        run = self._done[at - 1] if at else None
        if run is not None and run[1] == statement and run[2] == answer:
            run[1] = statement + 1
        else:
            self._done.insert(at, [statement, statement + 1, answer])

    def save(self, transaction: DecisionTransaction) -> Steps[None]:
        """Store the recorded answers."""
        if not self._recorded:
            return
        identity = self._identity
        draft = self._sessions.build_draft_of(self._encode(transaction.now))
        workspace = yield from transaction.on(self._sessions.id)
        if transaction.shreds:
            # An answer may hold a document.
            workspace.seal()
        yield from workspace.run(Command(Mode.UPSERT, identity.partition, identity.key, draft))

    def _encode(self, now: Instant) -> bytes:
        numbers = _INT64.pack(self._number), _DATE_ELEMENT, _INT64.pack(to_milliseconds(now))
        body = b"".join((self._start, *numbers, encode({"done": self._done})[4:]))
        return _INT32.pack(len(body) + 4) + body
