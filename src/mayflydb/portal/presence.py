"""Work for a client that waits for it: it ends when the client leaves, and when its time is up."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from starlette.requests import Request

from mayflydb.model.errors import TimedOut

FILE_SECONDS: Final = 120
"""The time of an upload, and of an export."""

EXPORTS: Final = 2
"""Exports of a protocol's pages that are made at once; each holds its rows in memory. Further ones wait, within their time."""

T = TypeVar("T")


class ClientLeft(Exception):
    """The client left before its answer."""


async def run_while_present(request: Request, work: Coroutine[Any, Any, T], seconds: float, name: str) -> T:
    """Return the result of `work`. Cancel it, and raise ClientLeft or TimedOut, when the client leaves or the time is up.

    `name`: of the work, with an article, for the sentence of the error.
    """
    task, leaving = asyncio.create_task(work), asyncio.create_task(_wait_for_leaving(request))
    try:
        done, _ = await asyncio.wait((task, leaving), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if task in done:
            return task.result()
        if leaving in done:
            raise ClientLeft
        raise TimedOut(f"{name} took longer than {seconds:g} s and was ended.")
    finally:
        task.cancel()
        leaving.cancel()


async def _wait_for_leaving(request: Request) -> None:
    # A request whose body was not read has its body first.
    while (await request.receive())["type"] != "http.disconnect":
        pass
