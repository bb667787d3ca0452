"""A server whose steps are counted: prints a ready document, and for each line of input the steps of the event loop's thread
since the last one.

python stepping.py PATH [SETTING=NUMBER...]

A step is one instruction of Python's own machine. The count is the same at each run and on each machine, up to what a server does
at its own times; the work of libraries in C is no part of it. The first line begins the count.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
from types import FrameType
from typing import Any

from mayflydb.embedded import settings_from
from mayflydb.serving.process import loop_factory
from mayflydb.serving.server import Server


class Steps:
    """Counts them from `start` on, in the thread that calls it."""

    def __init__(self) -> None:
        self.count = 0

    def start(self) -> None:
        sys.settrace(self._enter)

    def _enter(self, frame: FrameType, _event: str, _argument: Any) -> Any:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._step

    def _step(self, _frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "opcode":
            self.count += 1
        return self._step

    def take(self) -> int:
        """The steps since the last time."""
        taken, self.count = self.count, 0
        return taken


async def serve(path: str, settings: list[str]) -> None:
    """Until the input ends."""
    given: dict[str, Any] = {"port": 0, "host": "127.0.0.1", "mongo_port": -1, "ydb_port": -1, "preload": True}
    given |= {name: int(number) for name, _, number in (each.partition("=") for each in settings)}
    server = Server(settings_from(path, False, given), os.environ)
    announcement = await server.start()
    gc.collect()
    gc.freeze()
    port = int((announcement.admin or "").split(":")[2].partition("/")[0])
    print(json.dumps({"pid": os.getpid(), "port": port}), flush=True)
    steps = Steps()
    while await asyncio.to_thread(sys.stdin.readline):
        print(json.dumps(steps.take()), flush=True)
        steps.start()
    sys.settrace(None)
    await server.stop()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(serve(sys.argv[1], sys.argv[2:]))
