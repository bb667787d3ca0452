"""The unit of work: a command's access to data, immediately or within a transaction."""

from __future__ import annotations

from typing import Protocol, TypeVar

from mayflydb.frontends.mongo.collections import Collection, Identity
from mayflydb.frontends.mongo.decisions import Decision
from mayflydb.frontends.mongo.reading import ReadView
from mayflydb.frontends.mongo.sessions.retries import RetryableWrite
from mayflydb.frontends.mongo.spending import SpentUnits
from mayflydb.model.instant import Instant
from mayflydb.model.record import Record

T = TypeVar("T")


class UnitOfWork(Protocol):
    """The access of one command to data.

    `view`: the state that reads see. `retryable_write`: set for a command that is one. `in_transaction`: the work is part of a
    transaction of the session, which any error aborts. `spent`: request units of the reads and writes so far.
    """

    view: ReadView
    retryable_write: RetryableWrite | None
    in_transaction: bool
    spent: SpentUnits

    async def get(self, collection: Collection, identity: Identity, now: Instant) -> Record | None:
        """The visible record of an identity, as a decision of this work would find it; None: there is none."""

    async def perform(self, decide: Decision[T]) -> T:
        """Run a decision and return its reply, once it is committed or, within a transaction, part of the transaction."""

    def note_refusal(self) -> None:
        """Note that a statement was refused; this aborts a transaction."""
