"""Decisions about the segments of a container: where its records begin to be sealed, and why it has no history then."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from mayflydb.engine.catalog import Definition, Node
from mayflydb.expiry.lifecycle import segment_number
from mayflydb.model.errors import Conflict, Unsupported
from mayflydb.model.instant import Instant
from mayflydb.store.interface import Allocate, Change, KeySegments, Read, ask
from mayflydb.store.segments import BeginSegment


def switch(now: Instant, before: Node, after: Definition) -> Generator[Read[Any], Any, tuple[Change, ...]]:
    """Return the changes by which a container begins or ends to seal its records. Conflict if it has a history."""
    shred = after.lifecycle.shred
    if shred == before.definition.lifecycle.shred:
        return ()
    if shred != "off" and before.definition.history:
        hint = "shred a container without all versions feed, change streams and changefeeds"
        raise Conflict(
            "this container keeps a history of its records, which would keep what is to be shredded", hint=hint
        )
    lsn, _ = yield from ask(Allocate(before.id, seq=False))
    return (BeginSegment(before.id, lsn, segment_number(shred, now), sealed=shred != "off"),)


def check_shredding(definition: Definition) -> None:
    """Raise Unsupported if versions of records that are to be shredded would be kept unsealed after their end."""
    lifecycle = definition.lifecycle
    kept = lifecycle.keeps_versions or definition.holds or definition.publisher is not None
    if lifecycle.shred != "off" and kept:
        raise Unsupported(
            "a container that shreds its records keeps no version of them: no last images, history, archive, legal hold or"
            " changefeed",
            hint="choose one of both for this container",
        )


def refuse_history(container: int) -> Generator[Read[Any], Any, None]:
    """Raise Unsupported if a container has sealed records: a history would keep them."""
    segments = yield from ask(KeySegments(container))
    if any(each.state == "live" for each in segments):
        raise Unsupported(
            "this container shreds its records, which a history would keep",
            hint="`mayfly lifecycle set TARGET --shred off`, and wait until its sealed records have expired",
        )
