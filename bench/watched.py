"""A server whose event loop is watched: prints a ready document, and for each line of input how late the loop was since the last.

python watched.py PATH
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys

from msgspec import to_builtins
from watchdog import Watchdog

from mayflydb.embedded import settings_from
from mayflydb.serving.process import SWITCH_INTERVAL, loop_factory
from mayflydb.serving.server import Server


async def serve(path: str) -> None:
    """Until the input ends."""
    given = {"port": 0, "host": "127.0.0.1", "mongo_port": 0, "ydb_port": 0, "mongo_sweep_interval": "1s"}
    server = Server(settings_from(path, False, given), os.environ)
    announcement = await server.start()
    watchdog = Watchdog()
    gc.collect()
    gc.freeze()
    port = int((announcement.admin or "").split(":")[2].partition("/")[0])
    ready = {"pid": os.getpid(), "port": port, "mongo": announcement.mongo_uri or "", "ydb": announcement.ydb_endpoint}
    print(json.dumps(ready), flush=True)
    while await asyncio.to_thread(sys.stdin.readline):
        print(json.dumps({"late": to_builtins(watchdog.restart()), "purged": _purged(server)}), flush=True)
    watchdog.stop()
    await server.stop()


def _purged(server: Server) -> int:
    assert server.admin is not None
    return sum(server.admin.engine.reaper.purge_counts.values())


if __name__ == "__main__":
    sys.setswitchinterval(SWITCH_INTERVAL)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(serve(sys.argv[1]))
