"""Samples of the requests that were served, and of the process that serves them."""

from __future__ import annotations

import contextlib
import os
import re
import resource
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

from mayflydb.engine.request_counts import BOUNDS, RequestCounts
from mayflydb.model.histogram import Histogram
from mayflydb.model.instant import SECOND

Sample = tuple[str, dict[str, str], float]
"""Name, labels and value."""

DURATION = "mayfly_request_duration_seconds"


def count_requests(requests: RequestCounts) -> Iterator[Sample]:
    """Yield requests by protocol, operation and status, and a histogram of their times by protocol and operation."""
    times: dict[tuple[str, str], Histogram] = {}
    for (protocol, named, status), series in list(requests.series.items()):
        operation = named if isinstance(named, str) else "/".join(named)
        kind = {"protocol": protocol, "operation": operation, "status": str(status)}
        yield "mayfly_requests_total", kind, series.count
        times.setdefault((protocol, operation), Histogram(BOUNDS)).merge(series)
    for (protocol, operation), histogram in times.items():
        yield from show_histogram(DURATION, {"protocol": protocol, "operation": operation}, histogram)


def show_histogram(name: str, labels: dict[str, str], histogram: Histogram) -> Iterator[Sample]:
    """Yield the samples of a histogram of microseconds, in seconds."""
    bounds = [*(f"{bound / SECOND:g}" for bound in histogram.bounds), "+Inf"]
    for bound, number in zip(bounds, accumulate(histogram.buckets), strict=True):
        yield f"{name}_bucket", labels | {"le": bound}, number
    yield f"{name}_sum", labels, histogram.total / SECOND
    yield f"{name}_count", labels, histogram.count


def measure_process() -> Iterator[Sample]:
    """Yield figures of the process under the names that Prometheus' clients use."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    yield "process_cpu_seconds_total", {}, round(used.ru_utime + used.ru_stime, 3)
    yield "process_max_fds", {}, resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    # Linux alone has these files.
    with contextlib.suppress(OSError, ValueError, IndexError):
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        yield "process_resident_memory_bytes", {}, pages * resource.getpagesize()
        yield "process_open_fds", {}, len(os.listdir("/proc/self/fd"))  # noqa: PTH208
        yield "process_start_time_seconds", {}, _process_start()


def _process_start() -> float:
    """Return the time at which the process was started, in seconds since 1970. Errors: OSError, ValueError, IndexError."""
    # The name of the process is in brackets, and may have brackets and spaces itself. The field is proc(5)'s starttime.
    ticks = int(Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[19])
    booted = re.search(r"^btime (\d+)$", Path("/proc/stat").read_text(encoding="ascii"), re.MULTILINE)
    if booted is None:
        raise ValueError("/proc/stat has no time of the boot")
    return int(booted[1]) + ticks / os.sysconf("SC_CLK_TCK")
