"""What people look at over a million records: the portal's overview, and the preview of a shorter default."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from figures import Figure, at_most
from filling import fill, many
from servers import mayfly
from signed import DATABASE, Caller, item

from mayflydb.clock import wall_us
from mayflydb.model.instant import DAY, HOUR, SECOND, floor_to_second

CONTAINERS = 200
LARGE = "large"
LOOKS = 40
VALUE = b'{"id":"n","pk":"p1","pad":"' + b"x" * 170 + b'"}'


def pages(place: Path, many_items: int) -> Iterator[Figure]:
    """`many_items` in 200 containers, and as many in one; written during the last 20 days, by the host's clock."""
    path, each = place / "pages.db", many_items // CONTAINERS
    names = [f"c{number:03d}" for number in range(CONTAINERS)]
    with mayfly(str(path)) as server:
        caller = Caller(server.port)
        for name in (*names, LARGE):
            caller.make(name, defaultTtl=30 * DAY // SECOND)
        caller.close()
    begin = floor_to_second(wall_us()) - 20 * DAY
    for name in names:
        fill(path, name, many(each, VALUE, begin, 20 * DAY // each))
    with mayfly(str(path)) as server:
        # The first look loads the portal.
        first, *later = _time(LOOKS, lambda turn: _get(server.port, "/"))
        changing = _time(LOOKS, lambda turn: _get(server.port, "/"), lambda turn: _write(server.port, names[turn % 5]))
    how = f"{many_items:,} items in {CONTAINERS} containers in a file; p95 of {LOOKS} looks over HTTP; the first {first:.0f} ms"
    yield at_most("overview of the portal", _p95(later), "ms", 100, how)
    how = f"one item is written before each look; p95 of {LOOKS}, median {median(changing):.0f} ms"
    yield at_most("overview, one container changes", _p95(changing), "ms", 100, how)
    fill(path, LARGE, many(many_items, VALUE, begin, 20 * DAY // many_items))
    with mayfly(str(path)) as server:
        taken = _time(LOOKS, lambda turn: _preview(server.port, turn), lambda turn: _write(server.port, LARGE))
    how = f"{many_items:,} items in one container of a file; p95 of {LOOKS} over HTTP, median {median(taken):.0f} ms"
    yield at_most("preview of a shorter default", _p95(taken), "ms", 200, f"{how}; one item is written before each")


def _time(times: int, act: Callable[[int], Any], before: Callable[[int], Any] = lambda turn: None) -> list[float]:
    """Return the milliseconds of each act."""
    taken = []
    for turn in range(times):
        before(turn)
        began = perf_counter()
        act(turn)
        taken.append((perf_counter() - began) * 1e3)
    return taken


def _p95(taken: list[float]) -> float:
    return sorted(taken)[int(len(taken) * 0.95)]


def _get(port: int, path: str) -> bytes:
    return _ask(port, "GET", path, None)


def _write(port: int, name: str) -> None:
    link = f"dbs/{DATABASE}/colls/{name}"
    caller = Caller(port)
    upsert = {"x_ms_documentdb_is_upsert": "True"}
    status, _, text = caller.send("POST", f"/{link}/docs", "docs", link, item("written"), **upsert)
    caller.close()
    if status not in (200, 201):
        raise RuntimeError(f"the write answered {status}: {text[:300]!r}")


def _preview(port: int, turn: int) -> None:
    # Another number each time, so that no answer of before serves.
    seconds = (10 * DAY + turn * HOUR) // SECOND
    body = {"target": f"cosmos:{DATABASE}/{LARGE}", "default_ttl": seconds}
    found = json.loads(_ask(port, "POST", "/_mayfly/ttl/preview", json.dumps(body).encode()))
    if not 0 < found["expire_now"] < found["records"]:
        raise RuntimeError(f"{found['expire_now']} of {found['records']} items would expire")


def _ask(port: int, method: str, path: str, body: bytes | None) -> bytes:
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path, body, {"Accept": "text/html", "Content-Type": "application/json"})
        answer = connection.getresponse()
        found = answer.read()
    finally:
        connection.close()
    if answer.status != 200:
        raise RuntimeError(f"{path} answered {answer.status}")
    return found
