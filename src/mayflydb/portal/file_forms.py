"""Forms with one file that may be large: its bytes are handed on as they come."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Final

from mayflydb.model.errors import BadRequest
from mayflydb.portal.forms import read_parameters

MAX_FIELDS: Final = 16 * 1024
"""Bytes before the file: the other fields, which come first, and the head of the file."""


class FileForm:
    """A form (multipart/form-data) whose last field is a file. `read_fields` first, then `read_file`."""

    def __init__(self, parts: AsyncIterator[bytes], content_type: str) -> None:
        """BadRequest for a form of another kind."""
        kind, _, rest = content_type.partition(";")
        boundary = rest.partition("boundary=")[2].strip().strip('"')
        if kind.strip().lower() != "multipart/form-data" or not boundary:
            raise BadRequest("The form has no file.")
        self._parts = parts
        self._mark = b"\r\n--" + boundary.encode("latin-1")
        # The first boundary has no line before it.
        self._rest = b"\r\n"

    async def read_fields(self) -> dict[str, str]:
        """Return the fields before the file, and the file's name as `filename`. BadRequest if no file comes."""
        fields: dict[str, str] = {}
        if await self._read_to(self._mark):
            raise BadRequest("The form cannot be read.")
        while True:
            given = read_parameters(await self._read_to(b"\r\n\r\n"))
            if "name" not in given:
                raise BadRequest("The form has no file.")
            if "filename" in given:
                return fields | {"filename": given["filename"]}
            fields[given["name"]] = (await self._read_to(self._mark)).decode("utf-8", "replace")

    async def read_file(self) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of the file. BadRequest if the form ends before its file."""
        mark = self._mark
        while True:
            place = self._rest.find(mark)
            if place >= 0:
                if place:
                    yield self._rest[:place]
                return
            # The last bytes may be the beginning of the mark.
            ready = len(self._rest) - len(mark) + 1
            if ready > 0:
                part, self._rest = self._rest[:ready], self._rest[ready:]
                yield part
            self._rest += await self._next()

    async def _read_to(self, mark: bytes) -> bytes:
        while (place := self._rest.find(mark)) < 0:
            if len(self._rest) > MAX_FIELDS:
                raise BadRequest("The form has too much before its file.")
            self._rest += await self._next()
        found, self._rest = self._rest[:place], self._rest[place + len(mark) :]
        return found

    async def _next(self) -> bytes:
        async for part in self._parts:
            if part:
                return part
        raise BadRequest("The form ended before its file was complete.")
