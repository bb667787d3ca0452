"""The parts of archives that need no server: addresses, names, lines, signatures, files on the disk."""

from __future__ import annotations

import errno
import gzip
import io
import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mayflydb.admin.archive_lines import ArchivedRecord, encode_file, encode_line
from mayflydb.admin.archive_names import LONGEST_PART, Address, encode_part, file_name, parse_url
from mayflydb.admin.archive_places import ArchiveSites, File, S3Site, check_place, read_credentials, write_file
from mayflydb.admin.aws_signature import Credentials, encode_path, sign
from mayflydb.model.errors import BadRequest

pa: Any = pytest.importorskip("pyarrow")

ADDRESSES: list[tuple[str, Address | None]] = [
    ("file:///var/cold", Address(None, "/var/cold")),
    ("file:///var/cold/", Address(None, "/var/cold")),
    ("file://localhost/var/cold", Address(None, "/var/cold")),
    ("file:///var/with%20space", Address(None, "/var/with space")),
    ("s3://records", Address("records", "")),
    ("s3://records/", Address("records", "")),
    ("s3://records/expired/2030", Address("records", "expired/2030")),
    ("file:///", None),
    ("file://elsewhere/var/cold", None),
    ("file:///var/../etc", None),
    ("file:///var/%2e%2e/etc", None),
    ("file:///var//cold", None),
    ("file:///var/a%00b", None),
    ("file:///var/%ff", None),
    ("/var/cold", None),
    ("s3://", None),
    ("s3://Records/x", None),
    ("s3://user:secret@records/x", None),
    ("s3://records/x?versionId=1", None),
    ("s3://records/x#y", None),
    ("https://records.s3.amazonaws.com/x", None),
    ("http://[::1", None),
]


@pytest.mark.parametrize(("url", "address"), ADDRESSES)
def test_addresses(url: str, address: Address | None) -> None:
    if address is None:
        with pytest.raises(BadRequest, match="no address of an archive"):
            parse_url(url)
    else:
        assert parse_url(url) == address


NAMES: list[tuple[str, str]] = [
    ("cosmos:shop/sessions", "cosmos/shop/sessions"),
    ("mongo:app.otps", "mongo/app.otps"),
    ("ydb:/local/shop/carts", "ydb/local/shop/carts"),
    ("cosmos:a%2Fb/c%3Ad", "cosmos/a%2Fb/c%3Ad"),
    ("cosmos:../.hidden", "cosmos/%2E./%2Ehidden"),
    ("cosmos:./a b", "cosmos/%2E/a%20b"),
    ("mongo:app.Ä", "mongo/app.%C3%84"),
    ("cosmos:CON/x\\y", "cosmos/CON/x%5Cy"),
]


@pytest.mark.parametrize(("target", "folder"), NAMES)
def test_names_of_files(target: str, folder: str) -> None:
    name = file_name(target, "9f2c41aa", 3, (41, 90), "jsonl.gz")
    assert name == f"{folder}/9f2c41aa-3-0000000000000041-0000000000000090.jsonl.gz"


def test_long_names_are_cut_and_stay_apart() -> None:
    names = ["a" * LONGEST_PART, "a" * (LONGEST_PART + 1), "a" * (LONGEST_PART + 2), "Ä" * 255, "Ä" * 254 + "Ö"]
    encoded = [encode_part(name) for name in names]
    assert encoded[0] == names[0]
    assert len(set(encoded)) == len(names) and max(map(len, encoded)) <= LONGEST_PART + 17


def row(**other: Any) -> ArchivedRecord:
    usual: dict[str, Any] = {
        "target": "cosmos:shop/sessions", "id": "s1", "pk": "u1", "cause": "item", "rule": 2, "lsn": 7,
        "written": 1_893_456_000_000_000, "due": 1_893_456_060_000_000, "purged_at": 1_893_456_060_500_000,
        "record": msgspec.Raw(b'{"id":"s1"}'),
    }  # fmt: skip
    return ArchivedRecord(**(usual | other))


LINES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {}),
    ({"pk": None}, {"pk": None}),
    ({"pk": ["a", 1]}, {"pk": ["a", 1]}),
    ({"due": -(1 << 70)}, {"due": None}),
    ({"due": 253_402_300_799_999_999}, {"due": "9999-12-31T23:59:59.999999Z"}),
    ({"record": msgspec.Raw(b'{\r\n "a":\n "b\\nc"}')}, {"record": {"a": "b\nc"}}),
    ({"record": msgspec.Raw('{"ä":"\u2028"}'.encode())}, {"record": {"ä": "\u2028"}}),
    (
        {"record": msgspec.Raw(b'{"n":123456789012345678901234567890}')},
        {"record": {"n": 123456789012345678901234567890}},
    ),
]
USUAL = {
    "target": "cosmos:shop/sessions", "id": "s1", "pk": "u1", "cause": "item", "rule": 2, "lsn": 7,
    "written": "2030-01-01T00:00:00Z", "due": "2030-01-01T00:01:00Z", "purged_at": "2030-01-01T00:01:00.500000Z",
    "record": {"id": "s1"},
}  # fmt: skip


@pytest.mark.parametrize(("given", "expected"), LINES)
def test_lines(given: dict[str, Any], expected: dict[str, Any]) -> None:
    line = encode_line(row(**given))
    assert (line.count(b"\n"), line[-1:]) == (1, b"\n")
    assert json.loads(line) == USUAL | expected


def test_compressed_lines_are_the_lines_and_the_same_at_each_time() -> None:
    rows = [row(lsn=n) for n in range(3)]
    packed = encode_file(rows, "jsonl.gz")
    assert gzip.decompress(packed) == encode_file(rows, "jsonl")
    assert packed == encode_file(rows, "jsonl.gz")


def read_parquet(content: bytes) -> list[dict[str, Any]]:
    from pyarrow import parquet

    found: list[dict[str, Any]] = parquet.read_table(io.BytesIO(content)).to_pylist()
    return found


def test_parquet_has_the_same_columns() -> None:
    rows: Sequence[ArchivedRecord] = [row(), row(pk=["a", 1], due=-(1 << 70)), row(pk=None)]
    content = encode_file(rows, "parquet")
    assert content == encode_file(rows, "parquet")
    first, second, third = read_parquet(content)
    expected: dict[str, Any] = {
        name: datetime.fromisoformat(str(value)) if name in ("written", "due", "purged_at") else value
        for name, value in USUAL.items()
    }
    assert first == expected | {"pk": '"u1"', "record": '{"id":"s1"}'}
    assert first["due"].tzinfo is not None and first["due"].astimezone(UTC).minute == 1
    assert (second["pk"], second["due"], third["pk"]) == ('["a",1]', None, None)


# The examples of "Authenticating requests: using the Authorization header" in the documentation of Amazon S3.
EXAMPLE = Credentials("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
HOST = "examplebucket.s3.amazonaws.com"
VECTORS: list[tuple[str, str, dict[str, str], bytes, str]] = [
    ("GET", "/test.txt", {"host": HOST, "range": "bytes=0-9"}, b"",
     "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"),
    ("PUT", encode_path("/test$file.text"),
     {"host": HOST, "date": "Fri, 24 May 2013 00:00:00 GMT", "x-amz-storage-class": "REDUCED_REDUNDANCY"},
     b"Welcome to Amazon S3.", "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path", "headers", "body", "signature"), VECTORS)
def test_signatures_are_those_of_the_documentation(
    method: str, path: str, headers: dict[str, str], body: bytes, signature: str
) -> None:
    signed = sign(method, path, headers, body, "20130524T000000Z", "us-east-1", EXAMPLE)
    assert signed["authorization"].endswith(f"Signature={signature}")


def test_a_session_token_is_signed() -> None:
    credentials = Credentials("key", "secret", "token")
    signed = sign("PUT", "/b/k", {"host": "s3"}, b"", "20130524T000000Z", "us-east-1", credentials)
    assert signed["x-amz-security-token"] == "token"
    assert "x-amz-security-token" in signed["authorization"]


def test_credentials_are_read_and_never_told(tmp_path: Path) -> None:
    file = tmp_path / "credentials"
    file.write_text("[default]\naws_access_key_id = AK%1\naws_secret_access_key = s/+=\n[other]\nx = 1\n")
    assert read_credentials(file) == Credentials("AK%1", "s/+=")
    for text in ("aws_secret_access_key = hidden", "[default]\naws_secret_access_key = hidden", "[default\nhidden"):
        file.write_text(text)
        with pytest.raises(OSError, match="has no section default") as refused:
            read_credentials(file)
        assert "hidden" not in str(refused.value)


def test_places_that_the_settings_do_not_allow(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (root / "link").symlink_to(outside)
    sites = ArchiveSites(root)
    check_place(Address(None, str(root)), sites)
    check_place(Address(None, str(root / "new" / "one")), sites)
    for path in (outside, root / "link", root / "link" / "x", Path("/"), tmp_path, Path(f"{root}x")):
        with pytest.raises(BadRequest, match="not below the directory of archives"):
            check_place(Address(None, str(path)), sites)
    with pytest.raises(BadRequest, match="no directory is set"):
        check_place(Address(None, str(root)), ArchiveSites())
    with pytest.raises(BadRequest, match="no S3 is set"):
        check_place(Address("bucket", ""), sites)
    check_place(Address("bucket", ""), ArchiveSites(None, S3Site("http://127.0.0.1:9", "r", root)))


def write(root: Path, name: str, content: bytes, **more: Any) -> None:
    write_file(Address(None, str(root / "cold")), ArchiveSites(root), File(name, content, "", "t1", **more), "")


def files_of(root: Path) -> dict[str, bytes]:
    return {str(each.relative_to(root / "cold")): each.read_bytes() for each in root.rglob("*") if each.is_file()}


def test_a_file_is_there_for_its_owner_alone_and_a_repeat_takes_its_place(tmp_path: Path) -> None:
    write(tmp_path, "a/b/f.jsonl", b"one")
    assert files_of(tmp_path) == {"a/b/f.jsonl": b"one"}
    assert (tmp_path / "cold/a/b/f.jsonl").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "cold").stat().st_mode & 0o777 == 0o700
    # What an ended process has left goes with the repeat, and nothing else.
    (tmp_path / "cold/a/b/.f.jsonl.t0").write_bytes(b"on")
    (tmp_path / "cold/a/b/.g.jsonl.t0").write_bytes(b"on")
    write(tmp_path, "a/b/f.jsonl", b"one", is_repeated=True)
    assert files_of(tmp_path) == {"a/b/f.jsonl": b"one", "a/b/.g.jsonl.t0": b"on"}


@pytest.mark.parametrize("call", ["fsync", "open"])
def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    write(tmp_path, "f.jsonl", b"before")

    def fail(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(OSError, match="No space left"):
            write(tmp_path, "f.jsonl", b"after")
    assert files_of(tmp_path) == {"f.jsonl": b"before"}
