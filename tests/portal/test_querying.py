"""What pages of queries and uploads share: leaving, places of errors, forms with files, files of records."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mayflydb.model.errors import BadQuery, BadRequest, TimedOut
from mayflydb.portal import results
from mayflydb.portal.forms import Part, _parse_parts
from mayflydb.portal.grid import Trail
from mayflydb.portal.presence import ClientLeft, run_while_present
from mayflydb.portal.uploads import read_records


class Left:
    """A request whose client has left, or never leaves. Its body was not read."""

    def __init__(self, *, left: bool) -> None:
        self._left = left
        self._body = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive(self) -> dict[str, Any]:
        if self._body:
            return self._body.pop()
        if not self._left:
            await asyncio.Event().wait()
        return {"type": "http.disconnect"}


@pytest.mark.parametrize(("left", "seconds", "error"), [(True, 60, ClientLeft), (False, 0, TimedOut)])
def test_a_query_ends_with_its_client_and_its_time(left: bool, seconds: float, error: type[Exception]) -> None:
    ended = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    async def run() -> None:
        request: Any = Left(left=left)
        with pytest.raises(error):
            await run_while_present(request, work(), seconds, "The query")
        await asyncio.sleep(0)

    asyncio.run(run())
    assert ended == [True]


def test_the_place_of_an_error_in_a_selection() -> None:
    text = "a\nSELECT = 1"
    fault = results.locate(BadQuery("no", code="SC1001", start=7, end=8), "SELECT = 1", text, 2)
    assert (fault.location, fault.code, text[fault.start : fault.end]) == ("line 2, column 8", "SC1001", "=")


def test_a_form_with_a_file() -> None:
    body = (
        b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n2\r\n'
        b'--x\r\nContent-Disposition: form-data; name="f"; filename="b.csv"\r\n\r\n\xef\xbb\xbfid\n1\r\n--x--\r\n'
    )
    assert _parse_parts(body, "multipart/form-data; boundary=x") == [Part("a", "1\r\n2"), Part("f", "id\n1", "b.csv")]
    for wrong in (body[:-6], b"", b"--x\r\n\r\n\r\n--x--"):
        with pytest.raises(BadRequest):
            _parse_parts(wrong, "multipart/form-data; boundary=x")


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        ('[{"a":1},{"a":2}]', "", [{"a": 1}, {"a": 2}]),
        ('{"a":1}\n\n{"a":2}\n', "", [{"a": 1}, {"a": 2}]),
        ('{\n"a": 1\n}', "x.json", [{"a": 1}]),
        ('id,ttl,n\n007,60,\n"a,b",,true\n', "x.CSV", [{"id": "007", "ttl": 60}, {"id": "a,b", "n": True}]),
    ],
)
def test_files_of_records(text: str, name: str, expected: list[dict[str, Any]]) -> None:
    assert [record.value for record in read_records(text, name)] == expected


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("", "", "nothing to upload"),
        ('{"a":1}\n{"a"', "", "Line 2"),
        ("[1]", "", "Record 1"),
        ("a,a\n1,2", "x.csv", "once"),
    ],
)
def test_files_that_are_refused(text: str, name: str, message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        read_records(text, name)


def test_the_way_back_over_pages() -> None:
    paging = Trail(("b", "c"), 3).paging("/x", {"filter": "f"}, "d")
    assert paging.back == "/x?filter=f&at=b&page=2" and paging.first == "/x?filter=f"
    assert paging.forward == "/x?filter=f&at=b&at=c&at=d&page=4"
    # Where the trail has been cut, no way back is offered that would skip pages.
    assert Trail(("c",), 3).paging("/x", {}, None).back == ""
