"""As much of Docker's client as the SDK's suite takes: the container it kills and starts again is the Mayfly of the run."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

from docker import errors

__all__ = ["Client", "DockerClient", "errors", "from_env"]


class Container:
    """The server whose process is SUITE_SERVER_PID."""

    def kill(self) -> None:
        """At once, as the suite wants it."""
        with suppress(ProcessLookupError):
            os.kill(int(os.environ["SUITE_SERVER_PID"]), signal.SIGKILL)

    def remove(self, force: bool = False, v: bool = False) -> None:
        """Whoever started the server ends it."""


class Containers:
    def list(self, all: bool = False, filters: object = None) -> list[Container]:  # noqa: A002  # Its callers name it.
        """The one there is."""
        return [Container()]


class Nothing:
    """Networks and volumes, of which the server has none."""

    def list(self, filters: object = None) -> list[Container]:
        """Nothing to be removed."""
        return []


class Client:
    containers = Containers()
    networks = volumes = Nothing()


DockerClient = Client


def from_env() -> Client:
    """The client."""
    return Client()
