"""Applies resource documents at the start, before the ports are open."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from mayflydb.admin import resource_files, resources
from mayflydb.admin.operations import Admin
from mayflydb.announcement import StartFailed
from mayflydb.engine.engine import Engine
from mayflydb.model.errors import MayflyError
from mayflydb.store.interface import Decision, NamedNumber, Outcome, SetNumber

SEEDED: Final = "seeded"
"""The setting of a store that was seeded while it was new."""

BEGUN, DONE = 1, 2

SCRIPTS: Final = (".sh", ".js", ".gz", ".sql", ".cql")

log = logging.getLogger("mayflydb.server")


async def seed(engine: Engine, admin: Admin, initial: Sequence[str], always: Sequence[str]) -> None:
    """Apply documents. `initial`: those for a new store alone. StartFailed names the file that could not be applied."""
    if initial and await _is_new(engine, admin):
        # Should this start fail in the midst, the next one goes on with it.
        await _note(engine, BEGUN)
        _name_others(initial)
        await _apply(admin, initial, "server.initdb")
        await _note(engine, DONE)
    await _apply(admin, always, "server.seed")


async def _apply(admin: Admin, paths: Sequence[str], setting: str) -> None:
    place = ", ".join(paths)
    try:
        for path in resource_files.find([Path(each) for each in paths]):
            place = str(path)
            for piece in resources.pieces(resource_files.read(path)):
                await admin.applier.apply(piece)
    except (MayflyError, OSError) as error:
        raise StartFailed(f"the seed {place} could not be applied: {error}", setting=setting) from error


def _name_others(paths: Sequence[str]) -> None:
    """Log the scripts that images of other databases run, and Mayfly does not."""
    folders = (path for path in map(Path, paths) if path.is_dir())
    others = sorted(str(each) for folder in folders for each in folder.iterdir() if each.suffix in SCRIPTS)
    if others:
        log.warning("not run, as they are no resource documents: %s", ", ".join(others))


async def _is_new(engine: Engine, admin: Admin) -> bool:
    state = await engine.store.read(NamedNumber(SEEDED))
    return state == BEGUN if state else not await admin.targets.list_containers()


async def _note(engine: Engine, state: int) -> None:
    def decide() -> Decision[None]:
        return Outcome((SetNumber(SEEDED, state),), None)
        yield

    await engine.store.write(decide)
