"""A server on PostgreSQL: what it shows of the address, who may move its clock, what keeps it from starting."""

from __future__ import annotations

import re
import socket
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from mayflydb.announcement import StartFailed
from mayflydb.cli.announce import banner, ready_document
from mayflydb.embedded import RunningServer, serve
from postgres_cluster import PASSWORD, Cluster
from served import START, Http, port_of

TRAVEL: dict[str, Any] = {"port": 0, "allow_time_travel": True}
VIRTUAL = TRAVEL | {"clock": "virtual", "clock_start": START}

MOVES: list[tuple[str, dict[str, Any]]] = [
    ("clock/advance", {"seconds": 1}),
    ("clock/set", {"to": "2999-01-01T00:00:00Z"}),
    ("clock/freeze", {}),
]


@pytest.fixture(scope="module")
def real(postgres: Cluster) -> Iterator[RunningServer]:
    """As people start it: on the real clock, with no word about time travel."""
    with serve(storage=postgres.fresh(), port=0) as server:
        yield server


def failure(url: str, **settings: Any) -> StartFailed:
    with pytest.raises(StartFailed) as caught, serve(storage=url, **({"port": 0} | settings)):
        pass
    return caught.value


def test_what_is_stored_is_there_after_a_restart(postgres: Cluster) -> None:
    url = postgres.fresh()
    with serve(storage=url, port=0) as server:
        server.cosmos.client().create_database("shop")
    with serve(storage=url, port=0) as server:
        assert [each["id"] for each in server.cosmos.client().list_databases()] == ["shop"]


def test_the_password_is_shown_nowhere(real: RunningServer, capfd: pytest.CaptureFixture[str]) -> None:
    http = Http(port_of(real))
    told = real.announcement
    assert re.fullmatch(r"postgresql://127\.0\.0\.1:\d+/d\d+", told.storage)
    assert told.storage == http.get("info")["storage"]
    everything = [banner(told), ready_document(told), *capfd.readouterr()]
    everything += [http("GET", path).body.decode() for path in ("/_mayfly/info", "/_mayfly/ready", "/metrics", "/")]
    assert not [text for text in everything if PASSWORD in text]


def test_its_sizes_are_measured(real: RunningServer) -> None:
    text = Http(port_of(real))("GET", "/metrics").body.decode()
    sizes = dict(re.findall(r'^mayfly_storage_bytes{kind="(\w+)"} (\d+)$', text, re.MULTILINE))
    assert set(sizes) == {"tables", "indexes", "other"} and all(int(size) > 10_000 for size in sizes.values())


# Written as libpq has them; DIRECTORY is that of the unix socket.
FORMS = [
    ("/{name}?host={directory}&port={port}", r"postgresql:///{name}\?host={directory}&port={port}"),
    ("{quoted}:{port}/{name}", r"postgresql:///{name}\?host={directory}&port={port}"),
    (
        "/?dbname={name}&host={directory}&port={port}&sslmode=require",
        r"postgresql:///{name}\?host={directory}&port={port}",
    ),
    ("127.0.0.1:{port}/{name}?sslmode=disable", "postgresql://127.0.0.1:{port}/{name}"),
    ("127.0.0.1:{port}/{name}?sslmode=prefer&target_session_attrs=primary", "postgresql://127.0.0.1:{port}/{name}"),
    ("127.0.0.1:1,127.0.0.1:{port}/{name}", "postgresql://127.0.0.1:1,127.0.0.1:{port}/{name}"),
    (
        "/{name}?host=/nowhere,localhost&port={port}",
        r"postgresql:///{name}\?host=/nowhere,localhost&port={port},{port}",
    ),
]


@pytest.mark.parametrize(("form", "shown"), FORMS)
def test_forms_of_libpq(
    form: str, shown: str, postgres: Cluster, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPORT", "1")
    directory = str(postgres.directory)
    place = {"port": str(postgres.port), "name": postgres.fresh().rpartition("/")[2], "directory": directory}
    written = form.format(**place, quoted=directory.replace("/", "%2F"))
    with serve(storage=f"postgresql://mayfly:{PASSWORD}@{written}", port=0) as server:
        http = Http(port_of(server))
        server.cosmos.client().create_database("shop")
        assert re.fullmatch(shown.format(**place), server.announcement.storage)
        told = [ready_document(server.announcement), http("GET", "/_mayfly/info").body.decode(), *capfd.readouterr()]
    assert not [text for text in told if PASSWORD in text]


def test_a_server_without_tls_where_it_is_required(postgres: Cluster) -> None:
    failed = failure(f"{postgres.fresh()}?sslmode=require")
    assert (failed.setting, failed.exit_code) == ("storage.url", 1)
    assert "SSL" in failed.message and PASSWORD not in failed.message + failed.hint


def test_it_says_where_its_data_is(real: RunningServer) -> None:
    http = Http(port_of(real))
    assert "keeps its data in PostgreSQL" in http("GET", "/").body.decode()
    assert 'storage="postgresql"' in http("GET", "/metrics").body.decode()


@pytest.mark.parametrize(("path", "body"), [*MOVES, ("clock/resume", {}), ("clock/reset", {}), ("reset", {})])
def test_time_travel_and_reset_are_refused_unless_allowed_by_name(
    real: RunningServer, path: str, body: dict[str, Any]
) -> None:
    answer = Http(port_of(real))("POST", f"/_mayfly/{path}", body)
    assert answer.status == 403
    assert "--allow-time-travel" in answer.json["hint"]


def test_a_real_clock_is_never_moved(postgres: Cluster) -> None:
    with serve(storage=postgres.fresh(), **TRAVEL) as server:
        http = Http(port_of(server))
        for path, body in MOVES:
            answer = http("POST", f"/_mayfly/{path}", body)
            assert (answer.status, answer.json["hint"]) == (
                403,
                "for tests, serve with --clock virtual --allow-time-travel",
            )
        assert http.get("clock")["mode"] == "real"
        assert http.post("reset")["databases"] == 0


def test_a_virtual_clock_that_was_asked_for_moves(postgres: Cluster) -> None:
    with serve(storage=postgres.fresh(), **VIRTUAL) as server:
        http = Http(port_of(server))
        assert http.post("clock/advance", by="1h")["now"] == "2030-01-01T01:00:00Z"
        assert http.post("reset")["now"] == START


def test_a_database_from_the_future_wants_a_virtual_clock(postgres: Cluster) -> None:
    url = postgres.fresh()
    with serve(storage=url, **(VIRTUAL | {"clock_start": "2999-01-01T00:00:00Z"})):
        pass
    failed = failure(url)
    assert (failed.setting, failed.exit_code) == ("clock.mode", 4)
    assert "another database" in failed.hint
    assert PASSWORD not in failed.message


@pytest.mark.parametrize(("old", "new"), [(PASSWORD, "wrong-" + PASSWORD), ("/d", "/missing"), ("mayfly:", "nobody:")])
def test_what_the_database_refuses(postgres: Cluster, old: str, new: str) -> None:
    failed = failure(postgres.fresh().replace(old, new))
    assert (failed.setting, failed.exit_code) == ("storage.url", 1)
    assert failed.message
    assert PASSWORD not in failed.message + failed.hint


def test_nobody_listens() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        failed = failure(f"postgresql://mayfly:{PASSWORD}@127.0.0.1:{silent.getsockname()[1]}/d")
    assert (failed.setting, failed.exit_code) == ("storage.url", 1)
    assert PASSWORD not in failed.message + failed.hint


def test_without_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith(("mayflydb.store.postgres", "asyncpg"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    failed = failure("postgresql://127.0.0.1:1/d")
    assert (failed.setting, failed.hint) == ("storage.url", 'pip install "mayflydb[postgres]"')
