"""The place of the initial scan of a changefeed: a record in the container of its topic's state."""

from __future__ import annotations

from typing import Final

from mayflydb.engine.catalog import Node
from mayflydb.engine.commands import Command, Draft, Mode
from mayflydb.engine.reads import Steps
from mayflydb.engine.transactions import WriteTransaction
from mayflydb.frontends.ydb.topics.bodies import topic_body
from mayflydb.frontends.ydb.topics.log import STATE_PARTITION
from mayflydb.model.record import NEVER

_KEY: Final = b"s"


def read_scanned(transaction: WriteTransaction, topic: Node) -> Steps[int]:
    """Return the place in creation order up to which rows are told of; 0 at the beginning."""
    space = yield from transaction.on(topic_body(topic).state)
    record = yield from space.get(STATE_PARTITION, _KEY)
    return 0 if record is None else int.from_bytes(record.value, "big")


def write_scanned(transaction: WriteTransaction, topic: Node, seq: int) -> Steps[None]:
    """Write the place in creation order up to which rows are told of."""
    space = yield from transaction.on(topic_body(topic).state)
    draft = Draft(seq.to_bytes(8, "big"), override=NEVER)
    yield from space.run(Command(Mode.UPSERT, STATE_PARTITION, _KEY, draft))
