"""A server as a process of its own: event loop, signals and memory."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable
from typing import Final, NoReturn

from mayflydb.announcement import Announcement, StartFailed
from mayflydb.clock import VirtualClock
from mayflydb.config.settings import Settings
from mayflydb.evaluation.loop_watch import LoopWatch
from mayflydb.evaluation.memory import keep_large_blocks_apart
from mayflydb.model.instant import Instant
from mayflydb.serving.logs import configure
from mayflydb.serving.notify import Notifier
from mayflydb.serving.server import Server

SWITCH_INTERVAL = 0.001
"""Seconds that a thread computes before another gets its turn. With Python's default of 5 ms the store's writer would delay the
event loop."""

STDIN: Final = 0
"""The descriptor of standard input."""

DESCRIPTORS: Final = 16_384
"""The number of descriptors that suffices for the connections of all ports."""


def run(settings: Settings, announcer: Callable[[Announcement], None]) -> int:
    """Serve until SIGTERM or SIGINT and return the exit code. Raise StartFailed. A second SIGINT ends the process at once."""
    sys.setswitchinterval(SWITCH_INTERVAL)
    keep_large_blocks_apart()
    _raise_descriptor_limit()
    if settings.server.stop_with_stdin and sys.stdin is None:
        raise StartFailed("standard input is closed", setting="server.stop_with_stdin", exit_code=2)
    _take_standard_descriptors()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_serve(settings, announcer))


def _take_standard_descriptors() -> None:
    """Open /dev/null where a standard stream is closed: a socket would get its descriptor, and libuv aborts when it is closed."""
    for descriptor in (STDIN, 1, 2):
        if not _is_open(descriptor):
            os.open(os.devnull, os.O_RDWR)


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def _raise_descriptor_limit() -> None:
    """Raise the soft limit of descriptors to the hard limit, up to DESCRIPTORS: shells set a soft limit of 1024 as a rule."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's factory of event loops; None where uvloop is not installed, for asyncio's own."""
    try:
        from uvloop import new_event_loop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = new_event_loop
    return factory


async def _serve(settings: Settings, announcer: Callable[[Announcement], None]) -> int:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stopping.set)
    loop.add_signal_handler(signal.SIGINT, _interrupt, stopping)
    if settings.server.stop_with_stdin:
        _watch_input(loop, stopping)
    server, manager = Server(settings, os.environ), Notifier(os.environ)
    form, level = settings.server.log_format, settings.server.log_level
    configure(form, level, lambda: _virtual_now(server), secrets=lambda: server.secrets)
    stop_requested = asyncio.create_task(stopping.wait())
    starting = asyncio.create_task(server.start())
    try:
        # A signal during the start ends it; the start's own failure is raised by `result`.
        await asyncio.wait({stop_requested, starting}, return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            announcement = starting.result()
            announcer(announcement)
            manager.ready(f"serving {announcement.storage}")
            _finish_start(None if server.admin is None else server.admin.engine.loop_watch)
            await stop_requested
    finally:
        manager.stopping()
        starting.cancel()
        stop_requested.cancel()
        await asyncio.wait({starting, stop_requested})
        await server.stop()
    return 0


def _watch_input(loop: asyncio.AbstractEventLoop, stopping: asyncio.Event) -> None:
    """Stop when standard input ends. A thread reads it, because an event loop cannot wait for files and /dev/null."""

    def read_to_the_end() -> None:
        with contextlib.suppress(OSError):
            while os.read(STDIN, 65_536):
                pass
        # The loop is closed where the server stopped first.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(stopping.set)

    threading.Thread(target=read_to_the_end, name="mayfly-stdin", daemon=True).start()


def _interrupt(stopping: asyncio.Event) -> None:
    if stopping.is_set():
        _exit_at_once()
    stopping.set()


def _exit_at_once() -> NoReturn:
    # Every answered write is committed. A second Ctrl+C gives up the rest, and skips handlers that could hang.
    os._exit(128 + signal.SIGINT)


def _virtual_now(server: Server) -> Instant | None:
    clock = None if server.admin is None else server.admin.engine.time.clock
    return clock.now() if isinstance(clock, VirtualClock) else None


def _finish_start(watch: LoopWatch | None) -> None:
    """Tidy up after the start, and only then log turns of the event loop that take long: the tidying is one."""
    _freeze_start_objects()
    if watch is not None:
        watch.log_long_turns()


def _freeze_start_objects() -> None:
    """Move the objects of the start to the permanent generation, which full collections do not walk.

    A collection holds the interpreter lock, and walking all loaded modules would take milliseconds each time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000)
    gc.enable()
