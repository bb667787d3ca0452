"""A host's clock that disagrees with the store: refused starts, both ways out, and the portal, on the host's own clock."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mayflydb.announcement import StartFailed
from mayflydb.cli.main import mayfly
from mayflydb.embedded import RunningServer, serve
from reliability.clock.faults import DAY, MINUTE, Machine
from served import Http, port_of

Clock = Callable[..., Result]


@pytest.fixture
def clock(file: Path) -> Clock:
    """Runs `mayfly clock ... --storage` for the file."""

    def run(verdict: str, storage: str = f"sqlite:///{file}") -> Result:
        return CliRunner().invoke(mayfly, ["-o", "json", "clock", verdict, "--storage", storage])

    return run


def ahead_of_the_host(file: Path) -> datetime:
    """Make a store that has been ten days ahead."""
    start = datetime.now(UTC).replace(microsecond=0) + timedelta(days=10)
    with serve(file, port=0, clock="virtual", clock_start=start.isoformat()):
        return start


def near(server: RunningServer, time: datetime) -> bool:
    return abs(server.clock.now() - time) < timedelta(minutes=1)


def test_a_store_ahead_of_the_host_names_both_times_and_both_ways_out(file: Path) -> None:
    mark = ahead_of_the_host(file)
    with pytest.raises(StartFailed) as caught, serve(file, port=0):
        pass
    assert caught.value.exit_code == 4
    times = re.findall(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", caught.value.message)
    assert times[0] == mark.isoformat()[:19]
    assert times[1][:10] in {(datetime.now(UTC) - timedelta(hours=hours)).isoformat()[:10] for hours in (0, 1)}
    for way in (f"mayfly clock reject --storage sqlite://{file}", f"mayfly clock accept --storage sqlite://{file}"):
        assert way in caught.value.hint


def test_the_earlier_time_is_the_hosts(file: Path, clock: Clock) -> None:
    ahead_of_the_host(file)
    assert clock("reject").exit_code == 0
    with serve(file, port=0) as server:
        assert near(server, datetime.now(UTC))
        assert Http(port_of(server)).get("clock")["jump"] is None


def test_the_later_time_is_the_stores(file: Path, clock: Clock) -> None:
    mark = ahead_of_the_host(file)
    assert clock("accept").exit_code == 0
    for _ in range(2):
        with serve(file, port=0) as server:
            assert near(server, mark)
            shown = Http(port_of(server)).get("clock")
            assert shown["jump"] is None
            assert abs(shown["offset_seconds"] - 10 * DAY) < MINUTE
            page = Http(port_of(server))("GET", "/_explorer/").body.decode()
            assert "real clock, +" in page and "from the host" in page


@pytest.mark.parametrize("verdict", ["accept", "reject"])
def test_a_gap_after_another_boot_is_decided_before_the_start(file: Path, clock: Clock, verdict: str) -> None:
    machine = Machine()
    machine.step(-30 * DAY)
    with machine.serve(path=file) as server:
        began = server.clock.now()
    answer = clock(verdict)
    assert answer.exit_code == 0, answer.output
    with serve(file, port=0) as server:
        assert near(server, datetime.now(UTC) if verdict == "accept" else began)
        assert Http(port_of(server)).get("clock")["jump"] is None


def test_nothing_is_decided_where_nothing_differs(file: Path, clock: Clock, tmp_path: Path) -> None:
    assert "there is no file" in clock("reject").output
    with serve(file, port=0):
        assert "in use" in clock("reject").output
    for verdict in ("accept", "reject"):
        answer = clock(verdict)
        assert answer.exit_code == 1
        assert "nothing to decide" in answer.output
    assert clock("reject", "memory").exit_code == 2
