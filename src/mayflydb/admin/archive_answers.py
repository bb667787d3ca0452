"""The shapes of the admin API's answers about archives. `answers` has the others, and the rules for all."""

from __future__ import annotations

from mayflydb.admin.answers import Answer, Count, Target, Time
from mayflydb.admin.archive_names import Format


class ArchiveAnswer(Answer, frozen=True):
    """An archive. `targets`: the containers that name it; `stopped`: those whose purge waits for it.

    `every`: seconds. `waiting`: at most so many records are not in a file yet. `files`, `records`, `failed`, `last_file`: of this
    process; `error`: of the last file, if it was not accepted.
    """

    name: str
    url: str
    format: Format
    every: Count
    targets: list[Target]
    waiting: Count
    stopped: list[Target]
    files: Count
    records: Count
    failed: Count
    last_file: str | None
    error: str | None


class ArchiveList(Answer, frozen=True):
    """All archives."""

    now: Time
    archives: list[ArchiveAnswer]


class AddedArchive(Answer, frozen=True):
    """A new archive."""

    now: Time
    name: str
    url: str
    format: Format


class RemovedArchive(Answer, frozen=True):
    """The name of an archive that is gone."""

    now: Time
    name: str


class TestedArchive(Answer, frozen=True):
    """The result of a small file. `error`: empty if it was accepted."""

    now: Time
    name: str
    accepted: bool
    error: str


class FlushedArchives(Answer, frozen=True):
    """Files and records that were written, and the records that still wait. `error`: of the first file that was not accepted."""

    now: Time
    files: Count
    records: Count
    waiting: Count
    error: str | None
