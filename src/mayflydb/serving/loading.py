"""Loads modules on a thread, while the event loop goes on to serve clients."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from importlib import import_module
from threading import Lock
from typing import Final, TypeVar

T = TypeVar("T")

_ONE_AT_A_TIME: Final = Lock()


async def load_modules(*names: str, then: Callable[[], T]) -> T:
    """Import these modules and all that they import, then return the result of `then`. ImportError if one cannot be imported.

    Both happen on a thread, which gives up the interpreter lock every millisecond (`SWITCH_INTERVAL`), so that others wait for it
    no longer than that.
    """
    return await asyncio.to_thread(_import, names, then)


def _import(names: tuple[str, ...], then: Callable[[], T]) -> T:
    with _ONE_AT_A_TIME:
        # A full collection would walk the new objects again and again, and hold the lock for up to 90 ms.
        collecting = gc.isenabled()
        gc.disable()
        try:
            for name in names:
                import_module(name)
            return then()
        finally:
            # Where a server has a process of its own, new modules stay as those of the start do (`process`): collections leave
            # them out. What a client made meanwhile is freed as before, unless it is a cycle.
            if gc.get_freeze_count():
                gc.freeze()
            if collecting:
                gc.enable()


class FrontEnd:
    """A front end that is loaded by its first client, or at the start. `load` loads it.

    `report`: takes "ok" when it is loaded, else the reason why it is not.
    """

    def __init__(self, name: str, preload: bool, report: Callable[[str], None]) -> None:
        self.preload = preload
        self.load: Callable[[], Awaitable[object]]
        self._name = name
        self._report = report
        self._loading: asyncio.Task[None] | None = None

    async def ready(self) -> None:
        """Return when the front end is loaded. An error of the load is raised; the next call loads again."""
        if self._loading is None:
            self._loading = asyncio.create_task(self._load())
            # Its error is told by `report`, also where all clients have left.
            self._loading.add_done_callback(lambda task: task.cancelled() or task.exception())
        # A client that leaves must not cancel what others wait for.
        await asyncio.shield(self._loading)

    async def _load(self) -> None:
        try:
            await self.load()
        except Exception as error:
            self._loading = None
            self._report(f"{self._name} could not be loaded: {error}")
            raise
        self._report("ok")

    async def close(self) -> None:
        """Wait for the end of a load that is under way."""
        if self._loading is not None:
            await asyncio.wait([self._loading])
