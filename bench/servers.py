"""The servers that are measured, each in a process of its own on a free loopback port."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

PATIENCE = 20.0
MAYFLY = (sys.executable, "-c", "from mayflydb.cli.main import main; main()")


class Running(msgspec.Struct, frozen=True):
    """A server that answers on 127.0.0.1. `pid` is its own, whatever it was started through; `mongo`, `ydb`: where MongoDB's
    clients and YDB's find it, if they do."""

    pid: int
    port: int
    process: Any
    mongo: str = ""
    ydb: str = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def mayfly(*arguments: str, through: Sequence[str] = ()) -> Iterator[Running]:
    """`mayfly serve` with these arguments, started `through` another program (strace), until the block ends."""
    command = [*through, *MAYFLY, "serve", "-p", "0", "--host", "127.0.0.1", "--log-level", "error", *arguments]
    with _started(command) as process:
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
def script(path: Path, *arguments: str) -> Iterator[Running]:
    """A script that prints a ready document, answers lines with lines, and ends at the end of its input."""
    with _started([sys.executable, str(path), *arguments]) as process:
        ready = json.loads(_line(process))
        try:
            yield Running(ready["pid"], ready["port"], process, ready.get("mongo", ""))
        finally:
            process.stdin.close()
            process.wait(PATIENCE)


def asked(running: Running, question: str) -> Any:
    """What such a script answers."""
    running.process.stdin.write(question + "\n")
    running.process.stdin.flush()
    return json.loads(_line(running.process))


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
def _started(command: Sequence[str]) -> Iterator[Any]:
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
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


def processor_seconds(pid: int) -> float:
    """Processor time a process has used, all its threads and the kernel's work for it included."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
