"""What the figures were measured on."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import tempfile
from email.utils import formatdate
from pathlib import Path
from statistics import median
from threading import Event
from time import perf_counter

import apsw

from mayflydb.clock import wall_us
from mayflydb.version import __version__

SYNCS = 30


def machine(place: Path, rival: str | None) -> dict[str, str]:
    """Names and versions, how busy the machine was when this was asked, and how long its disk takes."""
    return {
        "date": formatdate(wall_us() / 1e6, usegmt=True),
        "mayfly": f"{__version__} ({_said('git', '-C', str(place), 'rev-parse', '--short', 'HEAD')})",
        "python": f"{platform.python_version()}, SQLite {apsw.sqlite_lib_version()}",
        "rival": _rival(Path(rival)) if rival else "none",
        "load generator": _said("wrk", "--version").partition(" Copyright")[0] or "none",
        "processor": f"{os.cpu_count()} x {_processor()}",
        "system": f"{platform.system()} {platform.release()}",
        "busy before": busy(),
        "fdatasync of 4 KB": f"{sync_seconds(place) * 1e3:.2f} ms at the median of {SYNCS}",
    }


def sync_seconds(place: Path) -> float:
    """How long a small write over what is there takes to reach the disk below this directory."""
    with tempfile.TemporaryFile(dir=place, buffering=0) as file:
        taken = []
        for _ in range(SYNCS):
            began = perf_counter()
            os.pwrite(file.fileno(), os.urandom(4096), 0)
            os.fdatasync(file.fileno())
            taken.append(perf_counter() - began)
    return median(taken)


def busy() -> str:
    """How busy others keep the machine while this process waits."""
    return f"{busy_share():.0%} of the processors, by others"


def busy_share(seconds: float = 1.0) -> float:
    """How much of the processors' time is in use while this process waits."""
    idle, total = _ticks()
    Event().wait(seconds)
    idle_after, total_after = _ticks()
    return 1 - (idle_after - idle) / max(1, total_after - total)


def _ticks() -> tuple[int, int]:
    # proc_stat(5): user nice system idle iowait ...
    ticks = [int(field) for field in Path("/proc/stat").read_text(encoding="ascii").partition("\n")[0].split()[1:9]]
    return ticks[3] + ticks[4], sum(ticks)


def _rival(command: Path) -> str:
    package = json.loads((command.resolve().parents[1] / "package.json").read_text(encoding="utf-8"))
    return f"{package['name']} {package['version']} on Node {_said('node', '--version')}"


def _said(*command: str) -> str:
    """The first line a program prints; nothing if there is no such program."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except OSError:
        return ""
    return (done.stdout or done.stderr).partition("\n")[0].strip()


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
