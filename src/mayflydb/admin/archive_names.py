"""Addresses of archives, and the names of their files. Pure.

A file's name follows from what is in it: the same versions have the same name, and others have another one.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Final, Literal
from urllib.parse import unquote, urlsplit

import msgspec

from mayflydb.model.errors import BadRequest

Format = Literal["jsonl", "jsonl.gz", "parquet"]
"""The form of an archive's files: JSON Lines, plain or compressed, or Parquet."""

LONGEST_PART: Final = 100
"""Characters of a part of a path; a longer one is cut and gets a hash, since file systems allow 255 bytes."""

TEST_NAME: Final = "mayfly-test"
"""The file that a test writes."""

CONTENT_TYPES: Final[Mapping[Format, str]] = {
    "jsonl": "application/x-ndjson",
    "jsonl.gz": "application/gzip",
    "parquet": "application/vnd.apache.parquet",
}

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")


class Address(msgspec.Struct, frozen=True):
    """The address of an archive. `bucket`: of S3; None: `path` is a directory of the server's disk, else a prefix of names."""

    bucket: str | None
    path: str


def parse_url(url: str) -> Address:
    """Parse `file:///directory` or `s3://bucket/prefix`. BadRequest."""
    try:
        parts = urlsplit(url)
        path = unquote(parts.path, errors="strict")
    except ValueError:
        raise _bad_url(url) from None
    is_plain = path.isprintable() and not parts.query and not parts.fragment and "//" not in path
    if any(part in (".", "..") for part in path.split("/")) or not is_plain:
        raise _bad_url(url)
    if parts.scheme == "file" and parts.netloc in ("", "localhost") and len(path) > 1:
        return Address(None, path.rstrip("/"))
    if parts.scheme == "s3" and _BUCKET.fullmatch(parts.netloc):
        return Address(parts.netloc, path.strip("/"))
    raise _bad_url(url)


def _bad_url(url: str) -> BadRequest:
    return BadRequest(f"{url[:200]!r} is no address of an archive", hint="file:///DIRECTORY or s3://BUCKET/PREFIX")


def file_name(target: str, origin: str, container: int, lsns: tuple[int, int], form: Format) -> str:
    """Return the name of a file below its archive.

    `origin`: of the archive, so that no other database has the same name. `lsns`: of the first and the last version.
    """
    protocol, _, names = target.partition(":")
    # A slash inside of a name is encoded in the target.
    decoded = [unquote(name, errors="surrogatepass") for name in names.split("/") if name]
    parts = "/".join(map(encode_part, (protocol, *decoded)))
    return f"{parts}/{origin}-{container}-{lsns[0]:016d}-{lsns[1]:016d}.{form}"


def encode_part(name: str) -> str:
    """Encode a name as one part of a path: letters, digits, `-`, `_` and inner dots stay, all else is percent-encoded."""
    kept = [char if char.isascii() and (char.isalnum() or char in "-_.") else _percent(char) for char in name]
    encoded = "".join(kept)
    if encoded.startswith("."):
        encoded = f"%2E{encoded[1:]}"
    if len(encoded) > LONGEST_PART:
        return f"{encoded[:LONGEST_PART]}-{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"
    return encoded


def _percent(char: str) -> str:
    return "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "surrogatepass"))
