"""Measure, print tables, and write them to the pages of docs and bench/latest.json. Started by tools/bench.sh.

    python bench/run.py [WORD...]      only the parts with these names; `lifecycle` is a group of them

BENCH_RIVAL: the command of the other server; BENCH_NOT_RUN: why there is none. BENCH_FERRETDB: the program of FerretDB 1.
BENCH_REDIS: a directory with the programs of Redis, if they are not on PATH. BENCH_BASE: a commit to compare the part
`unused` with; BENCH_RECORDS: the records of the part `undelete`. BENCH_SMALL=1: fewer items, and no page is written.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import SubprocessError
from time import perf_counter

import page
from direct import direct
from driven import over_many, pipelined, through_driver
from figures import Figure, Table, document, not_run, table
from growth import growth
from hostile import hostile
from layers import layers
from lifecycle import LIFECYCLE
from machine import busy, machine
from mongo_peers import against_ferretdb, against_peers
from mongo_purging import beside_readers
from pages import pages
from policy import change_of_default
from postgres import on_postgres
from protocol import against_rival, on_slow_disks
from purging import under_readers, unloaded
from pythons import pythons
from querying import queries
from redis_peer import against_redis
from scanning import scan
from sqlite_peer import against_sqlite
from starting import start
from wrk import Wrk
from ydb_driven import on_ydb

from mayflydb.model.errors import MayflyError

HERE = Path(__file__).parent
LATEST = HERE / "latest.json"
# Where Python may not keep compiled modules, each start compiles them anew; an installed Mayfly is compiled.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
SMALL = os.environ.get("BENCH_SMALL") == "1"
SIZES = (1_000, 10_000, 100_000) if SMALL else (10_000, 100_000, 1_000_000)
ONLY_BY_NAME = ("hostile", *LIFECYCLE)
"""Parts that run only when they are named: `make reliability` has the first, and another page has the others."""

GROUPS = {"lifecycle": tuple(LIFECYCLE)}
"""Names that stand for several parts."""

Part = Callable[[Path], Iterator[Figure | Table] | Iterator[Figure]]


def parts() -> dict[str, Part]:
    """What can be measured, in the order of the table."""
    rival = os.environ.get("BENCH_RIVAL", "")
    why_not = os.environ.get("BENCH_NOT_RUN") or "the other server is not installed: tools/bench.sh does that"
    many_items = 300_000 if SMALL else 1_000_000
    return {
        "protocol": lambda place: against_rival(Wrk(place), place, rival, why_not),
        "direct": direct,
        "single": against_sqlite,
        "redis": lambda place: against_redis(Wrk(place), place),
        "disks": lambda place: on_slow_disks(Wrk(place), place),
        "policy": lambda place: change_of_default(place, many_items),
        "purge": unloaded,
        "readers": under_readers,
        "pages": lambda place: pages(place, many_items),
        "growth": lambda place: growth(Wrk(place), place, SIZES),
        "layers": lambda place: layers(Wrk(place), place),
        "pythons": lambda place: pythons(Wrk(place), place),
        "start": start,
        "scan": scan,
        "queries": lambda place: queries(place, rival, why_not),
        "postgres": lambda place: on_postgres(Wrk(place)),
        "hostile": hostile,
        "mongo": on_mongo,
        "ydb": on_ydb,
        **LIFECYCLE,
    }


def on_mongo(place: Path) -> Iterator[Figure]:
    """MongoDB's protocol."""
    for part in (through_driver, pipelined, against_peers, against_ferretdb, over_many, beside_readers):
        yield from part(place)


def measure(wanted: list[str], about: dict[str, str]) -> list[Figure]:
    """Every part in a directory of its own, on the disk where the repository lies. A part that fails is a row as well."""
    figures: list[Figure] = []
    for name, part in parts().items():
        if name not in (wanted or set(parts()).difference(ONLY_BY_NAME)):
            continue
        began, measured = perf_counter(), list[Figure | Table]()
        about["busy before"] = busy()
        with tempfile.TemporaryDirectory(prefix="bench-", dir=_disk()) as place:
            try:
                measured += part(Path(place))
            except (RuntimeError, OSError, SubprocessError, MayflyError) as error:
                traceback.print_exc()
                measured.append(not_run(name, f"failed: {error}"))
        print(f"{name}: {perf_counter() - began:.0f} s", file=sys.stderr)
        if not SMALL:
            page.write(name, measured, about)
        for each in measured:
            if isinstance(each, Table):
                print("\n".join("  ".join(cell.rjust(16) for cell in row) for row in (each.heads, *each.rows)))
            else:
                figures.append(each)
    return figures


def _disk() -> Path:
    place = HERE.parent / ".bench"
    place.mkdir(exist_ok=True)
    return place


def main() -> int:
    """1 when something failed or a name is unknown; a target that was missed is no failure."""
    wanted = [name for word in sys.argv[1:] for name in GROUPS.get(word, (word,))]
    if unknown := [name for name in wanted if name not in parts()]:
        print(f"there is no part {', '.join(unknown)}; there are {', '.join(parts())}", file=sys.stderr)
        return 1
    about = machine(_disk(), os.environ.get("BENCH_RIVAL"))
    for name, value in about.items():
        print(f"{name + ':':<19} {value}")
    figures = measure(wanted, about)
    print("\n" + table(figures))
    LATEST.write_text(json.dumps(document(about, figures), indent=2) + "\n", encoding="utf-8")
    return 1 if any(figure.how.startswith("failed") for figure in figures) else 0


if __name__ == "__main__":
    sys.exit(main())
