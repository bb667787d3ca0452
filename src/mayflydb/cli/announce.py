"""Announces that the server is ready: a banner for people, one line of JSON for programs, and the ready file."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import urlsplit

from mayflydb.announcement import Announcement, StartFailed, ydb_access
from mayflydb.serving.private_files import write_private


class Announcer:
    """Announces one server. Removes the ready file of an earlier run before the start, and its own at a clean stop."""

    def __init__(self, ready_file: Path | None, out: TextIO) -> None:
        self._ready_file = ready_file
        self._out = out
        self._pid: int | None = None

    def prepare(self) -> None:
        """Remove a stale ready file. StartFailed if its directory cannot be used."""
        if self._ready_file is None:
            return
        # Before the start: a program that waits for the file must not read the one of an earlier run.
        try:
            self._ready_file.unlink(missing_ok=True)
        except OSError as error:
            raise _write_failure(self._ready_file, error) from error
        if not self._ready_file.parent.is_dir():
            raise StartFailed(f"{self._ready_file.parent} is not a directory", setting="server.ready_file", exit_code=2)

    def __call__(self, announcement: Announcement) -> None:
        """Write the ready file, then the line on stdout: a program that reads the line may open the file at once."""
        self._pid = announcement.pid
        if self._ready_file is not None:
            try:
                write_private(self._ready_file, (ready_document(announcement) + "\n").encode(), replace=True)
            except OSError as error:
                raise _write_failure(self._ready_file, error) from error
        self._out.write(banner(announcement) if self._out.isatty() else ready_document(announcement) + "\n")
        self._out.writelines(announcement.wait_lines)
        # A pipe is buffered: without the flush, a program that waits for the line would wait for ever.
        self._out.flush()

    def withdraw(self) -> None:
        """Remove the ready file, unless another server has written its own to the same path since."""
        if self._ready_file is None or self._pid is None:
            return
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            if json.loads(self._ready_file.read_text(encoding="utf-8"))["pid"] == self._pid:
                self._ready_file.unlink()


def _write_failure(path: Path, error: OSError) -> StartFailed:
    return StartFailed(
        f"{path} cannot be written: {error.strerror}", setting="server.ready_file", hint="another --ready-file"
    )


def ready_document(announcement: Announcement) -> str:
    """Return the ready document on one line. Its keys are a contract: these and no others, null for parts that are off."""
    # A key or password of one's own stays in its file: this line goes into logs of programs that start a server.
    cosmos = {
        "endpoint": announcement.cosmos_endpoint,
        "key": announcement.public_key,
        "key_file": announcement.key_path,
    }
    mongo = {"uri": announcement.public_mongo_uri, "password_file": announcement.mongo_password_path}
    document: dict[str, Any] = {
        "event": "ready",
        "pid": announcement.pid,
        "cosmos": None if announcement.cosmos_endpoint is None else cosmos,
        "mongo": None if announcement.mongo_uri is None else mongo,
        "ydb": None if announcement.ydb_endpoint is None else _ydb(announcement),
        "portal": announcement.portal,
        "admin": announcement.admin,
        "metrics": announcement.metrics,
        "storage": announcement.storage,
        "clock": announcement.clock,
    }
    return json.dumps(document, separators=(",", ":"))


def _ydb(announcement: Announcement) -> dict[str, str | None]:
    return ydb_access(
        announcement.ydb_endpoint or "",
        announcement.ydb_tls_endpoint,
        announcement.ydb_database or "",
        announcement.ydb_password_path,
    )


def banner(announcement: Announcement) -> str:
    """Return the text for a terminal. Of a key that is not the well-known one, only its file is shown."""
    kind = announcement.storage.partition(":")[0]
    storage = kind if kind == announcement.storage else f"{announcement.storage} ({kind})"
    head = f"Mayfly {announcement.version}   {storage}   clock: {announcement.clock}"
    lines = [f"{head}   ready in {announcement.seconds_to_ready:.1f} s", ""]
    lines += [f"  {name:<8} {text}" for name, text in _banner_rows(announcement) if text is not None]
    if announcement.insecure:
        lines += [
            "",
            "Not secure: other machines can connect without TLS (--insecure), and what they send can be read.",
        ]
    lines += ["", 'Ctrl+C stops. In another shell: eval "$(mayfly connect --format env)"', ""]
    return "\n".join(lines)


def _banner_rows(announcement: Announcement) -> list[tuple[str, str | None]]:
    rows: list[tuple[str, str | None]] = []
    if announcement.cosmos_endpoint is not None:
        endpoint = shown = _with_localhost(announcement.cosmos_endpoint)
        own = announcement.key_path
        key = announcement.public_key or "..."
        about = "well-known emulator key" if own is None else f"key in {own}"
        if announcement.either_scheme:
            plain, shown = (f"{scheme}://{endpoint.partition('://')[2]}" for scheme in ("http", "https"))
            about += f"; {plain} is the same port"
        rows.append(("Cosmos", f"AccountEndpoint={shown};AccountKey={key};"))
        rows.append(("", about))
    if announcement.public_mongo_uri is not None:
        rows.append(("Mongo", _with_localhost(announcement.public_mongo_uri)))
        if announcement.mongo_password_path is not None:
            rows.append(("", f"password in {announcement.mongo_password_path}"))
    if announcement.ydb_endpoint is not None:
        tls = announcement.ydb_tls_endpoint
        also = "" if tls in (None, announcement.ydb_endpoint) else f"   (TLS: {_with_localhost(str(tls))})"
        rows.append(
            ("YDB", f"{_with_localhost(announcement.ydb_endpoint)}   database {announcement.ydb_database}{also}")
        )
        if announcement.ydb_password_path is not None:
            rows.append(("", f"password in {announcement.ydb_password_path}"))
    admin = None if announcement.admin is None else _with_localhost(announcement.admin)
    rows += [
        ("Portal", announcement.portal and _with_localhost(announcement.portal)),
        ("Ready", admin and admin + "/ready"),
        ("Metrics", announcement.metrics and _with_localhost(announcement.metrics)),
        ("CA", announcement.ca_path),
    ]
    return rows


def _with_localhost(url: str) -> str:
    """Replace 127.0.0.1 by localhost, for people."""
    parts = urlsplit(url)
    if parts.hostname != "127.0.0.1":
        return url
    user, at, _ = parts.netloc.rpartition("@")
    return parts._replace(netloc=f"{user}{at}localhost:{parts.port}").geturl()
