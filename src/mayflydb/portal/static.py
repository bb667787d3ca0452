"""Serves style sheets, scripts and the icon. Names are looked up in a fixed list, so no request can name another file.

What stands in `vendor/` is bundled from npm packages by `tools/web.sh`. Where that was not possible, it is not found, and
pages do without it.
"""

from __future__ import annotations

import hashlib
from functools import cached_property
from pathlib import Path

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from mayflydb.model.errors import NotFound

DIRECTORY = Path(__file__).parent / "static"
MEDIA_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml", ".txt": "text/plain"}


class File(msgspec.Struct, frozen=True):
    """A static file and the hash of its content."""

    content: bytes
    kind: str
    etag: str


class Static:
    """The static files. Browsers ask each time (`no-cache`) and get 304 for a file that they have."""

    @cached_property
    def _files(self) -> dict[str, File]:
        found = (path for path in DIRECTORY.rglob("*") if path.suffix in MEDIA_TYPES)
        return {path.relative_to(DIRECTORY).as_posix(): _file(path) for path in found}

    def has(self, name: str) -> bool:
        """Say whether there is such a file, so that a page names `vendor/...` only where it was built."""
        return name in self._files

    def answer(self, request: Request, name: str) -> Response:
        """Return the file, 304 if the browser has it, or raise NotFound."""
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
