"""Decisions: generators that look at records and change them within one transaction.

The same decision runs in the writer's own transaction (`engine.transactions.Transaction`) and in a transaction of a session that
stays open (`sessions.transaction_work.TransactionWork`). The two protocols here are what a decision may use of either.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Protocol, TypeAlias, TypeVar

from mayflydb.engine.commands import Command, Written
from mayflydb.model.instant import Instant
from mayflydb.model.record import Record

T = TypeVar("T")

Steps: TypeAlias = Generator[Any, Any, T]
"""Part of a decision. The transaction that runs the decision knows what is yielded: reads of a store, or of a snapshot."""


class DecisionSpace(Protocol):
    """One container within a transaction."""

    @property
    def remembers(self) -> bool:
        """Whether changes are described for a change stream."""

    def get(self, partition: bytes, key: bytes) -> Steps[Record | None]:
        """The visible record at a place."""

    def run(self, command: Command) -> Steps[Written]:
        """Carry out a write. Errors: those of `engine.workspace.Workspace.run`."""


class DecisionTransaction(Protocol):
    """A transaction as a decision sees it. `now`: the instant by which everything in it is visible or hidden."""

    @property
    def now(self) -> Instant: ...

    def on(self, container: int) -> Steps[DecisionSpace]:
        """A container by its id. OwnerNotFound if it is gone."""


Decision: TypeAlias = Callable[[DecisionTransaction], Steps[T]]
"""A whole decision."""
