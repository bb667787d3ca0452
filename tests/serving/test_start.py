"""What keeps a server from starting, in process: each refusal names the setting and a way out."""

from __future__ import annotations

import asyncio
import base64
import socket
import stat
from pathlib import Path
from typing import Any

import pytest

from mayflydb.announcement import StartFailed
from mayflydb.clock import VirtualClock
from mayflydb.embedded import serve
from mayflydb.engine.open import open_engine
from mayflydb.engine.selftest import prove
from mayflydb.model.errors import Unavailable
from mayflydb.model.instant import from_rfc3339
from mayflydb.store.interface import ChildRows, Decision, DroppedContainers, Outcome
from mayflydb.store.sqlite import SqliteStore
from served import START, Http, port_of

PATIENCE = 20.0


def failure(*arguments: Any, **settings: Any) -> StartFailed:
    with pytest.raises(StartFailed) as caught, serve(*arguments, **({"port": 0} | settings)):
        pass
    return caught.value


def test_a_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        failed = failure(memory=True, port=taken.getsockname()[1])
    assert (failed.setting, failed.exit_code) == ("server.port", 1)
    assert "-p 0" in failed.hint


def test_an_address_of_another_machine(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text(base64.b64encode(b"k" * 64).decode())
    assert failure(memory=True, host="192.0.2.1", key_file=str(key), insecure=True).setting == "server.host"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_other_machines_need_a_key(host: str) -> None:
    failed = failure(memory=True, host=host)
    assert (failed.setting, failed.exit_code) == ("server.host", 4)
    assert "--generate-key" in failed.hint


@pytest.mark.parametrize("content", ["", "not base64", "YWJj\nYWJj"])
def test_a_key_file_without_a_key(tmp_path: Path, content: str) -> None:
    place = tmp_path / "key"
    place.write_text(content)
    failed = failure(memory=True, key_file=str(place))
    assert (failed.setting, failed.exit_code) == ("cosmos.key_file", 2)
    assert failure(memory=True, key_file=str(tmp_path / "missing")).exit_code == 2


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    assert failure(tmp_path / "missing" / "mayfly.db").setting == "storage.url"


def test_a_file_that_is_no_store(file: Path) -> None:
    file.write_bytes(b"something else entirely\n" * 100)
    assert failure(file).setting == "storage.url"


def test_a_file_in_use(file: Path) -> None:
    with serve(file, port=0):
        assert "in use" in failure(file).message


def test_a_file_from_the_future_wants_a_virtual_clock(file: Path) -> None:
    with serve(file, port=0, clock="virtual", clock_start="2999-01-01T00:00:00Z") as server:
        server.clock.advance(hours=1)
    failed = failure(file)
    assert (failed.setting, failed.exit_code) == ("clock.mode", 4)
    assert "2999-01-01T01:00:00Z" in failed.message
    assert "--clock virtual" in failed.hint
    assert "another file" in failed.hint
    with serve(file, port=0, clock="virtual") as server:
        assert server.clock.now().isoformat() == "2999-01-01T01:00:00+00:00"


def test_a_virtual_clock_does_not_start_before_what_the_file_has_seen(file: Path) -> None:
    with serve(file, port=0, clock="virtual", clock_start=START) as server:
        server.clock.advance(hours=1)
    failed = failure(file, clock="virtual", clock_start=START)
    assert (failed.setting, failed.exit_code) == ("clock.start", 4)
    with serve(file, port=0, clock="virtual", clock_start="2030-01-01T01:00:00Z"):
        pass


def test_a_generated_key_is_kept_and_private(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    place = tmp_path / "mayfly" / "cosmos.key"
    keys = []
    for _ in range(2):
        with serve(memory=True, port=0, generate_key=True) as server:
            assert server.announcement.key_path == str(place)
            keys.append(server.cosmos.key)
            assert list(server.cosmos.client().list_databases()) == []
    assert keys == [place.read_text().strip()] * 2
    assert len(base64.b64decode(keys[0])) == 64
    assert stat.S_IMODE(place.stat().st_mode) == 0o600


def test_off_loopback_the_admin_api_asks_for_a_token(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    with serve(memory=True, port=0, host="0.0.0.0", generate_key=True, insecure=True) as server:
        assert server.announcement.admin == f"http://127.0.0.1:{port_of(server)}/_mayfly"
        http = Http(port_of(server))
        place = tmp_path / "mayfly" / "admin.token"
        assert stat.S_IMODE(place.stat().st_mode) == 0o600
        assert http("GET", "/_mayfly/info").status == 401
        answer = http("GET", "/_mayfly/info", Authorization=f"Bearer {place.read_text().strip()}")
        assert (answer.status, answer.json["allow_time_travel"]) == (200, False)
        assert http.get("ready")["ready"]


def test_with_the_scheme_https_everything_printed_is_https() -> None:
    with serve(memory=True, port=0, scheme="https") as server:
        told = server.announcement
        assert told.cosmos_endpoint == f"https://127.0.0.1:{port_of(server)}/"
        assert all(url is not None and url.startswith("https:") for url in (told.admin, told.metrics, told.portal))
        assert told.ca_path == str(server.cosmos.ca_file)
        assert Http(port_of(server)).get("info")["cosmos"]["endpoint"] == told.cosmos_endpoint


@pytest.mark.parametrize("name", ["log_level", "ready_file", "ports", "mongo"])
def test_keywords_that_would_do_nothing_are_refused(name: str) -> None:
    with pytest.raises(TypeError, match=name), serve(memory=True, port=0, **{name: "x"}):
        pass


def test_the_name_of_a_memory_database_is_no_path() -> None:
    with pytest.raises(TypeError, match="memory=True"), serve(":memory:", port=0):
        pass


def test_one_storage(file: Path) -> None:
    with pytest.raises(TypeError, match="one of"), serve(file, memory=True, port=0):
        pass


def test_a_url_is_no_path() -> None:
    with pytest.raises(TypeError, match="storage=") as caught, serve("postgresql://u:secret@127.0.0.1/x", port=0):
        pass
    assert "secret" not in str(caught.value)


# --- the self-test -------------------------------------------------------------------------------------------------------


def prove_it(file: Path, monkeypatch: pytest.MonkeyPatch, sabotage: str | None) -> None:
    async def main() -> None:
        store = await SqliteStore.open(str(file))
        engine = await open_engine(store, VirtualClock(from_rfc3339(START)))
        if sabotage == "purge":

            def purge_nothing(*_: Any, **__: Any) -> Decision[None]:
                return Outcome((), None)
                yield

            monkeypatch.setattr("mayflydb.engine.selftest.purge_due", purge_nothing)
        elif sabotage == "read":
            get = engine.get

            async def late(container: Any, partition: bytes, key: bytes, now: int) -> Any:
                return await get(container, partition, key, 0)

            monkeypatch.setattr(engine, "get", late)
        try:
            await prove(engine)
        finally:
            left = (await store.read(ChildRows(0)), await store.read(DroppedContainers()))
            await store.close()
            assert left[0] == []
            assert sabotage is not None or left[1] == []

    asyncio.run(main())


def test_the_self_test_leaves_nothing_behind(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prove_it(file, monkeypatch, None)


@pytest.mark.parametrize(("sabotage", "step"), [("purge", "not purged"), ("read", "could be read")])
def test_the_self_test_notices(file: Path, monkeypatch: pytest.MonkeyPatch, sabotage: str, step: str) -> None:
    with pytest.raises(Unavailable, match=step):
        prove_it(file, monkeypatch, sabotage)


def test_a_reaper_that_was_woken_just_now_can_be_stopped() -> None:
    async def main() -> None:
        store = await SqliteStore.open(None)
        engine = await open_engine(store, VirtualClock(from_rfc3339(START)))
        reaping = asyncio.create_task(engine.reaper.run())
        for _ in range(20):
            await asyncio.sleep(0)
        engine.reaper.wake()
        reaping.cancel()
        done, _ = await asyncio.wait([reaping], timeout=PATIENCE)
        assert done
        assert reaping.cancelled()
        await store.close()

    asyncio.run(main())
