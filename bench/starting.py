"""How long a server takes to be ready, what it needs while it is idle, and what its first clients wait for and cause."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from threading import Event
from time import perf_counter
from typing import Any

import ydb
from figures import Figure, at_most
from pymongo import MongoClient
from servers import MAYFLY, Running, asked, mayfly, processor_seconds, resident_mb, script
from watchdog import Lateness

TIMES = 5
LINES = 2.0


def start(place: Path) -> Iterator[Figure]:
    """Row 7."""
    ready, resident, used = [], [], []
    for number in range(TIMES):
        began = perf_counter()
        with mayfly(str(place / f"start{number}.db")) as server:
            ready.append(perf_counter() - began)
            used.append(processor_seconds(server.pid))
            Event().wait(LINES if number == TIMES - 1 else 0)
            resident.append(resident_mb(server.pid))
    how = f"from exec to the ready document, ports of all three protocols, a new file; best of {TIMES}, worst {max(ready):.2f} s"
    yield at_most("ready with all listeners", min(ready), "s", 0.4, how, f"{min(used):.2f} s")
    yield at_most("resident memory, idle", resident[-1], "MB", 45, f"{LINES:g} s after the start, a new file")
    yield from _first_clients(place)
    version = []
    for _ in range(TIMES):
        began = perf_counter()
        subprocess.run([*MAYFLY, "--version"], check=True, capture_output=True)
        version.append(perf_counter() - began)
    yield at_most("mayfly --version", min(version), "s", 0.2, f"best of {TIMES}, worst {max(version):.2f} s")


def _first_clients(place: Path) -> Iterator[Figure]:
    """The first client of MongoDB, and that of YDB, load what serves them."""
    waits: dict[str, list[float]] = {"MongoDB": [], "YDB": []}
    late: dict[str, list[Lateness]] = {name: [] for name in waits}
    resident = 0.0
    watched = Path(__file__).with_name("watched.py")
    for number in range(TIMES):
        with script(watched, str(place / f"first{number}.db")) as server:
            clients: dict[str, Callable[[], None]] = {"MongoDB": partial(_mongo, server), "YDB": partial(_ydb, server)}
            for name, ask in clients.items():
                asked(server, "")
                began = perf_counter()
                ask()
                waits[name].append(perf_counter() - began)
                late[name].append(Lateness(**asked(server, "")["late"]))
            resident = resident_mb(server.pid)
    for name, each in waits.items():
        value, worst = median(each), median(one.wall for one in late[name])
        own = median(one.own for one in late[name])
        how = f"median of {TIMES}; others wait {worst:.1f} ms longer at worst meanwhile, {own:.1f} ms of it for the server's work"
        yield Figure(f"the first client of {name} is served", f"{value:.2f} s", "", None, how, value)
    how = "after both have been served"
    yield Figure("resident memory with all front ends", f"{resident:.1f} MB", "", None, how, resident)


def _mongo(server: Running) -> None:
    with MongoClient[dict[str, Any]](server.mongo) as client:
        client.admin.command("ping")


def _ydb(server: Running) -> None:
    with ydb.Driver(endpoint=server.ydb, database="/local") as driver:
        driver.wait(timeout=30, fail_fast=True)
