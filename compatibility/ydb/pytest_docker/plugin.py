"""The names that the suite's conftest takes from pytest-docker, over the server of the run."""

from __future__ import annotations

import atexit
import os
import shlex
import subprocess
from collections.abc import Callable
from threading import Event
from time import monotonic

containers_scope = "session"


class DockerComposeExecutor:
    """`execute("up ...")` starts the server anew, on the port it had."""

    def __init__(self, command: str, files: str, project: str) -> None:
        pass

    def execute(self, subcommand: str) -> None:
        if subcommand.startswith(("up", "start")):
            command = shlex.split(os.environ["SUITE_SERVER_COMMAND"])
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            os.environ["SUITE_SERVER_PID"] = str(process.pid)
            # The run ends the server that it has started, and knows nothing of this one.
            atexit.register(process.terminate)


class Services:
    def __init__(self, compose: DockerComposeExecutor) -> None:
        self._docker_compose = compose

    def wait_until_responsive(self, check: Callable[[], bool], timeout: float, pause: float) -> None:
        """Raises when `check` has not come true after `timeout` seconds."""
        end = monotonic() + timeout
        while not check():
            if monotonic() > end:
                raise TimeoutError("the server does not answer")
            Event().wait(min(pause, 0.1))
