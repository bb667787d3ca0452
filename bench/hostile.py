"""Hostile requests, each beside clients of all three wires that read one record every 5 ms; and what a stop takes meanwhile."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Event
from time import perf_counter
from typing import Any

from figures import Figure
from hostile_requests import REQUESTS
from servers import Running, mayfly, resident_mb

HERE = Path(__file__).parent
LIMIT = 10
"""Seconds that a query may take here (`--query-time-limit`)."""

P99_MS, MAX_MS = 10.0, 100.0
STOP_SECONDS = 2.0
PATIENCE = 60
"""Seconds after which a request counts as one without end."""


def hostile(place: Path) -> Iterator[Figure]:
    """One row for each request, on a server with a file."""
    with _server(place) as server, _probe(server) as probe:
        yield _row("nothing hostile", _watched(probe, _wait), server, is_reference=True)
        for name in REQUESTS:
            yield _row(name, _watched(probe, partial(_ask, name, server)), server)
            # What the last request has left behind is no part of the next row.
            _wait(0.5)
    with _server(place) as server:
        yield _stop(server)


@contextmanager
def _server(place: Path) -> Iterator[Running]:
    with mayfly(str(place / "hostile.db"), "--ydb-port", "0", "--query-time-limit", f"{LIMIT}s") as server:
        yield server


@contextmanager
def _probe(server: Running) -> Iterator[Any]:
    _ask("fill", server)
    command = [sys.executable, str(HERE / "probing.py"), server.url, server.mongo, server.ydb]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    if process.stdout.readline() != "ready\n":
        raise RuntimeError("the probe did not start")
    try:
        yield process
    finally:
        process.stdin.close()
        process.wait(60)


def _wait(seconds: float = 5) -> str:
    Event().wait(seconds)
    return "-"


def _ask(name: str, server: Running) -> str:
    command = [sys.executable, str(HERE / "hostile_requests.py"), name, server.url, server.mongo, server.ydb]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        return f"failed: no end after {PATIENCE} s"
    return str(json.loads(done.stdout)) if done.stdout else f"failed: {done.stderr.strip().splitlines()[-1][:80]}"


def _watched(probe: Any, work: Any) -> tuple[dict[str, dict[str, float]], str, float]:
    """What each wire waited while `work` was under way, how it ended, and its seconds."""
    _take(probe)
    began = perf_counter()
    end = work()
    return _take(probe), end, perf_counter() - began


def _take(probe: Any) -> dict[str, dict[str, float]]:
    probe.stdin.write("\n")
    probe.stdin.flush()
    taken: dict[str, dict[str, float]] = json.loads(probe.stdout.readline())
    return taken


def _row(
    name: str, watched: tuple[dict[str, dict[str, float]], str, float], server: Running, is_reference: bool = False
) -> Figure:
    waits, end, seconds = watched
    p99, longest = (max(each[what] for each in waits.values()) for what in ("p99", "max"))
    by_wire = "; ".join(f"{wire} {each['p50']:.1f}/{each['p99']:.1f}/{each['max']:.0f}" for wire, each in waits.items())
    how = f"ended: {end}, after {seconds:.1f} s; p50/p99/max {by_wire} ms; {resident_mb(server.pid):.0f} MB resident"
    met = None if is_reference else p99 <= P99_MS and longest <= MAX_MS and not end.startswith("failed")
    target = "" if is_reference else f"<= {P99_MS:g} / {MAX_MS:g} ms"
    return Figure(name, f"{p99:.1f} / {longest:.0f} ms", target, met, how, p99)


def _stop(server: Running) -> Figure:
    """SIGTERM while joins compute on three connections."""
    name = "Cosmos DB: the same on six connections"
    command = [sys.executable, str(HERE / "hostile_requests.py"), name, server.url, server.mongo, server.ydb]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as client:
        _wait(1.5)
        began = perf_counter()
        os.kill(server.pid, signal.SIGTERM)
        server.process.wait(30)
        seconds = perf_counter() - began
        client.kill()
    how = "from SIGTERM to the end of the process, six queries computing"
    return Figure("SIGTERM", f"{seconds:.2f} s", f"<= {STOP_SECONDS:g} s", seconds <= STOP_SECONDS, how, seconds)
