"""Writes the changes of tables into the topics of their changefeeds, in the transaction of each change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mayflydb.engine.catalog import Node
from mayflydb.engine.commands import RecordChange
from mayflydb.engine.reads import Steps
from mayflydb.engine.transactions import WriteTransaction
from mayflydb.frontends.ydb.changefeeds.records import TTL_USER, ChangeOrigin, RecordPlace, RecordWriter, RowChange
from mayflydb.frontends.ydb.changefeeds.scan_state import read_scanned
from mayflydb.frontends.ydb.rows import RowLayout, decode_note
from mayflydb.frontends.ydb.schemes.views import table_view
from mayflydb.frontends.ydb.tables import Changefeed, InitialScan
from mayflydb.frontends.ydb.topics.bodies import topic_body
from mayflydb.frontends.ydb.topics.log import append, read_partition
from mayflydb.model.record import Kind, Record

MAX_TABLES: Final = 1000
"""Tables whose writers are kept. All of them go at once."""


class TablePublisher:
    """The publisher of YDB's tables."""

    def __init__(self) -> None:
        self._tables: dict[int, tuple[Node, RowLayout, tuple[FeedWriter, ...]]] = {}

    def publish(self, transaction: WriteTransaction, node: Node, changes: Sequence[RecordChange]) -> Steps[None]:
        """Write the changes of one table into the topics of its changefeeds."""
        layout, feeds = self.writers(node)
        rows = [_row_change(layout, each) for each in changes]
        for feed in feeds:
            yield from feed.write(transaction, changes, rows)

    def writers(self, node: Node) -> tuple[RowLayout, tuple[FeedWriter, ...]]:
        """Return the layout of a table, and the writers of its changefeeds."""
        known = self._tables.get(node.id)
        if known is None or known[0] is not node:
            if len(self._tables) >= MAX_TABLES:
                self._tables.clear()
            view = table_view(node, node.name)
            layout = RowLayout(view)
            feeds = tuple(FeedWriter(layout, feed) for feed in view.body.changefeeds)
            known = self._tables[node.id] = node, layout, feeds
        return known[1], known[2]


def _row_change(layout: RowLayout, change: RecordChange) -> RowChange:
    before = None if change.before is None else layout.decode(change.before.value)
    if change.after is None:
        return RowChange("erase", before, None)
    after = layout.decode(change.after.value)
    if change.remembered is None:
        # A write without a statement, such as that of a roll-up: all columns.
        return RowChange("update", before, after, tuple(layout.numbers.values()))
    note = decode_note(change.remembered)
    return RowChange("reset" if note.replaced else "update", before, after, note.columns)


class FeedWriter:
    """Writes the records of one changefeed."""

    def __init__(self, layout: RowLayout, feed: Changefeed) -> None:
        self.feed = feed
        self._layout = layout
        self._records = RecordWriter(layout, feed)

    def write(
        self, transaction: WriteTransaction, changes: Sequence[RecordChange], rows: Sequence[RowChange]
    ) -> Steps[None]:
        """Write changes of rows, after the rows themselves where an initial scan has not come to them."""
        log = yield from transaction.find(self.feed.topic)
        # The topic of a changefeed that another node drops in this moment.
        if log is None:
            return
        topic = log.node
        # All transactions of the database take their numbers from one row.
        numbered = self.feed.virtual_timestamps or self.feed.format != "JSON"
        number = (yield from transaction.number(self._layout.view.node.parent)) if numbered else 0
        scan = self.feed.scan
        scanned = 0 if scan is None else (yield from read_scanned(transaction, topic))
        found: list[tuple[RowChange, ChangeOrigin]] = []
        for change, each in zip(changes, rows, strict=True):
            before = change.before
            if scan is not None and before is not None and before.lsn <= scan.lsn and before.seq > scanned:
                found.append(self._tell_of_row(before, scan))
            found.append((each, ChangeOrigin(transaction.now, number, self._user(transaction, change))))
        yield from self._append(transaction, topic, found)

    def write_scanned(self, transaction: WriteTransaction, topic: Node, records: Sequence[Record]) -> Steps[None]:
        """Write rows that the initial scan has found."""
        assert self.feed.scan is not None
        yield from self._append(transaction, topic, [self._tell_of_row(each, self.feed.scan) for each in records])

    def _tell_of_row(self, record: Record, scan: InitialScan) -> tuple[RowChange, ChangeOrigin]:
        row = self._layout.decode(record.value)
        return RowChange("update", None, row, (), scanned=True), ChangeOrigin(scan.at, scan.number, "")

    def _user(self, transaction: WriteTransaction, change: RecordChange) -> str:
        if not self.feed.user_sids:
            return ""
        return TTL_USER if change.kind is Kind.EXPIRE else transaction.author

    def _append(
        self, transaction: WriteTransaction, topic: Node, found: Sequence[tuple[RowChange, ChangeOrigin]]
    ) -> Steps[None]:
        body = topic_body(topic)
        by_partition: dict[int, list[tuple[RowChange, ChangeOrigin]]] = {}
        for each in found:
            by_partition.setdefault(self._records.partition(each[0], body.partitions), []).append(each)
        producer = str(self._layout.view.node.id)
        for partition, changes in sorted(by_partition.items()):
            first = (yield from read_partition(transaction, body.state, partition)).end
            messages = [
                self._records.write(change, origin, RecordPlace(partition, first + place))
                for place, (change, origin) in enumerate(changes, 1)
            ]
            yield from append(transaction, topic.id, body.state, partition, messages, producer=producer, group=producer)
