"""Point reads of one turn of the event loop in one statement: many keys cost little more than one."""

from __future__ import annotations

import asyncio
from collections import deque

import asyncpg

from mayflydb.model.record import Record
from mayflydb.store.interface import Get
from mayflydb.store.postgres.connection import DEADLINE
from mayflydb.store.postgres.reads import get_many

MAX_READS = 64
MAX_STATEMENTS = 4
"""Statements under way. While there are so many, further reads are gathered for the next one."""


class ReadBatch:
    """Gathers point reads. An error of a statement goes to each read that was in it."""

    def __init__(self, pool: asyncpg.Pool, distributed: bool) -> None:
        self._pool = pool
        self._distributed = distributed
        self._waiting: deque[tuple[Get, asyncio.Future[Record | None]]] = deque()
        self._under_way: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()

    async def ask(self, request: Get) -> Record | None:
        """Read the record with this identity."""
        future: asyncio.Future[Record | None] = self._loop.create_future()
        if not self._waiting and len(self._under_way) < MAX_STATEMENTS:
            self._loop.call_soon(self._send)
        self._waiting.append((request, future))
        return await future

    def _send(self) -> None:
        while self._waiting and len(self._under_way) < MAX_STATEMENTS:
            batch = [self._waiting.popleft() for _ in range(min(MAX_READS, len(self._waiting)))]
            task = self._loop.create_task(self._fetch(batch))
            self._under_way.add(task)
            task.add_done_callback(self._finish_batch)

    def _finish_batch(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        self._send()

    async def _fetch(self, batch: list[tuple[Get, asyncio.Future[Record | None]]]) -> None:
        try:
            async with self._pool.acquire(timeout=DEADLINE) as connection:
                found = await get_many(connection, [request for request, _ in batch], self._distributed)
        except Exception as error:  # noqa: BLE001 -- told to those who asked.
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
            return
        for (_, future), record in zip(batch, found, strict=True):
            if not future.done():
                future.set_result(record)
