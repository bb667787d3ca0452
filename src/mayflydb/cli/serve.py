"""`mayfly serve`: run the server until it is told to stop."""

from __future__ import annotations

import gc
import sys
from collections.abc import Mapping
from typing import Any

import click

from mayflydb.announcement import StartFailed
from mayflydb.cli.announce import Announcer
from mayflydb.cli.options import SettingsCommand, load_settings, setting_options, start_failure
from mayflydb.cli.ports import owner_of


@click.command(cls=SettingsCommand)
@setting_options
@click.pass_context
def serve(ctx: click.Context, /, **given: Any) -> None:
    """Serve a database from PATH (an SQLite file, by default ./mayfly.db) until Ctrl+C or SIGTERM."""
    # The collector would walk the modules again and again while they are loaded: about 10 ms. `run` turns it on again.
    gc.disable()
    settings = load_settings(ctx, given).settings
    announcer = Announcer(settings.server.ready_file, sys.stdout)
    from mayflydb.serving.process import run

    ports = {
        "server.port": settings.server.port,
        "mongo.port": settings.mongo.port,
        "ydb.port": settings.ydb.port,
        "ydb.tls_port": settings.ydb.tls_port,
    }
    try:
        announcer.prepare()
        code = run(settings, announcer)
    except StartFailed as failed:
        raise start_failure(failed, owner=_port_owner(failed, ports)) from failed
    if code == 0:
        announcer.withdraw()
    ctx.exit(code)


def _port_owner(failed: StartFailed, ports: Mapping[str, int]) -> str | None:
    """Return the process that has the port, if the start failed because a port was taken."""
    port = ports.get(failed.setting, 0) if failed.message.endswith("is taken") else 0
    return owner_of(port) if port > 0 else None
