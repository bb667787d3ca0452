"""A host's clock that disagrees with the store: refused starts, both ways out, and the portal, on the host's own clock."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from azure.cosmos import PartitionKey
from click.testing import CliRunner, Result

from mayflydb.announcement import StartFailed
from mayflydb.cli.main import mayfly
from mayflydb.embedded import RunningServer, serve
from mayflydb.engine.clock_moves import read_move
from mayflydb.model.errors import Conflict
from mayflydb.model.hints import Hint
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


YEAR = timedelta(days=365)


def moved_by_a_year(file: Path) -> None:
    """Make a store with an item, whose real clock was advanced by a year, and with an item of that time."""
    with serve(file, port=0) as server, server.cosmos.client() as client:
        items = client.create_database("shop").create_container("items", PartitionKey("/id"))
        items.create_item({"id": "before"})
        server.clock.advance(YEAR)
        items.create_item({"id": "after"})
        with pytest.raises(Conflict) as refused:
            server._controls.ask("POST", "clock/reset")
        hint = refused.value.detail["hint"]
        assert hint == Hint("clock-newer-than-host", {"storage": f"sqlite://{file}"})


def ids(server: RunningServer) -> set[str]:
    with server.cosmos.client() as client:
        items = client.get_database_client("shop").get_container_client("items")
        return {item["id"] for item in items.read_all_items()}


def test_a_store_whose_clock_was_moved_says_so_and_names_the_commands(file: Path) -> None:
    moved_by_a_year(file)
    with pytest.raises(StartFailed) as caught, serve(file, port=0):
        pass
    message, ways = caught.value.message, caught.value.hint.split("\n")
    assert "its clock was moved by `mayfly clock advance` to " in message
    today = datetime.now(UTC)
    found = [datetime.fromisoformat(time) for time in re.findall(r"\d{4}-\d\d-\d\dT[\d:.]+(?:Z|\+00:00)", message)]
    for time, expected in zip(found, (today + YEAR, today, today + YEAR, today), strict=True):
        assert abs(time - expected) < timedelta(minutes=2)
    assert [way.partition(" ")[0] for way in ways] == ["mayfly", "while", "mayfly", "mayfly", "another"]
    storage = f"--storage sqlite://{file}"
    assert f"mayfly serve {storage} --clock virtual" in ways[0]
    assert "mayfly snapshot restore before-advance" in ways[1]
    assert (f"mayfly clock reject {storage}" in ways[2], f"mayfly clock accept {storage}" in ways[3]) == (True, True)


def test_it_goes_on_from_there_on_a_virtual_clock(file: Path) -> None:
    moved_by_a_year(file)
    with serve(file, port=0, clock="virtual") as server:
        assert near(server, datetime.now(UTC) + YEAR) and ids(server) == {"before", "after"}


def test_its_snapshot_goes_back_to_the_state_before(file: Path) -> None:
    moved_by_a_year(file)
    with serve(file, port=0, clock="virtual") as server:
        server.restore("before-advance")
    with serve(file, port=0) as server:
        assert near(server, datetime.now(UTC)) and ids(server) == {"before"}


def test_a_rejected_move_keeps_everything_and_is_forgotten(file: Path, clock: Clock) -> None:
    moved_by_a_year(file)
    assert clock("reject").exit_code == 0
    with serve(file, port=0) as server:
        assert near(server, datetime.now(UTC)) and ids(server) == {"before", "after"}
        assert server._home.call(read_move(server._admin.engine.store)) is None


def test_a_virtual_start_ahead_is_named(file: Path) -> None:
    ahead_of_the_host(file)
    with pytest.raises(StartFailed, match="its virtual clock was started at ") as caught, serve(file, port=0):
        pass
    assert "snapshot" not in caught.value.hint


def test_a_clock_that_follows_the_host_again_was_not_moved(file: Path) -> None:
    with serve(file, port=0) as server:
        server.clock.advance(YEAR)
        server._controls.ask("POST", "clock/reset")
    with serve(file, port=0) as server:
        assert server._home.call(read_move(server._admin.engine.store)) is None


@pytest.mark.parametrize("back", ["reset", "set"])
def test_a_clock_that_was_set_back_is_there_at_the_next_start(file: Path, back: str) -> None:
    with serve(file, port=0) as server:
        server.clock.freeze()
        server.clock.advance(YEAR)
        if back == "reset":
            server.reset()
            server._controls.ask("POST", "clock/reset")
        else:
            server.clock.set(datetime.now(UTC), force=True)
    with serve(file, port=0) as server:
        assert near(server, datetime.now(UTC))
