"""Initial scans: the rows that were there before a changefeed, as its first messages.

A scan walks over the table by creation, a batch in each transaction, which also notes how far it has come: so it tells of each
row once, wherever the process ends. A row that is written before the scan comes to it is told of by that write (`publisher`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Final

from mayflydb.engine.engine import Engine
from mayflydb.engine.reads import Steps
from mayflydb.engine.transactions import Body, WriteTransaction
from mayflydb.expiry.deadline import visible_at
from mayflydb.frontends.ydb.changefeeds.publisher import TablePublisher
from mayflydb.frontends.ydb.changefeeds.scan_state import read_scanned, write_scanned
from mayflydb.frontends.ydb.schemes.feeds import end_scan
from mayflydb.frontends.ydb.tables import TableView
from mayflydb.model.errors import MayflyError
from mayflydb.model.order import Position

log = logging.getLogger(__name__)

BATCH_ROWS: Final = 128
RETRY_SECONDS: Final = 1.0


class InitialScans:
    """The scans of this process."""

    def __init__(self, engine: Engine, publisher: TablePublisher) -> None:
        self._engine = engine
        self._publisher = publisher
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._ending = asyncio.Event()

    def start(self, view: TableView) -> None:
        """Begin or go on with the scans of a table's changefeeds."""
        for feed in view.body.changefeeds:
            if feed.scan is not None and feed.topic not in self._tasks:
                task = asyncio.create_task(self._run(view.node.id, feed.topic), name=f"scan for {feed.name}")
                self._tasks[feed.topic] = task
                task.add_done_callback(lambda _, topic=feed.topic: self._tasks.pop(topic, None))  # type: ignore[misc]

    async def close(self) -> None:
        """Stop all scans as they are; the next start goes on with them."""
        self._ending.set()
        for task in list(self._tasks.values()):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _run(self, table: int, topic: int) -> None:
        while True:
            try:
                if not await self._engine.transact(self._body(table, topic), await self._engine.now(), size=BATCH_ROWS):
                    break
            except MayflyError as error:
                log.warning("the initial scan of table %d goes on in a second: %s", table, error)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(RETRY_SECONDS):
                        await self._ending.wait()
        await self._engine.definitions.transact(lambda catalog: end_scan(catalog, table, topic))

    def _body(self, table: int, topic: int) -> Body[bool]:
        def body(transaction: WriteTransaction) -> Steps[bool]:
            """Tell of the next rows; False: there are none."""
            space = yield from transaction.on(table)
            feeds = self._publisher.writers(space.node)[1]
            writer = next((each for each in feeds if each.feed.topic == topic), None)
            if writer is None or writer.feed.scan is None:
                return False
            log_node = (yield from transaction.on(topic)).node
            scanned = yield from read_scanned(transaction, log_node)
            page = yield from space.read_stored(Position(b"", scanned), BATCH_ROWS)
            if not page:
                return False
            rules, scan = space.rules, writer.feed.scan
            rows = [each for each in page if each.lsn <= scan.lsn and visible_at(each, rules, transaction.now)]
            yield from writer.write_scanned(transaction, log_node, rows)
            yield from write_scanned(transaction, log_node, page[-1].seq)
            return True

        return body
