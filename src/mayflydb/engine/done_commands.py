"""The commands that an open transaction has run, which the writer runs again at the commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from mayflydb.engine.commands import Command, Written

PROVISIONAL: Final = 1 << 60
"""Lsns and seqs from here on are provisional: no container reaches them."""


class Done(msgspec.Struct):
    """A command that ran; `written` None: it was blind, and found no record."""

    container: int
    command: Command
    blind: bool
    written: Written | None = None


def final(command: Command, pairs: Sequence[tuple[Written, Written]]) -> Command:
    """Replace provisional numbers in a command: `pairs` has each result here with its result at the commit."""
    version, number = command.if_match, command.seq
    if (version or 0) < PROVISIONAL and (number or 0) < PROVISIONAL:
        return command
    versions: dict[int | None, int] = {ours.record.lsn: theirs.record.lsn for ours, theirs in pairs}
    numbers: dict[int | None, int] = {ours.record.seq: theirs.record.seq for ours, theirs in pairs}
    return msgspec.structs.replace(command, if_match=versions.get(version, version), seq=numbers.get(number, number))
