"""The settings of what a server is filled with at its start."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mayflydb.config import values as read
from mayflydb.config.row import Row

SEED_ROWS: Final[Sequence[Row]] = (
    Row(
        "server.seed",
        ("--seed",),
        [],
        read.texts,
        "A resource document, or a folder of them, that is applied before the server is ready; may be repeated.",
        "PATH",
        many=True,
    ),
    Row(
        "server.initdb",
        ("--initdb",),
        [],
        read.texts,
        "As --seed, but only for a store without containers; a start that failed is continued. May be repeated.",
        "PATH",
        many=True,
    ),
)
