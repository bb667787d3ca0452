"""Snapshots as files, by the page's link and form."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from mayflydb.embedded import RunningServer
from mayflydb.model.errors import BadRequest
from mayflydb.portal.file_forms import MAX_FIELDS, FileForm
from served import Http, port_of

in_memory = pytest.mark.parametrize("store", ["memory"], indirect=True, scope="session")
KIND = "multipart/form-data; boundary=b-1"
PAGE = "/_explorer/snapshots"


def form(name: str, file: str, content: bytes, end: bytes = b"\r\n--b-1--\r\n") -> bytes:
    head = f'--b-1\r\nContent-Disposition: form-data; name="name"\r\n\r\n{name}\r\n--b-1\r\n'
    head += f'Content-Disposition: form-data; name="file"; filename="{file}"\r\nContent-Type: application/octet-stream\r\n\r\n'
    return head.encode() + content + end


def read(sent: bytes, size: int, kind: str = KIND) -> tuple[dict[str, str], bytes]:
    async def parts() -> AsyncIterator[bytes]:
        for first in range(0, len(sent), size):
            yield sent[first : first + size]

    async def work() -> tuple[dict[str, str], bytes]:
        found = FileForm(parts(), kind)
        return await found.read_fields(), b"".join([part async for part in found.read_file()])

    return asyncio.run(work())


@pytest.mark.parametrize("content", [b"", b"x", b"\r\n--b-", b"\r\n--b-0\r\n" * 9, bytes(range(256))])
def test_a_form_is_read_in_parts_of_any_size(content: bytes) -> None:
    for size in (1, 2, 3, 5, 7, 64, 10_000):
        assert read(form("n", "f", content), size) == ({"name": "n", "filename": "f"}, content)


def test_forms_that_cannot_be_read() -> None:
    whole = form("n", "f", b"content")
    for sent, kind in (
        (whole[:-20], KIND),
        (whole[:50], KIND),
        (b"", KIND),
        (b"x" + whole, KIND),
        (whole, "text/plain"),
        (whole, "multipart/form-data"),
        (form("n" * 2 * MAX_FIELDS, "f", b""), KIND),
        (b"--b-1\r\n\r\n\r\n--b-1--", KIND),
    ):
        with pytest.raises(BadRequest):
            read(sent, 10, kind)


@in_memory
def test_a_snapshot_is_downloaded_and_uploaded(server: RunningServer) -> None:
    http = Http(port_of(server))
    for row in http.get("snapshots")["snapshots"]:
        http("DELETE", f"/_mayfly/snapshots/{row['name']}")
    http("PUT", "/_mayfly/snapshots/monday")
    assert f'href="{PAGE}/monday.snapshot"' in http("GET", PAGE).body.decode()
    sent = http("GET", f"{PAGE}/monday.snapshot")
    assert (sent.status, sent.headers["content-disposition"]) == (200, 'attachment; filename="monday.snapshot"')
    assert http("GET", f"{PAGE}/nosuch.snapshot").status == 404
    for name, file, there in (("tuesday", "x", "tuesday"), ("", "wednesday.snapshot", "wednesday")):
        answer = http("POST", f"{PAGE}/upload", form(name, file, sent.body), content_type=KIND)
        assert (answer.status, answer.headers["location"]) == (303, PAGE)
        assert there in [row["name"] for row in http.get("snapshots")["snapshots"]]
    for name, content, status, said in (
        ("monday", sent.body, 409, "There is a snapshot monday"),
        ("../x", sent.body, 400, "is no name of a snapshot"),
        ("broken", sent.body[:10_000], 400, "snapshot"),
        ("broken", b"x" * 200_000, 400, "no snapshot"),
    ):
        answer = http("POST", f"{PAGE}/upload", form(name, "f", content), content_type=KIND)
        assert (answer.status, said in answer.body.decode()) == (status, True)
    names = [row["name"] for row in http.get("snapshots")["snapshots"]]
    assert names == ["monday", "tuesday", "wednesday"]
    for name in names:
        http("DELETE", f"/_mayfly/snapshots/{name}")
