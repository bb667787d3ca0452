"""Places of archives: a directory of the server's disk, or a bucket of S3. Writing waits for the disk or the network."""

from __future__ import annotations

import configparser
import contextlib
import http.client
import os
import ssl
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from mayflydb.admin.archive_names import Address
from mayflydb.admin.aws_signature import Credentials, encode_path, sign
from mayflydb.model.errors import BadRequest

TIMEOUT_SECONDS: Final = 60.0
"""The longest wait for a connection, for the sending of a file, and for each part of an answer."""

ANSWER_BYTES: Final = 1024
"""Bytes of an answer that are read, for the log."""


class S3Site(msgspec.Struct, frozen=True):
    """A service of S3's protocol. `credentials`: a file as AWS' programs have it, whose section `default` is read."""

    endpoint: str
    region: str
    credentials: Path


class ArchiveSites(msgspec.Struct, frozen=True):
    """The places to which the server's settings allow archives. None: no such place."""

    root: Path | None = None
    s3: S3Site | None = None


NOWHERE: Final = ArchiveSites()


class File(msgspec.Struct, frozen=True):
    """A file of an archive. `name`: below the archive. `token`: of this process. `is_repeated`: another one may have begun it."""

    name: str
    content: bytes
    content_type: str
    token: str = ""
    is_repeated: bool = False


def check_place(address: Address, sites: ArchiveSites) -> None:
    """BadRequest for an address to which the settings allow no archive."""
    if address.bucket is None:
        _directory(address, sites)
    else:
        _site(sites)


def write_file(address: Address, sites: ArchiveSites, file: File, moment: str) -> None:
    """Write a file, in the place of one with the name, so that readers see all of it or nothing.

    `moment`: the time, as `20130524T000000Z`. OSError; BadRequest.
    """
    if address.bucket is None:
        _write_locally(_directory(address, sites), file)
    else:
        _put(address, _site(sites), file, moment)


# --- a directory ---------------------------------------------------------------------------------------------------------


def _directory(address: Address, sites: ArchiveSites) -> Path:
    """Return the directory of an archive. BadRequest if it is not in the one that the settings name."""
    if sites.root is None:
        raise BadRequest("no directory is set for archives", hint="start the server with --archive-dir DIR")
    # Links are followed first: a link in the directory must lead to no other one.
    root, found = sites.root.resolve(), Path(address.path).resolve()
    if not found.is_relative_to(root):
        raise BadRequest(f"{address.path} is not below the directory of archives", hint=f"--archive-dir is {root}")
    return found


def _write_locally(directory: Path, file: File) -> None:
    place = directory / file.name
    _make_directories(place.parent)
    if file.is_repeated:
        for begun in place.parent.glob(f".{place.name}.*"):
            begun.unlink(missing_ok=True)
    temporary = place.with_name(f".{place.name}.{file.token}")
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as opened:
            opened.write(file.content)
            opened.flush()
            os.fsync(opened.fileno())
        temporary.replace(place)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    _sync_directory(place.parent)


def _make_directories(directory: Path) -> None:
    """Create a directory for the server alone, and let its entries outlast a power cut."""
    if directory.is_dir():
        return
    _make_directories(directory.parent)
    directory.mkdir(mode=0o700, exist_ok=True)
    _sync_directory(directory.parent)


def _sync_directory(directory: Path) -> None:
    # Windows opens no directories.
    if os.name == "nt":
        return
    opened = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


# --- S3 ------------------------------------------------------------------------------------------------------------------


def _site(sites: ArchiveSites) -> S3Site:
    if sites.s3 is None:
        raise BadRequest("no S3 is set for archives", hint="start the server with --archive-s3-credentials-file FILE")
    return sites.s3


def read_credentials(file: Path) -> Credentials:
    """Read the section `default` of a file of AWS' programs. OSError, also for a file that has no keys."""
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(file.read_text(encoding="utf-8"))
        found = parser["default"]
        return Credentials(
            found["aws_access_key_id"], found["aws_secret_access_key"], found.get("aws_session_token", "")
        )
    except (configparser.Error, KeyError, UnicodeDecodeError):
        # Without the error's words, which may repeat a line of the file.
        raise OSError(f"{file} has no section default with aws_access_key_id and aws_secret_access_key") from None


def _put(address: Address, site: S3Site, file: File, moment: str) -> None:
    """Put an object in one request. OSError if the service does not accept it; redirects are refused."""
    parts = urlsplit(site.endpoint)
    key = "/".join(part for part in (address.bucket, address.path, file.name) if part)
    path = encode_path(f"{parts.path.rstrip('/')}/{key}")
    headers = {"host": parts.netloc, "content-type": file.content_type, "user-agent": "mayfly"}
    credentials = read_credentials(site.credentials)
    signed = sign("PUT", path, headers, file.content, moment, site.region, credentials)
    connection: http.client.HTTPConnection
    host, port = parts.hostname or "", parts.port
    if parts.scheme == "https":
        context = ssl.create_default_context()
        connection = http.client.HTTPSConnection(host, port, timeout=TIMEOUT_SECONDS, context=context)
    else:
        connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT_SECONDS)
    try:
        connection.request("PUT", path, file.content, signed)
        answer = connection.getresponse()
        text = answer.read(ANSWER_BYTES).decode(errors="replace")
    except (http.client.HTTPException, ValueError) as error:
        raise OSError(f"{type(error).__name__}: {error}") from error
    finally:
        connection.close()
    if answer.status != 200:
        raise OSError(f"{answer.status} {answer.reason}: {' '.join(text.split())[:300]}")
