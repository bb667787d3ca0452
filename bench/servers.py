"""The servers that are measured, each in a process of its own on a free loopback port."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from threading import Event
from typing import Any

import msgspec

PATIENCE = 20.0
MAYFLY = (sys.executable, "-c", "from mayflydb.cli.main import main; main()")


class Running(msgspec.Struct, frozen=True):
    """A server that answers on 127.0.0.1. `pid` is its own, whatever it was started through; `mongo`, `ydb`: where MongoDB's
    clients and YDB's find it, if they do; `plain`: the port of Cosmos DB's direct mode without TLS, if there is one."""

    pid: int
    port: int
    process: Any
    mongo: str = ""
    ydb: str = ""
    plain: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def mayfly(
    *arguments: str, through: Sequence[str] = (), python: str = sys.executable, source: Path | None = None
) -> Iterator[Running]:
    """`mayfly serve` with these arguments, started `through` another program (strace), until the block ends. `source`: the
    directory of another version's packages."""
    command = [
        *through,
        python,
        *MAYFLY[1:],
        "serve",
        "-p",
        "0",
        "--host",
        "127.0.0.1",
        "--log-level",
        "error",
        *arguments,
    ]
    with _started(command, source) as process:
        ready = json.loads(_line(process))
        try:
            port = int(ready["admin"].split(":")[2].partition("/")[0])
            mongo, ydb = ready.get("mongo") or {}, ready.get("ydb") or {}
            yield Running(ready["pid"], port, process, mongo.get("uri", ""), ydb.get("endpoint", ""))
        finally:
            # The server itself: what it was started through ends with it, and ended first would leave it alone.
            with suppress(ProcessLookupError):  # It may have been stopped already: that is measured, too.
                os.kill(ready["pid"], signal.SIGTERM)
            process.wait(PATIENCE)


@contextmanager
def script(path: Path, *arguments: str, source: Path | None = None) -> Iterator[Running]:
    """A script that prints a ready document, answers lines with lines, and ends at the end of its input. `source`: as above."""
    with _started([sys.executable, str(path), *arguments], source) as process:
        ready = json.loads(_line(process))
        try:
            mongo, ydb, plain = ready.get("mongo", ""), ready.get("ydb", ""), ready.get("plain", 0)
            yield Running(ready["pid"], ready["port"], process, mongo, ydb, plain)
        finally:
            process.stdin.close()
            process.wait(PATIENCE)


def asked(running: Running, question: str) -> Any:
    """What such a script answers."""
    running.process.stdin.write(question + "\n")
    running.process.stdin.flush()
    return json.loads(_line(running.process))


@contextmanager
def program(command: Sequence[str], port: int, log: Path) -> Iterator[Running]:
    """A server of others that answers on this port once it is ready; its words go to a file."""
    with log.open("wb") as said, subprocess.Popen(command, stdout=said, stderr=said) as process:
        try:
            _await_port(process, port, log)
            yield Running(process.pid, port, process)
        finally:
            process.terminate()
            process.wait(PATIENCE)


def _await_port(process: Any, port: int, log: Path) -> None:
    ends = time.monotonic() + PATIENCE
    while True:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        if process.poll() is not None or time.monotonic() > ends:
            words = log.read_text(encoding="utf-8", errors="replace")[-300:]
            raise RuntimeError(f"{process.args[0]} does not answer on port {port}: {words}")
        Event().wait(0.05)


def free_port() -> int:
    """A port that was free a moment ago, for servers that cannot choose one."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
    return port


@contextmanager
def rival(command: str) -> Iterator[Running]:
    """The other server, which keeps everything in memory and checks no signature."""
    with _started([command, "--no-ssl", "--host", "127.0.0.1", "-p", "0"]) as process:
        said = _line(process)
        port = re.search(r":(\d+)\s*$", said)
        if port is None:
            raise RuntimeError(f"{command} says {said!r} instead of its port")
        yield Running(process.pid, int(port[1]), process)


@contextmanager
def _started(command: Sequence[str], source: Path | None = None) -> Iterator[Any]:
    places = dict(os.environ) if source is None else os.environ | {"PYTHONPATH": str(source)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=places) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()


def _line(process: Any) -> str:
    line: str = process.stdout.readline()
    if not line:
        raise RuntimeError(f"{process.args[0]} ended with {process.wait(PATIENCE)} before it was ready")
    return line


def resident_mb(pid: int, field: str = "VmRSS") -> float:
    """Memory of a process that is in RAM, in MB; VmHWM: the most that it has been."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(re.search(rf"{field}:\s+(\d+) kB", status)[1]) / 1000  # type: ignore[index]


def processor_seconds(*pids: int) -> float:
    """Processor time that processes have used, in nanoseconds' steps: threads that have ended and the kernel's work included."""
    # The clock of a process: its inverted number, and 2 for the scheduler's count (clock_getcpuclockid(3)).
    return sum(time.clock_gettime((~pid << 3) | 2) for pid in pids)


class Meter:
    """Adds up what a server's requests cost: the processor time of its processes, by kind of request."""

    def __init__(self, *pids: int) -> None:
        self._pids = pids
        self._each: dict[str, list[float]] = {}
        self._began = 0.0

    def start(self) -> None:
        """Begin with requests of one kind."""
        self._began = processor_seconds(*self._pids)

    def take(self, count: float) -> float:
        """Microseconds of each of the so many that have been answered since."""
        return (processor_seconds(*self._pids) - self._began) / count * 1e6

    def stop(self, kind: str, count: float) -> None:
        """So many of that kind have been answered since."""
        self._each.setdefault(kind, []).append(self.take(count))

    def cost(self, kind: str) -> float:
        """Microseconds of one request, by the median of the rounds."""
        return median(self._each[kind])
