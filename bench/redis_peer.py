"""Point reads and durable writes beside Redis, where it is installed: a cache is what records with a life are often kept in."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from figures import Figure, microseconds, not_run, ratio
from protocol import CONNECTIONS, Target, rounds
from servers import Meter, free_port, mayfly, program
from signed import IDS, ITEM_BYTES
from wrk import Wrk

REQUESTS = {"get": 100_000, "set": 20_000}
NAMES = {
    "get": f"point read of 1 KB, {CONNECTIONS} connections, against Redis GET",
    "set": f"durable upsert of 1 KB, {CONNECTIONS} connections, against Redis SET",
}


def against_redis(wrk: Wrk, place: Path) -> Iterator[Figure]:
    """`redis-server` and `redis-benchmark` are looked for in BENCH_REDIS (a directory) and on PATH."""
    where = os.pathsep.join((os.environ.get("BENCH_REDIS", ""), os.environ.get("PATH", "")))
    server, load = (shutil.which(each, path=where) for each in ("redis-server", "redis-benchmark"))
    if server is None or load is None or wrk.program is None:
        why = "wrk is missing" if server and load else "Redis is not installed, nor named by BENCH_REDIS"
        yield from (not_run(name, why) for name in NAMES.values())
        return
    port, data = free_port(), place / "redis"
    data.mkdir()
    command = [server, "--bind", "127.0.0.1", "--port", str(port), "--dir", str(data), "--save", ""]
    durable = ["--appendonly", "yes", "--appendfsync", "always"]
    with program([*command, *durable], port, place / "redis.log") as redis, mayfly(str(place / "redis.db")) as server_:
        ours, meter = Target(wrk, "redis", server_), Meter(redis.pid)
        _load(load, port, "set", meter)
        for kind, name, own in (("get", NAMES["get"], "read"), ("set", NAMES["set"], "upsert")):
            theirs: Callable[[], float] = partial(_load, load, port, kind, meter)
            measured = rounds([partial(ours.rate, own), theirs])
            used = microseconds(ours.cost(own), meter.cost(kind))
            what = (
                "theirs by redis-benchmark; both synced to disk before the answer"
                if kind == "set"
                else "theirs by redis-benchmark"
            )
            yield ratio(name, measured[0], measured[1], None, what, used)


def _load(load: str, port: int, kind: str, meter: Meter) -> float:
    """Requests per second."""
    count = REQUESTS[kind]
    asked = [
        "-p",
        str(port),
        "-c",
        str(CONNECTIONS),
        "-d",
        str(ITEM_BYTES),
        "-n",
        str(count),
        "-r",
        str(IDS),
        "-t",
        kind,
    ]
    meter.start()
    done = subprocess.run([load, *asked, "--csv"], capture_output=True, text=True, timeout=120, check=True)
    meter.stop(kind, count)
    # "GET","88731.00", and latencies from version 7 on, below a line of heads.
    return float(done.stdout.strip().splitlines()[-1].split(",")[1].strip('"'))
