"""A server in the process of its caller: its own clock, and its logins."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine

from mayflydb.embedded import serve

START = datetime(2030, 1, 1, tzinfo=UTC)


def test_a_server_follows_the_clock_of_the_process() -> None:
    with (
        time_machine.travel(START, tick=False) as trip,
        serve(memory=True, port=0, mongo_port=-1, ydb_port=-1, clock="system") as server,
    ):
        assert server.clock.now() == START
        trip.shift(timedelta(hours=1))
        assert server.clock.now() == START + timedelta(hours=1)


@pytest.mark.parametrize("more", [{"memory": False}, {"memory": True, "clock_start": "2030-01-01T00:00:00Z"}])
def test_what_the_clock_of_the_process_is_not_for(more: dict[str, Any], tmp_path: Path) -> None:
    place = None if more["memory"] else tmp_path / "mayfly.db"
    with pytest.raises(TypeError, match="clock='system'"), serve(place, port=0, clock="system", **more):
        pass


def test_a_driver_of_ydb_logs_in(tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("secret\n")
    with (
        serve(memory=True, port=0, mongo_port=-1, ydb_port=0, ydb_password_file=str(password)) as server,
        server.ydb.driver() as driver,
    ):
        assert driver.scheme_client.list_directory("/local").name == "/local"
