"""How long a server takes to be ready, and what it needs when nobody asks for anything."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from time import perf_counter

from figures import Figure, at_most
from servers import MAYFLY, mayfly, resident_mb

TIMES = 5
LINES = 2.0


def start(place: Path) -> Iterator[Figure]:
    """Row 7."""
    ready, resident = [], []
    for number in range(TIMES):
        began = perf_counter()
        with mayfly(str(place / f"start{number}.db")) as server:
            ready.append(perf_counter() - began)
            Event().wait(LINES if number == TIMES - 1 else 0)
            resident.append(resident_mb(server.pid))
    how = f"from exec to the ready document, a new file; best of {TIMES}, worst {max(ready):.2f} s"
    yield at_most("ready with all listeners", min(ready), "s", 1, how)
    yield at_most("resident memory, idle", resident[-1], "MB", 80, f"{LINES:g} s after the start, a new file")
    version = []
    for _ in range(TIMES):
        began = perf_counter()
        subprocess.run([*MAYFLY, "--version"], check=True, capture_output=True)
        version.append(perf_counter() - began)
    yield at_most("mayfly --version", min(version), "s", 0.2, f"best of {TIMES}, worst {max(version):.2f} s")
