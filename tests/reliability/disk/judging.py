"""Opening what a power cut left: the store must come up sound, with the last acknowledged state or the one commit after it."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from mayflydb.store.sqlite.connection import open_file
from mayflydb.store.sqlite.prepare import prepare
from reliability.disk.cuts import MODES, Durable, Image
from reliability.disk.platter import Mark
from reliability.disk.recording import PATH, Recording, State, clock_mark, commit_number, dump

SHARED_MEMORY = Path("/dev/shm")


@contextmanager
def workbench() -> Iterator[Path]:
    """A directory to put images in; in memory where there is such a place."""
    place = str(SHARED_MEMORY) if SHARED_MEMORY.is_dir() else None
    directory = Path(tempfile.mkdtemp(prefix="mayfly-images-", dir=place))
    try:
        yield directory
    finally:
        shutil.rmtree(directory)


@dataclass
class Told:
    """What clients had been told by the time of the cut: the last commit, and the latest instant.

    `done`: the last COMMIT that had returned; a group of nothing but refusals is one of which nobody is told.
    """

    ack: int = -1
    done: int = 0
    now: int = 0

    def hear(self, mark: Mark) -> None:
        setattr(self, mark.what, max(getattr(self, mark.what), mark.number))


@dataclass
class Findings:
    """What became of the images: how many there were, and what was wrong with which."""

    images: int = 0
    wrong: list[str] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    later: int = 0

    def add(self, kind: str, text: str) -> None:
        self.kinds[kind] += 1
        if len(self.wrong) < 20:
            self.wrong.append(f"{kind}: {text}")


def reopened(image: Image, directory: Path) -> State:
    """The state that the store comes up with. Raises what opening it raised, and AssertionError when the file is damaged."""
    for suffix in ("", "-wal", "-journal"):
        path = directory / (PATH + suffix)
        content = image.get(PATH + suffix)
        if content is not None:
            path.write_bytes(content)
        elif path.exists():
            path.unlink()
    connection = open_file(str(directory / PATH), "unix", exclusive=True)
    try:
        prepare(connection)
        sound = connection.pragma("integrity_check")
        assert sound == "ok", sound
        return dump(connection)
    finally:
        connection.close()


def judge(image: Image, told: Told, recording: Recording, directory: Path, findings: Findings, where: str) -> None:
    """Compare one image with what it must be."""
    findings.images += 1
    try:
        state = reopened(image, directory)
    except Exception as error:  # noqa: BLE001 -- a store that does not come up is a finding, whatever it raises.
        findings.add("unreadable", f"{where}: {error!r}")
        return
    found = commit_number(state)
    if found < told.ack:
        findings.add("lost", f"{where}: commit {told.ack} was acknowledged, and the last one is {found}")
    elif found > told.done + 1:
        findings.add("future", f"{where}: commit {found} after {told.done}")
    elif state != recording.states[found]:
        findings.add("altered", f"{where}: commit {found} is not what it was")
    elif told.now > clock_mark(state):
        findings.add("time", f"{where}: {told.now} was answered, and the mark is {clock_mark(state)}")
    elif found > told.done:
        findings.later += 1


def cut_everywhere(recording: Recording, images: int, seed: int, directory: Path, findings: Findings) -> None:
    """Cut the power at `images` random points of a recording, most of them where something could be lost."""
    draw = random.Random(seed)
    places = sorted(draw.choices(range(1, len(recording.log) + 1), k=images))
    durable, told = Durable(), Told()
    position = 0
    for place in places:
        while position < place:
            event = recording.log[position]
            durable.take(event)
            if isinstance(event, Mark):
                told.hear(event)
            position += 1
        mode = draw.choice(tuple(MODES)) if durable.at_risk else "none"
        judge(durable.image(mode, draw), told, recording, directory, findings, f"event {place}, {mode}")
