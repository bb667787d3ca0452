"""A server that watches where its processor time goes: prints a ready document, and for each line of input what it has seen.

python sampled.py PATH

Every millisecond of processor time (ITIMER_PROF) the clock of each thread is read. What a thread has used since the last time is
counted for the innermost function of Mayfly's on its stack, and in the store, in a line that calls SQLite, for SQLite.
"""

from __future__ import annotations

import asyncio
import gc
import json
import linecache
import os
import re
import signal
import sys
import threading
import time
from collections import Counter
from functools import cache
from pathlib import Path
from types import CodeType, FrameType

import mayflydb
from mayflydb.embedded import settings_from
from mayflydb.serving.process import SWITCH_INTERVAL, loop_factory
from mayflydb.serving.server import Server

ROOT = str(Path(mayflydb.__file__).parent) + os.sep
INTERVAL = 0.001
LOOP = "event loop, sockets"
SQLITE = "SQLite"
_CALLS_SQLITE = re.compile(
    r"execute|executemany|\.get\b|fetch|commit|COMMIT|\bcursor\b|in rows|in found", re.IGNORECASE
)


class Sampler:
    """Nanoseconds by place."""

    def __init__(self) -> None:
        self._last: dict[int, int] = {}
        self.seen: Counter[str] = Counter()

    def start(self) -> None:
        signal.signal(signal.SIGPROF, self._sample)
        signal.setitimer(signal.ITIMER_PROF, INTERVAL, INTERVAL)

    def _sample(self, _: int, frame: FrameType | None) -> None:
        own = threading.get_ident()
        for thread, innermost in sys._current_frames().items():  # noqa: SLF001 -- the documented way to all stacks.
            used = self._used(thread)
            if used:
                self.seen[_place(frame if thread == own else innermost)] += used

    def _used(self, thread: int) -> int:
        now = time.clock_gettime_ns(time.pthread_getcpuclockid(thread))
        before, self._last[thread] = self._last.get(thread, now), now
        return max(0, now - before)

    def take(self) -> dict[str, float]:
        """Seconds by place since the last time."""
        seen, self.seen = self.seen, Counter()
        return {place: nanoseconds / 1e9 for place, nanoseconds in seen.items()}


def _place(frame: FrameType | None) -> str:
    while frame is not None:
        package = _package(frame.f_code)
        if package == "store/sqlite" and _CALLS_SQLITE.search(
            linecache.getline(frame.f_code.co_filename, frame.f_lineno or 0)
        ):
            return SQLITE
        if package:
            return package
        frame = frame.f_back
    return LOOP


@cache
def _package(code: CodeType) -> str:
    """`frontends/cosmos`, `engine`; empty for code of others, and for that which only runs the event loop."""
    if not code.co_filename.startswith(ROOT):
        return ""
    parts = Path(code.co_filename.removeprefix(ROOT)).parts
    if parts[0] in ("cli", "embedded.py") or parts[-1] == "process.py":
        return ""
    deep = parts[0] in ("frontends", "store", "query") and len(parts) > 2
    return "/".join(parts[: 2 if deep else 1]).removesuffix(".py")


async def serve(path: str) -> None:
    """Until the input ends."""
    given = {"port": 0, "host": "127.0.0.1", "mongo_port": 0, "ydb_port": -1, "preload": True}
    server = Server(settings_from(path, False, given), os.environ)
    announcement = await server.start()
    gc.collect()
    gc.freeze()
    sampler = Sampler()
    sampler.start()
    port = int((announcement.admin or "").split(":")[2].partition("/")[0])
    print(json.dumps({"pid": os.getpid(), "port": port, "mongo": announcement.mongo_uri or ""}), flush=True)
    while await asyncio.to_thread(sys.stdin.readline):
        print(json.dumps(sampler.take()), flush=True)
    await server.stop()


if __name__ == "__main__":
    sys.setswitchinterval(SWITCH_INTERVAL)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(serve(sys.argv[1]))
