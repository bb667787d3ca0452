"""The unit of work: a command's way to the data, at once or within a transaction."""

from __future__ import annotations

from typing import Protocol, TypeVar

from mayflydb.frontends.mongo.decisions import Decision
from mayflydb.frontends.mongo.reading import ReadView
from mayflydb.frontends.mongo.sessions.retries import NumberedWrite
from mayflydb.frontends.mongo.spending import SpentUnits

T = TypeVar("T")


class UnitOfWork(Protocol):
    """`attempt`: the numbered write this is, if it is one. `aborts`: an error ends more than the statement that met it.

    `spent`: what it has read and written.
    """

    view: ReadView
    numbered_write: NumberedWrite | None
    aborts: bool
    spent: SpentUnits

    async def perform(self, decide: Decision[T]) -> T:
        """Run a decision and return its reply, once it is committed or, within a transaction, part of that."""

    def fail(self) -> None:
        """A statement was refused."""
