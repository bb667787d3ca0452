"""A server that also speaks direct mode without TLS, which Mayfly does not: prints a ready document, and ends with its input.

python plain_direct.py PATH
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys

from mayflydb.embedded import settings_from
from mayflydb.frontends.cosmos.direct.connection import DirectConnection
from mayflydb.http.connection import HttpWork, Limits
from mayflydb.serving.process import SWITCH_INTERVAL, loop_factory
from mayflydb.serving.server import Server


async def serve(path: str) -> None:
    """Until the input ends."""
    given = {"port": 0, "host": "127.0.0.1", "mongo_port": -1, "ydb_port": -1}
    server = Server(settings_from(path, False, given), os.environ)
    announcement = await server.start()
    http = server._http  # noqa: SLF001 -- the gateway, behind which its own port is, answers here too.
    assert http is not None
    assert http._gateway is not None  # noqa: SLF001
    limits = Limits()
    work = HttpWork(http._gateway, limits)  # noqa: SLF001
    loop = asyncio.get_running_loop()
    listening = await loop.create_server(
        lambda: DirectConnection(work, loop, loop.time() + limits.deadlines.head), "127.0.0.1", 0
    )
    gc.collect()
    gc.freeze()
    port = int((announcement.admin or "").split(":")[2].partition("/")[0])
    plain = listening.sockets[0].getsockname()[1]
    print(json.dumps({"pid": os.getpid(), "port": port, "plain": plain}), flush=True)
    await asyncio.to_thread(sys.stdin.read)
    listening.close()
    await server.stop()


if __name__ == "__main__":
    sys.setswitchinterval(SWITCH_INTERVAL)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(serve(sys.argv[1]))
