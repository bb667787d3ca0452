"""Plays faults, hostile requests and attacks on memory against real servers, and writes docs/reliability.md.

`promises.py` writes all tables; `promises.py faults`, `hostile` or `memory` writes one of them and leaves the others.
Exit code 1: a row does not hold.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reliability.md"
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "bench")]
os.environ["PYTHONPATH"] = os.pathsep.join((str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")))


class Row(NamedTuple):
    """`held`: what is promised held; None: it could not be tried here."""

    name: str
    promised: str
    held: bool | None
    measured: str


Played = tuple[bool, str]
"""Whether the promise held, and what was measured."""


def disk(name: str) -> Callable[[Path], Played]:
    """A fault of the disk, played by its own command, in a name space of its own where it mounts."""

    def play(place: Path) -> Played:
        from reliability.storage.test_scenarios import play as play_alone

        found = play_alone(name, place)
        held = (found.lost, found.back, found.readable_dead) == (0, 0, 0) and found.resumed <= 5
        refused = ", ".join(f"{number} x {status}" for status, number in found.refusals.items()) or "none"
        return held, (
            f"{found.acknowledged} acknowledged, {found.lost} lost, {found.readable_dead} dead readable, refused: {refused}, "
            f"unknown: {found.unknown}, acknowledged again after {found.resumed:.1f} s"
        )

    return play


def file(name: str) -> Callable[[Path], Played]:
    """A file that is taken away from its server."""

    def play(place: Path) -> Played:
        from reliability.file import scenarios

        found = asyncio.run(getattr(scenarios, name)(place))
        exists = name not in ("removed_file", "overwritten_file")
        held = found.seconds < 1.5 and (found.lost == 0) == exists
        gone = "none of them is lost" if exists else "all of them were in what was taken away"
        return held, (
            f"{found.acknowledged} acknowledged, {gone}; the last {found.seconds:.2f} s after it; then "
            f"{', '.join(sorted(found.refusals))}"
        )

    return play


def clock(name: str) -> Callable[[Path], Played]:
    """A fault of the wall clock, with a file."""

    def play(place: Path) -> Played:
        from reliability.clock.faults import FAULTS

        found = FAULTS[name]({"path": place / "mayfly.db"})
        held = (found.early, found.dead, found.purged_early) == (0, 0, 0) and found.mark_ahead <= 2
        return held, (
            f"{found.looks} looks over three wires: {found.early} early, {found.dead} dead readable, {found.purged_early} purged "
            f"early; the mark is {max(0.0, found.mark_ahead):.1f} s ahead in the end"
        )

    return play


def stopped(place: Path) -> Played:
    """SIGSTOP."""
    from reliability.clock.faults import stopped_process

    found = stopped_process(place)
    return (found.early, found.dead) == (0, 0), f"{found.looks} looks: {found.early} early, {found.dead} dead readable"


def descriptors(place: Path) -> Played:
    """64 descriptors."""
    from reliability.descriptors.scenarios import CLIENTS, few_descriptors

    found = few_descriptors(place)
    held = found.waiting == 0 and found.served > 0 and found.after
    return held, (
        f"of {CLIENTS} clients {found.served} served, {found.refused} refused, each within {found.slowest * 1000:.0f} ms; "
        f"a newcomer is {'served' if found.after else 'not served'} when they have left"
    )


FAULTS: tuple[tuple[str, str, Callable[[Path], Played]], ...] = (
    ("full disk (tmpfs)", "growth is refused as not done; reads, deletes and purges go on", disk("full_disk")),
    ("EIO on write", "commits of unknown outcome are called so", disk("write_error")),
    ("EIO on read", "an error, never 'not found'", disk("read_error")),
    ("fsync fails", "the process ends; the next start has all that was acknowledged", disk("failed_sync")),
    ("the file is removed", "nothing is acknowledged after a second", file("removed_file")),
    ("the file is renamed", "the same, and nothing is lost", file("renamed_file")),
    ("its directory is renamed", "the same, and nothing is lost", file("renamed_directory")),
    ("the file is replaced (mv)", "the same, and the old file has everything", file("replaced_file")),
    ("the file is overwritten (cp)", "nothing is acknowledged after a second", file("overwritten_file")),
    ("the write-ahead log is removed", "the file gets what the log held", file("removed_log")),
    ("clock: -2 h", "time stands still; nothing early, nothing dead readable", clock("-2 h")),
    ("clock: +10 d for 1 s", "no trace", clock("+10 d for 1 s")),
    ("clock: +30 d at start", "nothing is purged until a person decides", clock("+30 d at start")),
    ("clock: +30 d at start, after a boot", "nothing is purged until a person decides", clock("+30 d at start, after a boot")),
    ("SIGSTOP for 3 s", "nothing early, nothing dead readable", stopped),
    ("64 descriptors", "newcomers are refused at once", descriptors),
)  # fmt: skip


def find_reason(error: Exception) -> str:
    """Return the last line of an error's text: before it stand the frames of another process."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:200] if lines else type(error).__name__


def play_faults() -> Iterator[Row]:
    """Play each fault in a directory of its own."""
    for name, promised, play in FAULTS:
        with tempfile.TemporaryDirectory(prefix="fault-") as place:
            os.environ["XDG_DATA_HOME"] = str(Path(place) / "data")
            try:
                held, measured = play(Path(place))
                yield Row(name, promised, held, measured)
            # A fault that this machine cannot play is a row as well.
            except (OSError, AssertionError, subprocess.SubprocessError, RuntimeError) as error:
                yield Row(name, promised, None, f"NOT RUN: {find_reason(error)}")


def play_hostile() -> Iterator[Row]:
    """Send each hostile request beside clients that read."""
    from hostile import hostile

    with tempfile.TemporaryDirectory(prefix="hostile-") as place:
        for figure in hostile(Path(place)):
            yield Row(figure.name, figure.target, figure.met, f"{figure.measured}; {figure.how}")


def play_memory() -> Iterator[Row]:
    """Play each attack on the memory of a server."""
    from hoarding import hoarding

    with tempfile.TemporaryDirectory(prefix="memory-") as place:
        for figure in hoarding(Path(place)):
            yield Row(figure.name, figure.target, figure.met, f"{figure.measured}; {figure.how}")


def table(rows: list[Row], heads: tuple[str, str, str, str]) -> str:
    """The rows as Markdown."""
    words = {True: "yes", False: "**no**", None: "-"}
    lines = ["| " + " | ".join(heads) + " |", "|---|---|---|---|"]
    for row in rows:
        cells = (row.name, row.promised, words[row.held], row.measured)
        shown = (re.sub(r"[|\n<>{}]", " ", cell.replace("<=", "≤")) for cell in cells)
        lines.append("| " + " | ".join(shown) + " |")
    return "\n".join(lines)


PARTS: dict[str, tuple[Callable[[], Iterator[Row]], tuple[str, str, str, str]]] = {
    "faults": (play_faults, ("what happens", "promised", "held", "measured")),
    "hostile": (play_hostile, ("request", "readers' p99 / max", "held", "measured")),
    "memory": (play_memory, ("attack", "resident memory", "held", "measured")),
}


def main() -> int:
    """Write the parts that are asked for, or all."""
    wanted: list[str] = sys.argv[1:] or [*PARTS]
    page, failed = PAGE.read_text(encoding="utf-8"), False
    for name in wanted:
        play, heads = PARTS[name]
        rows: list[Row] = []
        for row in play():
            print({True: "held", False: "NOT HELD", None: "-"}[row.held], row.name, row.measured, sep=": ", flush=True)
            rows.append(row)
        failed = failed or any(row.held is False for row in rows)
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        head, rest = page.split(begin)
        page = f"{head}{begin}{table(rows, heads)}\n{end}{rest.split(end)[1]}"
    PAGE.write_text(page, encoding="utf-8")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
