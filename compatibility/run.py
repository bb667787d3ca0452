"""Run clients' own test suites against Mayfly, and write docs/compatibility.md.

    python compatibility/run.py [cosmos|mongo|unified|ydb|sqlalchemy|ydb-go] [WORD...]
    python compatibility/run.py functional [WORD...]
    python compatibility/run.py clients

Of all suites or of one, or the checks of clients in other languages; with words only the files whose names hold one of them,
and then no document is written. The functional tests run when they are named.
Started by tools/compatibility.sh, which fetches the suites: COMPATIBILITY_PLACE is where they lie.
"""

from __future__ import annotations

import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic

import files
import functional
import languages
import outcomes
import report
from reasons import sifted
from suites import ALL, Suite

ROOT = Path(__file__).parent.parent
DOCUMENT = ROOT / "docs" / "compatibility.md"


def measure(suite: Suite, place: Path, wanted: list[str]) -> list[outcomes.File]:
    """The outcomes of the wanted files, each with a server of its own, as many at a time as there are processors."""
    tests = suite.tests(place)
    bench = files.Bench(suite, tests, place / "plugins", place / "reports")
    bench.reports.mkdir(exist_ok=True)
    chosen = [name for name in suite.names(tests) if not wanted or any(word in name for word in wanted)]

    def one(name: str) -> outcomes.File:
        began = monotonic()
        log = bench.reports / f"{files.stem(name)}.server.log"
        try:
            with suite.serving(log) as server:
                ran = files.run(bench, name, server)
            file = sifted(suite.runner.read(name, ran.report, ran.whole, suite.needs))
        except RuntimeError as error:
            print(f"{name}: {error}; see {log}", file=sys.stderr)
            file = outcomes.File(name, [], whole=False)
        print(f"{report.line(file)} ({monotonic() - began:.0f} s)", flush=True)
        return file

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(one, chosen))


def publish(section: str) -> None:
    """Write one section of the document anew."""
    DOCUMENT.parent.mkdir(exist_ok=True)
    before = DOCUMENT.read_text(encoding="utf-8") if DOCUMENT.exists() else ""
    DOCUMENT.write_text(report.document(before, section), encoding="utf-8")


def measure_languages(place: Path) -> int:
    """The checks of clients in other languages, and their sections."""
    code = languages.run(ROOT)
    for section in languages.sections(place / "clients"):
        publish(section)
    return code


def measure_functional(place: Path, words: list[str]) -> int:
    """The functional tests, and their section unless words choose some of them."""
    section, code = functional.run(place, words)
    if section is not None:
        publish(section)
    return code


def main() -> int:
    """1 when there was nothing to run, or a file had no whole report; tests that fail are what the document is for."""
    # A shell ignores it for what it runs in the background, and so would the pytests that are interrupted with it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    place = Path(os.environ.get("COMPATIBILITY_PLACE", ROOT / ".compatibility"))
    words = sys.argv[1:]
    if words == [languages.WORD]:
        return measure_languages(place)
    if words[:1] == [functional.WORD]:
        return measure_functional(place, words[1:])
    suites = [suite for suite in ALL if suite.word in words] or list(ALL)
    wanted = [word for word in words if word not in {suite.word for suite in ALL}]
    whole, found = True, False
    for suite in suites:
        measured = measure(suite, place, wanted)
        whole, found = whole and all(file.whole for file in measured), found or bool(measured)
        if not measured:
            continue
        print(f"\n{suite.package}: {report.summary(measured)}\n")
        if wanted:
            print(report.failures(measured))
        else:
            publish(report.section(suite, measured))
    if not found:
        print("no such file in the suites", file=sys.stderr)
    return 0 if whole and found else 1


if __name__ == "__main__":
    sys.exit(main())
