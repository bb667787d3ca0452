"""Decisions: generators that read and change records within one transaction.

The same decision runs in the writer's own transaction (`engine.transactions.Transaction`) and in an open transaction of
a session (`sessions.transaction_work.TransactionWork`). The two protocols of this module are the part that a decision
may use of either.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Protocol, TypeAlias, TypeVar

from mayflydb.engine.commands import Command, Written
from mayflydb.model.instant import Instant
from mayflydb.model.record import Record

T = TypeVar("T")

Steps: TypeAlias = Generator[Any, Any, T]
"""Part of a decision.

The transaction that runs the decision interprets what is yielded: reads of the store, or of a snapshot.
"""


class DecisionWorkspace(Protocol):
    """One container within a transaction."""

    @property
    def remembers(self) -> bool:
        """True if a change stream needs descriptions of changes."""

    def seal(self) -> None:
        """Seal what is written from now on, as the container that it is from does."""

    def get(self, partition: bytes, key: bytes) -> Steps[Record | None]:
        """The visible record of an identity; None: there is none."""

    def run(self, command: Command) -> Steps[Written]:
        """Run a write. Errors: those of `engine.workspace.Workspace.run`."""


class DecisionTransaction(Protocol):
    """A transaction as a decision sees it. `now`: the instant by which records are visible or hidden."""

    @property
    def now(self) -> Instant: ...

    @property
    def shreds(self) -> bool:
        """True if a container of the transaction seals its records, to shred them."""

    def on(self, container: int) -> Steps[DecisionWorkspace]:
        """A container by its id. Raise OwnerNotFound if it is gone."""


Decision: TypeAlias = Callable[[DecisionTransaction], Steps[T]]
"""A complete decision."""
