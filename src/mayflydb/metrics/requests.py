"""Samples of the requests that were served, and of the process that serves them."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

from mayflydb.engine.request_counts import BOUNDS, RequestCounts
from mayflydb.model.instant import SECOND

Sample = tuple[str, dict[str, str], float]
"""Name, labels and value."""

DURATION = "mayfly_request_duration_seconds"


def count_requests(requests: RequestCounts) -> Iterator[Sample]:
    """Yield requests by protocol, operation and status, and a histogram of their times by protocol and operation."""
    buckets: dict[tuple[str, str], list[int]] = {}
    micros: dict[tuple[str, str], int] = {}
    for (protocol, named, status), series in list(requests.series.items()):
        operation = named if isinstance(named, str) else "/".join(named)
        kind = {"protocol": protocol, "operation": operation, "status": str(status)}
        yield "mayfly_requests_total", kind, sum(series.buckets)
        key = protocol, operation
        before = buckets.get(key)
        buckets[key] = (
            list(series.buckets) if before is None else [a + b for a, b in zip(before, series.buckets, strict=True)]
        )
        micros[key] = micros.get(key, 0) + series.micros
    bounds = [*(f"{bound / SECOND:g}" for bound in BOUNDS), "+Inf"]
    for (protocol, operation), counts in buckets.items():
        labels = {"protocol": protocol, "operation": operation}
        for bound, count in zip(bounds, accumulate(counts), strict=True):
            yield f"{DURATION}_bucket", labels | {"le": bound}, count
        yield f"{DURATION}_sum", labels, micros[protocol, operation] / SECOND
        yield f"{DURATION}_count", labels, sum(counts)


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
