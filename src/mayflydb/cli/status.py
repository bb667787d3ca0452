"""`mayfly status`: readiness, addresses and counts of a running server."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

import click

from mayflydb.cli.admin import NOT_READY, AdminClient, CommandFailed, admin_client
from mayflydb.cli.estimates import count_in_words
from mayflydb.cli.output import output_option, show
from mayflydb.cli.progress import ProgressLine

POLL_SECONDS = 0.1
REQUEST_SECONDS = 5.0
"""Seconds that one request may take. A server that accepts a connection and does not answer is not ready."""


@click.command()
@click.option(
    "--wait", type=click.FloatRange(min=0), default=0.0, metavar="SECONDS", help="Wait this long for readiness."
)
@output_option
@click.pass_context
def status(ctx: click.Context, wait: float) -> None:
    """Readiness, addresses and counts; -o wide tells more. Exit code 3 when the server is not ready in time.

    `mayfly connect` has the keys that clients need.
    """
    admin = admin_client(ctx, timeout=REQUEST_SECONDS)
    ready = wait_until_ready(admin, wait)
    document = {"readiness": ready, "info": admin.get("info"), "stats": admin.get("stats")}
    show(ctx, document, brief=_brief_rows(ready, document["info"], document["stats"]))


def _brief_rows(ready: Mapping[str, Any], info: Mapping[str, Any], stats: Mapping[str, Any]) -> list[dict[str, Any]]:
    ydb, exact = info.get("ydb") or {}, stats.get("exact", True)
    values = {
        "ready": "yes",
        "version": info.get("version"),
        "storage": info.get("storage"),
        "clock": f"{ready.get('clock')}, {stats.get('now')}",
        "cosmos": (info.get("cosmos") or {}).get("endpoint", "off"),
        "mongo": (info.get("mongo") or {}).get("uri", "off"),
        "ydb": f"{ydb['endpoint']}{ydb['database']}" if ydb else "off",
        "portal": info.get("portal"),
        **{name: stats.get(name) for name in ("databases", "containers")},
        "records": count_in_words(stats.get("records", 0), exact),
        "hidden": count_in_words(sum(row.get("hidden", 0) for row in (stats.get("targets") or {}).values()), exact),
    }
    return [{"name": name, "value": value} for name, value in values.items()]


def wait_until_ready(admin: AdminClient, seconds: float) -> Any:
    """Return the readiness document, after at least one request. CommandFailed with the last reason if the time runs out."""
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    with ProgressLine("waiting for readiness"):
        while True:
            failure, ready = _request_readiness(admin)
            if failure is None:
                return ready
            if time.monotonic() >= deadline:
                raise failure
            pause.wait(min(POLL_SECONDS, max(0.0, deadline - time.monotonic())))


def _request_readiness(admin: AdminClient) -> tuple[CommandFailed | None, Any]:
    try:
        code, answer = admin.request("GET", "ready", None)
    except CommandFailed as failed:
        # Waiting helps only against a server that is not ready: a wrong --url stays wrong.
        if failed.exit_code != NOT_READY:
            raise
        return failed, None
    if code == 200:
        return None, answer
    return CommandFailed(f"not ready: {_unready_parts(answer)}", exit_code=NOT_READY), None


def _unready_parts(answer: Any) -> str:
    """Return the parts that are not ready, with the server's reasons."""
    if not isinstance(answer, dict):
        return str(answer)
    parts = {**answer, **(answer.get("protocols") or {})}
    bad = [f"{name}: {value}" for name, value in parts.items() if isinstance(value, str) and value not in ("ok", "off")]
    return ", ".join(bad) or "starting"
