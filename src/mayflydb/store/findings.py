"""The findings of an examination of a store, and the result of a repair."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import msgspec

from mayflydb.model.instant import Instant
from mayflydb.store.interface import CatalogRow

Kind = Literal[
    "page", "structure", "record", "entry", "unique", "event", "history", "counter", "clock", "catalogue", "log"
]
"""The part of a file that a finding is about."""

Mending = Literal["repair", "lost", "none", "note"]
"""`repair`: a repair mends it. `lost`: a repair leaves it out. `none`: a person decides. `note`: it may be as it should be."""

EXAMPLES = 5
"""The examples that a finding names."""


class Finding(msgspec.Struct, frozen=True):
    """A kind of damage: how often it was found, a sentence about it, and the first places."""

    kind: Kind
    count: int
    text: str
    mending: Mending = "repair"
    examples: tuple[str, ...] = ()


class Report(msgspec.Struct, frozen=True):
    """A file as it was found. Sizes are bytes; `free_bytes` lie in free pages, which later writes use, `disk_free_bytes` on the
    disk.

    `page_checksums`: false for a file from before there were any, of which some damage stays unseen.
    """

    path: str
    format: int
    page_checksums: bool
    file_bytes: int
    log_bytes: int
    free_bytes: int
    disk_free_bytes: int
    records: int
    entries: int
    events: int
    versions: int
    findings: tuple[Finding, ...]

    @property
    def sound(self) -> bool:
        """True if no damage was found."""
        return all(finding.mending == "note" for finding in self.findings)


class Repaired(msgspec.Struct, frozen=True):
    """A copy that was made: what it holds, and what could not be read and is left out."""

    path: str
    records: int
    entries: int
    events: int
    versions: int
    left_out: tuple[Finding, ...]


class Facts(msgspec.Struct, frozen=True):
    """The numbers of the date slots of a container, and those of its unique indexes that are complete, as its row has them."""

    slots: frozenset[int] = frozenset()
    unique: frozenset[int] = frozenset()


class Expected(msgspec.Struct, frozen=True):
    """Knowledge that a store does not have: `facts_of` decodes a catalogue row (any exception: it is damaged); `mark` is the
    name of the number that holds the clock's mark, and `wall` the host's time.
    """

    facts_of: Callable[[CatalogRow], Facts]
    mark: str
    wall: Instant


ReportProgress = Callable[[str, int, int], None]
"""A callback: the step under way, how much of it is done, and how much there is in all."""


class Tally:
    """Counts findings of one kind and keeps the first examples."""

    def __init__(self) -> None:
        self._counts: dict[tuple[Kind, str, Mending], int] = {}
        self._examples: dict[tuple[Kind, str, Mending], list[str]] = {}

    def add(self, kind: Kind, text: str, example: str = "", mending: Mending = "repair", count: int = 1) -> None:
        """Count what was found; texts that are equal are one finding."""
        key = kind, text, mending
        self._counts[key] = self._counts.get(key, 0) + count
        examples = self._examples.setdefault(key, [])
        if example and len(examples) < EXAMPLES:
            examples.append(example)

    def findings(self) -> tuple[Finding, ...]:
        """Return what was found, in the order of the first of each."""
        return tuple(
            Finding(kind, count, text, mending, tuple(self._examples[kind, text, mending]))
            for (kind, text, mending), count in self._counts.items()
        )


Names = Mapping[int, str]
"""Container -> its path of names."""
