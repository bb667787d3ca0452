"""What a ready server says, to whom, and where."""

from __future__ import annotations

import io
import json
import stat
from pathlib import Path
from typing import Any

import pytest

from mayflydb.announcement import Announcement, StartFailed
from mayflydb.cli.announce import Announcer, banner, ready_document

HERE: dict[str, Any] = {
    "pid": 4711,
    "cosmos_endpoint": "http://127.0.0.1:8081/",
    "cosmos_key": "c2VjcmV0",
    "portal": "http://127.0.0.1:8081/",
    "admin": "http://127.0.0.1:8081/_mayfly",
    "metrics": "http://127.0.0.1:8081/metrics",
    "storage": "memory",
    "clock": "virtual",
    "version": "0.1.0",
    "seconds_to_ready": 0.61,
}


def announcement(**changes: Any) -> Announcement:
    return Announcement(**(HERE | changes))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_ready_document_has_these_keys_and_no_others() -> None:
    assert json.loads(ready_document(announcement())) == {
        "event": "ready",
        "pid": 4711,
        "cosmos": {"endpoint": "http://127.0.0.1:8081/", "key": "c2VjcmV0", "key_file": None},
        "mongo": None,
        "ydb": None,
        "portal": "http://127.0.0.1:8081/",
        "admin": "http://127.0.0.1:8081/_mayfly",
        "metrics": "http://127.0.0.1:8081/metrics",
        "storage": "memory",
        "clock": "virtual",
    }


@pytest.mark.parametrize(
    ("plain", "tls"),
    [
        ("grpc://127.0.0.1:2136", "grpcs://127.0.0.1:2135"),
        ("grpc://127.0.0.1:2136", None),
        ("grpcs://127.0.0.1:2135", "grpcs://127.0.0.1:2135"),
    ],
)
def test_the_ready_document_names_ydb_with_and_without_tls(plain: str, tls: str | None) -> None:
    document = json.loads(ready_document(announcement(ydb_endpoint=plain, ydb_tls_endpoint=tls, ydb_database="/local")))
    assert document["ydb"] == {
        "endpoint": plain,
        "tls_endpoint": tls,
        "database": "/local",
        "connection_string": f"{plain}?database=/local",
        "tls_connection_string": tls and f"{tls}?database=/local",
        "password_file": None,
    }


def test_what_is_off_is_null() -> None:
    off = announcement(cosmos_endpoint=None, cosmos_key=None, portal=None, admin=None, metrics=None)
    document = json.loads(ready_document(off))
    assert [document[name] for name in ("cosmos", "portal", "admin", "metrics")] == [None] * 4


def test_a_program_gets_one_line() -> None:
    out = io.StringIO()
    Announcer(None, out)(announcement())
    assert out.getvalue() == ready_document(announcement()) + "\n"
    assert out.getvalue().count("\n") == 1


def test_a_person_gets_the_banner() -> None:
    out = Terminal()
    Announcer(None, out)(announcement())
    lines = out.getvalue().splitlines()
    assert lines[0] == "Mayfly 0.1.0   memory   clock: virtual   ready in 0.6 s"
    assert "  Cosmos   AccountEndpoint=https://localhost:8081/;AccountKey=c2VjcmV0;" in lines
    assert "           well-known emulator key; http://localhost:8081/ is the same port" in lines
    assert "  Ready    http://localhost:8081/_mayfly/ready" in lines
    assert not any(line.startswith("  CA ") for line in lines)


def test_the_banner_of_one_scheme() -> None:
    lines = banner(announcement(cosmos_endpoint="https://db.test/", either_scheme=False)).splitlines()
    assert "  Cosmos   AccountEndpoint=https://db.test/;AccountKey=c2VjcmV0;" in lines
    assert "           well-known emulator key" in lines
    assert "  Ready    http://localhost:8081/_mayfly/ready" in lines


@pytest.mark.parametrize(
    ("storage", "shown"),
    [
        ("memory", "memory"),
        ("sqlite:////data/mayfly.db", "sqlite:////data/mayfly.db (sqlite)"),
        ("postgresql://db.test:5432/shop", "postgresql://db.test:5432/shop (postgresql)"),
    ],
)
def test_the_banner_says_what_kind_of_storage_it_is(storage: str, shown: str) -> None:
    assert banner(announcement(storage=storage)).splitlines()[0].split("   ")[1] == shown


def test_the_banner_keeps_an_own_key_to_itself() -> None:
    text = banner(announcement(key_path="/keys/account.key", ca_path="/keys/ca.pem"))
    assert "c2VjcmV0" not in text
    assert "key in /keys/account.key" in text
    assert "  CA       /keys/ca.pem" in text


def test_the_ready_file_appears_whole_and_goes_with_the_server(tmp_path: Path) -> None:
    place = tmp_path / "ready.json"
    announcer = Announcer(place, io.StringIO())
    announcer(announcement())
    assert place.read_text(encoding="utf-8") == ready_document(announcement()) + "\n"
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [place]
    announcer.withdraw()
    assert list(tmp_path.iterdir()) == []


def test_an_old_ready_file_is_removed_at_the_start(tmp_path: Path) -> None:
    place = tmp_path / "ready.json"
    place.write_text("old", encoding="utf-8")
    Announcer(place, io.StringIO()).prepare()
    assert not place.exists()


def test_the_ready_file_of_a_later_server_stays(tmp_path: Path) -> None:
    place = tmp_path / "ready.json"
    first = Announcer(place, io.StringIO())
    first(announcement())
    Announcer(place, io.StringIO())(announcement(pid=4712))
    first.withdraw()
    assert json.loads(place.read_text(encoding="utf-8"))["pid"] == 4712


@pytest.mark.parametrize("left", ["", "[]", "{}", None])
def test_withdrawing_from_a_place_that_somebody_else_changed(tmp_path: Path, left: str | None) -> None:
    place = tmp_path / "ready.json"
    announcer = Announcer(place, io.StringIO())
    announcer(announcement())
    place.unlink()
    if left is not None:
        place.write_text(left, encoding="utf-8")
    announcer.withdraw()
    assert place.exists() == (left is not None)


def test_a_place_that_cannot_be_used_is_found_before_the_start(tmp_path: Path) -> None:
    with pytest.raises(StartFailed, match="is not a directory") as failed:
        Announcer(tmp_path / "absent" / "ready.json", io.StringIO()).prepare()
    assert failed.value.setting == "server.ready_file"
    with pytest.raises(StartFailed, match="cannot be written"):
        Announcer(tmp_path, io.StringIO()).prepare()


def test_mongodb_is_shown_without_its_password() -> None:
    plain = "mongodb://127.0.0.1:27017/?directConnection=true"
    assert json.loads(ready_document(announcement(mongo_uri=plain)))["mongo"] == {"uri": plain, "password_file": None}
    assert (
        "  Mongo    mongodb://localhost:27017/?directConnection=true"
        in banner(announcement(mongo_uri=plain)).splitlines()
    )
    guarded = announcement(
        mongo_uri="mongodb://admin:s3cret@127.0.0.1:27017/?authSource=admin", mongo_password_path="/p"
    )
    lines = banner(guarded).splitlines()
    assert "  Mongo    mongodb://admin@localhost:27017/?authSource=admin" in lines
    assert "           password in /p" in lines
    shown = {"uri": "mongodb://admin@127.0.0.1:27017/?authSource=admin", "password_file": "/p"}
    assert json.loads(ready_document(guarded))["mongo"] == shown
    assert "s3cret" not in repr(guarded)


def test_the_ready_document_names_the_file_of_a_key() -> None:
    own = announcement(key_path="/keys/account.key")
    shown = {"endpoint": "http://127.0.0.1:8081/", "key": None, "key_file": "/keys/account.key"}
    assert json.loads(ready_document(own))["cosmos"] == shown
    assert "c2VjcmV0" not in repr(own)


def test_the_banner_names_ydbs_ports() -> None:
    given = announcement(
        ydb_endpoint="grpc://127.0.0.1:2136",
        ydb_database="/local",
        ydb_tls_endpoint="grpcs://127.0.0.1:2135",
        ydb_password_path="/p/ydb.password",
    )
    lines = [line.split() for line in banner(given).splitlines()]
    ends = ["(TLS:", "grpcs://localhost:2135)"]
    assert ["YDB", "grpc://localhost:2136", "database", "/local", *ends] in lines
    assert ["password", "in", "/p/ydb.password"] in lines
