"""Requests that may take long: while one runs, the server is asked how far it is."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from typing import Any, Final

import click

from mayflydb.cli.admin import AdminClient, CommandFailed, admin_client
from mayflydb.cli.progress import PATIENCE, ProgressLine

POLL_SECONDS: Final = 0.5
"""Seconds between two looks, and the longest that one may take."""

Report = Callable[[ProgressLine, Mapping[str, Any] | None, Mapping[str, Any]], None]
"""Shows progress, from the server's counts before the request (None: they are not known) and its present ones."""


def post_with_progress(ctx: click.Context, what: str, path: str, body: Mapping[str, object], report: Report) -> Any:
    """POST a JSON body. A line of progress appears on a terminal once the answer takes longer than `PATIENCE`."""
    admin = admin_client(ctx, silent=True)
    with ProgressLine(what) as line:
        if not line.is_shown:
            return admin.post(path, body)
        looks = admin_client(ctx, POLL_SECONDS, silent=True)
        before = _look(looks)
        answer: Future[Any] = Future()
        # A daemon: Ctrl+C ends the command while the server still works.
        threading.Thread(target=_post, args=(admin, path, body, answer), daemon=True).start()
        done, _ = wait([answer], PATIENCE)
        while not done:
            now = _look(looks)
            if now is not None:
                report(line, before, now)
            done, _ = wait([answer], POLL_SECONDS)
        return answer.result()


def _post(admin: AdminClient, path: str, body: Mapping[str, object], answer: Future[Any]) -> None:
    try:
        answer.set_result(admin.post(path, body))
    except BaseException as error:  # noqa: BLE001 - raised where the answer is waited for
        answer.set_exception(error)


def _look(admin: AdminClient) -> Mapping[str, Any] | None:
    """Return the server's counts; None if it does not answer in time."""
    try:
        found: Mapping[str, Any] = admin.get("stats")
    except CommandFailed:
        return None
    return found


def report_purge(target: str | None) -> Report:
    """Return a report of a purge: how many of the records that were due at its begin are purged."""

    def report(line: ProgressLine, before: Mapping[str, Any] | None, now: Mapping[str, Any]) -> None:
        due = None if before is None else _sum(before, "due", target)
        line.update(_purged_since(before, now, target), due)

    return report


def report_advance(line: ProgressLine, before: Mapping[str, Any] | None, now: Mapping[str, Any]) -> None:
    """Report how far the clock is, and how many records were purged on the way."""
    line.say(f"at {now['now']}, {_purged_since(before, now, None):,} records purged")


def _purged_since(before: Mapping[str, Any] | None, now: Mapping[str, Any], target: str | None) -> int:
    return _sum(now, "purged", target) - (0 if before is None else _sum(before, "purged", target))


def _sum(stats: Mapping[str, Any], count: str, target: str | None) -> int:
    """Add up a count over the containers of a target; None: over all."""
    rows: Mapping[str, Mapping[str, int]] = stats["targets"]
    return sum(row[count] for name, row in rows.items() if target is None or _is_within(name, target))


def _is_within(name: str, target: str) -> bool:
    return name == target or name.startswith((f"{target}/", f"{target}."))
