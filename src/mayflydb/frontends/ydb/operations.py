"""Long-running operations: scripts that run after their call was answered, and whose results are kept for a while."""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import AsyncIterator, Sequence
from random import Random  # noqa: TID251 - the type; what draws comes in from outside
from typing import Final

import msgspec

from mayflydb.frontends.ydb.errors import ANSWERED, describe_error, internal_error
from mayflydb.frontends.ydb.query_run import QueryStats, ResultPart
from mayflydb.model.instant import DAY, Instant, Span
from mayflydb.query.yql.faults import Fault, Issue, Status, fault
from mayflydb.query.yql.schemas import Row
from mayflydb.query.yql.types import Type

log = logging.getLogger(__name__)

SCRIPT_KIND: Final = "scriptexec"
"""The kind under which ListOperations finds scripts."""

DEFAULT_LIFETIME: Final[Span] = DAY
"""The time for which results are kept, unless the request says otherwise."""

MAX_KEPT_SCRIPTS: Final = 1000
"""Scripts that are kept. A new script removes the oldest finished one."""


class ScriptResultSet(msgspec.Struct):
    """One result set of a script."""

    columns: Sequence[tuple[str, Type]]
    rows: list[Row]


class ScriptRun(msgspec.Struct, eq=False):
    """One script.

    `status` None: the script is running. `lifetime`: the time after `began` during which its results are kept.

    `mode`: the number of its ExecMode.
    """

    id: str
    text: str
    mode: int
    database: str
    user: str
    began: Instant
    lifetime: Span
    results: dict[int, ScriptResultSet] = {}
    stats: QueryStats | None = None
    status: Status | str | None = None
    issues: tuple[Issue, ...] = ()
    task: asyncio.Task[None] | None = None


class Operations:
    """The scripts of one server, on its event loop."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._scripts: dict[str, ScriptRun] = {}

    def start(self, script: ScriptRun, parts: AsyncIterator[ResultPart]) -> None:
        """Run a script in the background. Faults: OVERLOADED if the limit of running scripts is reached."""
        self._remove_outdated(script.began)
        if len(self._scripts) >= MAX_KEPT_SCRIPTS:
            # The dictionary is in the order of the starts, so the first finished script is the oldest.
            ended = next((each for each in self._scripts.values() if each.status is not None), None)
            if ended is None:
                raise fault("Too many scripts are running", status="OVERLOADED")
            del self._scripts[ended.id]
        self._scripts[script.id] = script
        script.task = asyncio.create_task(_run(script, parts), name="script")

    def new_id(self) -> str:
        """Return a new operation id."""
        secret = base64.urlsafe_b64encode(self._chance.getrandbits(128).to_bytes(16, "big")).decode().rstrip("=")
        return f"ydb://{SCRIPT_KIND}/9?node_id=1&id={secret}"

    def get(self, id: str, user: str, now: Instant) -> ScriptRun:
        """Return a script of this user. Faults: NOT_FOUND for an unknown id, and once the results are too old."""
        script = self._scripts.get(id)
        # Scripts of other users are unknown, and not forbidden: no answer confirms an id.
        if script is None or script.user != user or self._is_outdated(script, now):
            raise Fault("NOT_FOUND", Issue(f"Operation not found: {id}"))
        return script

    def scripts_of(self, user: str, now: Instant) -> list[ScriptRun]:
        """Return the scripts of a user, latest first."""
        self._remove_outdated(now)
        return [script for script in reversed(self._scripts.values()) if script.user == user]

    def cancel(self, script: ScriptRun) -> None:
        """Stop a running script. Faults: PRECONDITION_FAILED if the script has ended."""
        if script.status is not None or script.task is None:
            raise fault("Operation is finished", status="PRECONDITION_FAILED")
        script.task.cancel()

    def forget(self, script: ScriptRun) -> None:
        """Remove a finished script. Faults: PRECONDITION_FAILED while the script runs."""
        if script.status is None:
            raise fault("Operation is in progress", status="PRECONDITION_FAILED")
        self._scripts.pop(script.id, None)

    async def close(self) -> None:
        """Stop all scripts."""
        tasks = [script.task for script in self._scripts.values() if script.task is not None and not script.task.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _remove_outdated(self, now: Instant) -> None:
        """Remove the scripts whose results are too old."""
        for script in [each for each in self._scripts.values() if self._is_outdated(each, now)]:
            del self._scripts[script.id]

    @staticmethod
    def _is_outdated(script: ScriptRun, now: Instant) -> bool:
        return script.status is not None and now - script.began > script.lifetime


async def _run(script: ScriptRun, parts: AsyncIterator[ResultPart]) -> None:
    try:
        async for part in parts:
            if part.index >= 0:
                kept = script.results.setdefault(part.index, ScriptResultSet(part.columns, []))
                kept.rows.extend(part.rows)
            script.stats = part.stats or script.stats
        script.status = "SUCCESS"
    # Cancelling is an outcome of the script. The task itself ends without an error.
    except asyncio.CancelledError:
        script.status, script.issues = "CANCELLED", (Issue("Operation cancelled."),)
    except ANSWERED as error:
        script.status, script.issues = describe_error(error)
    except Exception:
        log.exception("a script was broken off")
        script.status, script.issues = internal_error()
