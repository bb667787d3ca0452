"""Tells systemd that the server is ready, alive or stopping: datagrams to the socket that NOTIFY_SOCKET names (sd_notify(3))."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Mapping

from mayflydb.model.instant import SECOND

log = logging.getLogger("mayflydb.server")


class Notifier:
    """The service manager of this process. Without one, nothing is sent."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._address = environ.get("NOTIFY_SOCKET", "")
        self._watchdog = _watchdog_seconds(environ)
        self._beat: asyncio.TimerHandle | None = None

    def ready(self, status: str) -> None:
        """The server answers. From now on the watchdog is told, twice in its interval, that the event loop turns."""
        self._send(f"READY=1\nSTATUS={status}\nMAINPID={os.getpid()}")
        if self._address and self._watchdog:
            self._alive()

    def stopping(self) -> None:
        """The server ends. The watchdog is told no more: the manager's own time for a stop counts."""
        if self._beat is not None:
            self._beat.cancel()
        self._send("STOPPING=1\nSTATUS=finishing requests")

    def _alive(self) -> None:
        self._send("WATCHDOG=1")
        self._beat = asyncio.get_running_loop().call_later(self._watchdog / 2, self._alive)

    def _send(self, text: str) -> None:
        if not self._address:
            return
        # A name that begins with @ is in the abstract namespace.
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as out:
                out.setblocking(False)
                out.sendto(text.encode(), address)
        except OSError as error:
            log.warning("the service manager cannot be told %s: %s", text.partition("\n")[0], error.strerror)


def _watchdog_seconds(environ: Mapping[str, str]) -> float:
    """The interval in which systemd expects a sign; 0 if it expects none, or one of another process."""
    interval, process = environ.get("WATCHDOG_USEC", ""), environ.get("WATCHDOG_PID", "")
    if not interval.isdecimal() or (process and process != str(os.getpid())):
        return 0.0
    return int(interval) / SECOND
