"""Progress of long work: one line on a terminal's stderr, written over as it goes, and removed at its end."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Final, TextIO

BAR: Final = 24
PATIENCE: Final = 2.0
"""Seconds of work without a word."""
INTERVAL: Final = 0.2
"""Least seconds between two lines."""


class ProgressLine:
    """A line such as `export  [####......]  1,204 of 4,310 records, 12 s left`. Nothing where stderr is no terminal."""

    def __init__(self, what: str, unit: str = "records", patience: float = PATIENCE, out: TextIO | None = None) -> None:
        """`patience`: seconds after which the first line appears."""
        self._what, self._unit, self._patience = what, unit, patience
        self._out = sys.stderr if out is None else out
        self._is_shown = self._out.isatty()
        self._began = self._last = time.monotonic()
        self._width = 0

    @property
    def is_shown(self) -> bool:
        """True: stderr is a terminal."""
        return self._is_shown

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._write("")

    def update(self, done: int, total: int | None = None) -> None:
        """Show how much is done."""
        now = time.monotonic()
        if not self._is_shown or now - self._began < self._patience or now - self._last < INTERVAL:
            return
        self._last = now
        self._write(describe(self._what, self._unit, done, total, now - self._began))

    def say(self, text: str) -> None:
        """Show a text instead of an amount."""
        if self._is_shown:
            self._write(f"{self._what}  {text}")

    def _write(self, text: str) -> None:
        if self._width or text:
            self._out.write("\r" + text.ljust(self._width) + ("" if text else "\r"))
            self._out.flush()
            self._width = len(text)


def describe(what: str, unit: str, done: int, total: int | None, seconds: float) -> str:
    """Return the line for an amount of work. `total`: None where it is not known."""
    if not total:
        return f"{what}  {done:,} {unit}, {seconds:.0f} s"
    share = min(1.0, done / total)
    bar = "#" * int(BAR * share)
    left = f", {seconds / share - seconds:.0f} s left" if share > 0.01 else ""
    return f"{what}  [{bar:.<{BAR}}]  {done:,} of {total:,} {unit}{left}"
