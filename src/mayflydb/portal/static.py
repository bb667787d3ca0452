"""Serves style sheets, scripts and the icon. Names are looked up in a fixed list, so no request can name another file.

What stands in `vendor/` is bundled from npm packages by `tools/web.sh`. Where that was not possible, it is not found, and
pages do without it. A file that ends in `.gz` is compressed there and served under its name without that ending.
"""

from __future__ import annotations

import gzip
import hashlib
from functools import cached_property
from pathlib import Path

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from mayflydb.model.errors import NotFound

DIRECTORY = Path(__file__).parent / "static"
MEDIA_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml", ".txt": "text/plain"}


COMPRESSED = ".gz"


class File(msgspec.Struct, frozen=True):
    """A static file and the hash of its content."""

    content: bytes
    kind: str
    etag: str
    compressed: bool


class Static:
    """The static files. Browsers ask each time (`no-cache`) and get 304 for a file that they have."""

    @cached_property
    def _files(self) -> dict[str, File]:
        found = (
            (path, path.relative_to(DIRECTORY).as_posix().removesuffix(COMPRESSED)) for path in DIRECTORY.rglob("*")
        )
        kinds = ((path, name, MEDIA_TYPES.get(Path(name).suffix)) for path, name in found)
        return {name: _file(path, kind) for path, name, kind in kinds if kind is not None and path.is_file()}

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
        content = file.content
        if file.compressed:
            headers["vary"] = "accept-encoding"
            if "gzip" in request.headers.get("accept-encoding", ""):
                headers["content-encoding"] = "gzip"
            else:
                content = gzip.decompress(content)
        return Response(content, headers=headers, media_type=file.kind)


def _file(path: Path, kind: str) -> File:
    content = path.read_bytes()
    etag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
    return File(content, kind, etag, path.suffix == COMPRESSED)
