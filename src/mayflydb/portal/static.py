"""Style sheets, scripts and the sign: files of the package, found in a list that is made once, so by no path."""

from __future__ import annotations

import hashlib
from functools import cached_property
from pathlib import Path

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from mayflydb.model.errors import NotFound

DIRECTORY = Path(__file__).parent / "static"
MEDIA_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


class File(msgspec.Struct, frozen=True):
    """A static file and the hash of its content."""

    content: bytes
    kind: str
    etag: str


class Static:
    """Serves them; a browser asks again each time, and is told when it has the newest."""

    @cached_property
    def _files(self) -> dict[str, File]:
        return {path.name: _file(path) for path in DIRECTORY.iterdir() if path.suffix in MEDIA_TYPES}

    def answer(self, request: Request, name: str) -> Response:
        """The file, 304 for one that is known, or NotFound."""
        file = self._files.get(name)
        if file is None:
            raise NotFound(f"there is no {name}")
        headers = {"etag": file.etag, "cache-control": "no-cache", "x-content-type-options": "nosniff"}
        if file.etag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(file.content, headers=headers, media_type=file.kind)


def _file(path: Path) -> File:
    content = path.read_bytes()
    return File(content, MEDIA_TYPES[path.suffix], f'"{hashlib.sha256(content).hexdigest()[:16]}"')
