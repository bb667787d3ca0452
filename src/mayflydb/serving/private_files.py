"""Files that only their owner may read, from the moment at which they exist."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def write_private(place: Path, content: bytes, *, mode: int = 0o600, replace: bool = False) -> None:
    """Write a file so that readers see all of it or nothing. Without `replace`, a file that exists stays as it is.

    A missing directory is created for its owner alone. OSError.
    """
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = place.with_name(f".{place.name}.{os.getpid()}")
    # A killed process of the same id may have left one, and O_EXCL refuses a file that exists.
    temporary.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as file:
            file.write(content)
        if replace:
            temporary.replace(place)
        else:
            # A link fails if the name exists, where a rename would replace the file.
            with contextlib.suppress(FileExistsError):
                os.link(temporary, place)
    finally:
        temporary.unlink(missing_ok=True)
