"""Progress of long work: one line on a terminal's stderr, written over as it goes, and removed at its end."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import Final, Self, TextIO

import click

BAR: Final = 24
PATIENCE: Final = 2.0
"""Seconds of work without a word."""
INTERVAL: Final = 0.2
"""Seconds between two lines."""


class ProgressLine:
    """A line such as `export  [####......]  1,204 of 4,310 records, 12 s left`, for work that takes long.

    Nothing where stderr is no terminal, or -q was given. A thread writes it, also while the work does not tell how far it is.
    """

    def __init__(self, what: str, unit: str = "records", out: TextIO | None = None) -> None:
        self._what, self._unit = what, unit
        self._out = sys.stderr if out is None else out
        self._is_shown = self._out.isatty() and not _is_quiet()
        self._width = 0
        self._amount: tuple[int, int | None] | None = None
        self._text = ""
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def is_shown(self) -> bool:
        """True: a person sees it."""
        return self._is_shown

    def __enter__(self) -> Self:
        if self._is_shown:
            self._thread = threading.Thread(target=self._show, daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        self._write("")

    def update(self, done: int, total: int | None = None) -> None:
        """Tell how much is done. `total`: None where it is not known."""
        self._amount = (done, total)

    def say(self, text: str) -> None:
        """Tell a text instead of an amount."""
        self._text = text

    def _show(self) -> None:
        began, pause = time.monotonic(), PATIENCE
        while not self._ended.wait(pause):
            self._write(self._describe(time.monotonic() - began))
            pause = INTERVAL

    def _describe(self, seconds: float) -> str:
        if self._amount is not None:
            return describe(self._what, self._unit, *self._amount, seconds)
        return f"{self._what}  {self._text or f'{seconds:.0f} s'}"

    def _write(self, text: str) -> None:
        if self._is_shown and (self._width or text):
            self._out.write("\r" + text.ljust(self._width) + ("" if text else "\r"))
            self._out.flush()
            self._width = len(text)


def _is_quiet() -> bool:
    ctx = click.get_current_context(silent=True)
    return ctx is not None and bool((ctx.find_root().obj or {}).get("quiet"))


def describe(what: str, unit: str, done: int, total: int | None, seconds: float) -> str:
    """Return the line for an amount of work. `total`: None where it is not known."""
    if not total:
        return f"{what}  {done:,} {unit}, {seconds:.0f} s"
    share = min(1.0, done / total)
    bar = "#" * int(BAR * share)
    left = f", {seconds / share - seconds:.0f} s left" if share > 0.01 else ""
    return f"{what}  [{bar:.<{BAR}}]  {done:,} of {total:,} {unit}{left}"
