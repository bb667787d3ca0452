"""Publishing: each change of a record is told to its front end, in the transaction that makes the change.

So what the front end writes of it, such as a message for the readers of a changefeed, is committed with the change or not at all.
A purge tells of what expired in the same way: each expiry is told exactly once.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Protocol

from mayflydb.engine.catalog import Node
from mayflydb.engine.commands import RecordChange
from mayflydb.engine.transactions import WriteTransaction
from mayflydb.model.errors import Unavailable
from mayflydb.store.interface import Read

Steps = Generator[Read[Any], Any, None]


class Publisher(Protocol):
    """The work of a front end with the changes of its records."""

    def publish(self, transaction: WriteTransaction, node: Node, changes: Sequence[RecordChange]) -> Steps:
        """Write of the changes of one container, in their order. It never refuses a change."""


class Publications:
    """The publishers of one engine, by the name of the front end's space; empty until the front ends are there."""

    def __init__(self) -> None:
        self.publishers: Mapping[str, Callable[[], Publisher]] = {}

    def can_publish(self, node: Node) -> bool:
        """Return whether the publisher of a container is there."""
        return node.definition.publisher in self.publishers

    def publish(self, transaction: WriteTransaction) -> Steps:
        """Publish all changes of a transaction that are to be published. Unavailable before the front ends are there."""
        while published := transaction.take_published():
            for node, changes in published:
                publisher = self.publishers.get(node.definition.publisher or "")
                if publisher is None:
                    raise Unavailable("the front ends are not there yet")
                yield from publisher().publish(transaction, node, changes)
