"""A node in a process of its own, for a test that stops or kills it: `python paused_node.py URL CONTAINER stop|wait`.

It prints `joined`. With `stop` it adds one to the counter: it prints `locked` and stops itself inside of the transaction; when it
goes on, it prints the count.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Final

import msgspec

from mayflydb.model.instant import SECOND
from mayflydb.store.interface import Allocate, Decision, Get, LoadRow, Outcome, Put, ask
from mayflydb.store.postgres import PostgresStore

PARTITION: Final = b"p"
COUNTER: Final = b"counter"


class Counting:
    """Adds one to a counter of a container. `stop`: the process stops itself where the container is locked, once."""

    def __init__(self, id: int, stop: bool = False) -> None:
        self._id = id
        self._stop = stop

    def decide(self) -> Decision[int]:
        """The answer is the new count."""
        yield from ask(LoadRow(self._id))
        if self._stop:
            self._stop = False
            print("locked", flush=True)
            os.kill(os.getpid(), signal.SIGSTOP)
        record = yield from ask(Get(self._id, PARTITION, COUNTER))
        assert record is not None
        lsn, _ = yield from ask(Allocate(self._id, seq=False))
        count = int(record.value) + 1
        changed = msgspec.structs.replace(record, value=b"%d" % count, lsn=lsn, written=count * SECOND)
        return Outcome((Put(self._id, changed, False),), count)


async def main(url: str, id: int, what: str) -> None:
    store = await PostgresStore.open(url)
    print("joined", flush=True)
    if what == "stop":
        print((await store.write(Counting(id, stop=True).decide)).reply, flush=True)
    else:
        await asyncio.get_running_loop().create_future()
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
