"""The operations on archives, for the table of all operations."""

from __future__ import annotations

from mayflydb.admin import archive_answers as aa
from mayflydb.admin import lifecycle_requests as lr
from mayflydb.admin import requests as r
from mayflydb.admin.archives import Archives
from mayflydb.admin.operation import Operation


def archive_operations(archives: Archives) -> tuple[Operation, ...]:
    """Return the rows of the table."""
    example = {"name": "cold"}
    return (
        Operation(
            "GET",
            "archives",
            "Lists archives, what they have written, and what waits for them.",
            r.NoMembers,
            aa.ArchiveList,
            lambda _: archives.list_all(),
        ),
        Operation(
            "POST",
            "archives",
            "Adds an archive: a place for the records of containers that name it, when these expire.",
            lr.AddArchive,
            aa.AddedArchive,
            archives.add,
            {**example, "url": "s3://records/expired", "format": "parquet", "every": "5m"},
        ),
        Operation(
            "POST",
            "archives/flush",
            "Writes what waits now for an archive, or for all, and answers when it is written.",
            lr.FlushArchives,
            aa.FlushedArchives,
            lambda body: archives.flush(body.name),
            example,
        ),
        Operation(
            "POST",
            "archives/{name}/test",
            "Writes a small file, `mayfly-test`.",
            lr.ArchiveName,
            aa.TestedArchive,
            lambda path: archives.test(path.name),
            example,
        ),
        Operation(
            "DELETE",
            "archives/{name}",
            "Removes an archive. Its files stay.",
            lr.RemoveArchive,
            aa.RemovedArchive,
            lambda path: archives.remove(path.name, path.discard),
            example,
        ),
    )
