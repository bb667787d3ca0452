"""Requests of HTTP over one connection, several sent at once, and two servers that answer them in turn."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle, islice
from statistics import median, quantiles
from time import perf_counter

from figures import Figure, at_most, microseconds
from servers import Meter

IN_FLIGHT = 16
"""A connection has so many requests waiting at most."""


class Pipeline:
    """One connection that sends prepared requests in turn. A context manager."""

    def __init__(self, port: int, requests: Sequence[str]) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._stream = self._socket.makefile("rb", 1 << 16)
        self._requests: Iterator[bytes] = cycle(request.encode() for request in requests)

    def send(self, count: int, in_flight: int = IN_FLIGHT) -> float:
        """Return the seconds until so many are answered. RuntimeError for an answer that is no success."""
        began = perf_counter()
        for _ in range(0, count, in_flight):
            self._socket.sendall(b"".join(islice(self._requests, in_flight)))
            for _ in range(in_flight):
                self._take()
        return perf_counter() - began

    def _take(self) -> None:
        status, size = self._stream.readline(), 0
        while (line := self._stream.readline()) != b"\r\n":
            if line.lower().startswith(b"content-length:"):
                size = int(line.partition(b":")[2])
        body = self._stream.read(size)
        if b" 20" not in status:
            raise RuntimeError(f"answered {status!r}: {body[:300]!r}")

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()
        self._socket.close()


def take_turns(rounds: int, ours: Callable[[], float], theirs: Callable[[], float]) -> tuple[list[float], list[float]]:
    """Return the measurements of two sides that were taken in turn, the first of each left out. Who begins alternates."""
    found: tuple[list[float], list[float]] = ([], [])
    for turn in range(rounds + 1):
        for number in (0, 1) if turn % 2 else (1, 0):
            value = (ours, theirs)[number]()
            if turn:
                found[number].append(value)
    return found


def measure_cost(meter: Meter, pipeline: Pipeline, count: int) -> float:
    """Return the server's processor time of one request, in microseconds."""
    meter.start()
    pipeline.send(count)
    return meter.take(count)


def share_of(rounds: tuple[list[float], list[float]]) -> list[float]:
    """Return the ratio of each round."""
    return [each / other for each, other in zip(*rounds, strict=True)]


def overhead(name: str, rounds: tuple[list[float], list[float]], most: float, what: str) -> Figure:
    """Percents that one side costs more than the other, by the median of the rounds' ratios. `most`: the target."""
    ratios = share_of(rounds)
    low, _, high = quantiles(ratios, n=4)
    value = (median(ratios) - 1) * 100
    spread = f"the middle half of {len(ratios)} rounds {(low - 1) * 100:+.1f} to {(high - 1) * 100:+.1f} %"
    used = microseconds(*(median(each) for each in rounds))
    found = at_most(name, value, "%", most, f"{what}; {spread}", used)
    return Figure(name, f"{value:+.1f} %", found.target, found.met, found.how, value, used)


def multiple(name: str, rounds: tuple[list[float], list[float]], what: str) -> Figure:
    """How many times as much one side costs as the other, in microseconds, by the median of the rounds' ratios."""
    ratios = share_of(rounds)
    value = median(ratios)
    how = f"{what}; {len(ratios)} rounds {min(ratios):.2f}-{max(ratios):.2f}"
    return Figure(name, f"{value:.2f} x", "", None, how, value, microseconds(*(median(each) for each in rounds)))
