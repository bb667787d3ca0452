"""Run the official Python SDK's own test suite against Mayfly, and write docs/compatibility.md.

    python compatibility/run.py [WORD...]      only the files whose names hold one of these words; writes no document

Started by tools/compatibility.sh, which fetches the suite: COMPATIBILITY_PLACE is where it lies.
"""

from __future__ import annotations

import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from time import monotonic

import files
import outcomes
import report
from reasons import sifted
from suite.applicability import NOT_APPLICABLE

from mayflydb.frontends.cosmos.auth import WELL_KNOWN_KEY
from server import mayfly

ROOT = Path(__file__).parent.parent
DOCUMENT = ROOT / "docs" / "compatibility.md"


def measure(place: Path, wanted: list[str]) -> list[outcomes.File]:
    """The outcomes of the wanted files, each with a server of its own, as many at a time as there are processors."""
    tests = place / f"azure_cosmos-{metadata.version('azure-cosmos')}" / "tests"
    reports = place / "reports"
    reports.mkdir(exist_ok=True)
    chosen = [name for name in files.names(tests) if not wanted or any(word in name for word in wanted)]

    def one(name: str) -> outcomes.File:
        began = monotonic()
        log = reports / f"{name.removesuffix('.py').replace('/', '.')}.server.log"
        try:
            with mayfly(log) as endpoint:
                bench = files.Bench(tests, place / "plugins", reports, endpoint, WELL_KNOWN_KEY)
                ran = files.run(bench, name)
            file = sifted(outcomes.read(name, ran.report, ran.whole, NOT_APPLICABLE))
        except RuntimeError as error:
            print(f"{name}: {error}; see {log}", file=sys.stderr)
            file = outcomes.File(name, [], whole=False)
        print(f"{report.line(file)} ({monotonic() - began:.0f} s)", flush=True)
        return file

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(one, chosen))


def main() -> int:
    """1 when there was nothing to run, or a file had no whole report; tests that fail are what the document is for."""
    # A shell ignores it for what it runs in the background, and so would the pytests that are interrupted with it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    place = Path(os.environ.get("COMPATIBILITY_PLACE", ROOT / ".compatibility"))
    wanted = sys.argv[1:]
    measured = measure(place, wanted)
    if not measured:
        print("no such file in the suite", file=sys.stderr)
        return 1
    print("\n" + report.summary(measured))
    if wanted:
        print(report.failures(measured))
    else:
        DOCUMENT.parent.mkdir(exist_ok=True)
        DOCUMENT.write_text(report.document(metadata.version("azure-cosmos"), measured), encoding="utf-8")
    return 0 if all(file.whole for file in measured) else 1


if __name__ == "__main__":
    sys.exit(main())
