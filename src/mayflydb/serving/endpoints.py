"""The addresses by which a server is reached, and the files of its secrets: for the admin API and the announcement."""

from __future__ import annotations

import contextlib
import os
import platform
from pathlib import Path
from typing import Any, Final, Literal

from mayflydb.announcement import Announcement, without_password, ydb_access
from mayflydb.clock import boot_us
from mayflydb.config.settings import Settings
from mayflydb.model.instant import SECOND
from mayflydb.serving.drop_in import list_wait_lines
from mayflydb.serving.http_port import HttpPort
from mayflydb.serving.keys import AccountKey
from mayflydb.serving.mongo_port import MongoPort
from mayflydb.serving.ydb_port import YdbPort
from mayflydb.version import __version__

WITHOUT_PORT: Final = "http://localhost"
"""The address that links of a database without ports begin with."""


class Endpoints:
    """The addresses of one server. `http`, `mongo`, `ydb`: None where that port is not served."""

    def __init__(
        self, settings: Settings, key: AccountKey, http: HttpPort | None, mongo: MongoPort | None, ydb: YdbPort | None
    ) -> None:
        self._settings = settings
        self._key = key
        self._http = WITHOUT_PORT if http is None else http.endpoint
        self._either_scheme = http is None or not http.requires_tls
        self._aliases = {} if http is None else http.alias_addresses
        self._mongo = mongo
        self._ydb = ydb

    def info(self, address: str | None, clock_mode: str) -> dict[str, Any]:
        """Return version, storage and addresses. `address`: the client's scheme://host:port; None: the server's own."""
        server = self._settings.server
        base = self._http if address is None else address
        if server.scheme == "https":
            # Both schemes answer on one port, so the scheme that is announced is a setting.
            base = "https://" + base.partition("://")[2]
        cosmos = server.endpoint_for(base)
        mongo, ydb = self._mongo, self._ydb
        return {
            "version": __version__,
            "python": platform.python_version(),
            "pid": os.getpid(),
            "storage": self._settings.storage.shown,
            "clock": clock_mode,
            "allow_time_travel": server.allow_time_travel,
            "access_log": _place_of_access_log(server.access_log),
            "ports": self._ports(),
            "cosmos": self._account(cosmos),
            "mongo": None if mongo is None else _mongo_access(mongo),
            "ydb": None if ydb is None else _ydb_access(ydb),
            "portal": f"{base}/",
            "admin": f"{base}/_mayfly",
            "metrics": f"{base}/metrics",
        }

    def _account(self, endpoint: str) -> dict[str, str | None]:
        """The account's address and key. A key that is not the well-known one is named by its file alone."""
        key, place = self._key
        known: dict[str, str | None] = {"key": None, "connection_string": None}
        if place is None:
            known = {"key": key, "connection_string": f"AccountEndpoint={endpoint}/;AccountKey={key};"}
        return {"endpoint": f"{endpoint}/", **known, "key_file": _text(place)}

    def announcement(self, ca_path: Path) -> Announcement:
        """The announcement of a server that answers. `ca_path`: where the authority's certificate lies, if there is one."""
        clock = self._settings.clock.mode
        info, advertise, mongo = self.info(None, clock), self._settings.server.advertise, self._mongo
        ydb = self._ydb
        return Announcement(
            pid=os.getpid(),
            cosmos_endpoint=info["cosmos"]["endpoint"],
            cosmos_key=self._key.base64,
            portal=info["portal"],
            admin=info["admin"],
            metrics=info["metrics"],
            storage=info["storage"],
            clock=clock,
            version=__version__,
            seconds_to_ready=_process_age(),
            key_path=_text(self._key.path),
            ca_path=str(ca_path) if ca_path.exists() else None,
            mongo_uri=None if mongo is None else mongo.uri,
            mongo_password_path=None if mongo is None else _text(mongo.password_path),
            ydb_endpoint=None if ydb is None else ydb.endpoint,
            ydb_database=None if ydb is None else ydb.database,
            ydb_tls_endpoint=None if ydb is None else ydb.tls_endpoint,
            ydb_password_path=None if ydb is None else _text(ydb.password_path),
            either_scheme=self._either_scheme and (advertise is None or advertise.scheme is None),
            insecure=self._settings.server.insecure,
            wait_lines=self._wait_lines(),
        )

    def _wait_lines(self) -> tuple[str, ...]:
        if self._settings.drop_in is None:
            return ()
        return list_wait_lines(self._http, None if self._mongo is None else self._mongo.address)

    def _ports(self) -> dict[str, int]:
        mongo, ydb = self._mongo, self._ydb
        addresses = {
            "http": None if self._http == WITHOUT_PORT else self._http,
            "mongo": None if mongo is None else mongo.address,
            "ydb": None if ydb is None else ydb.address,
            "ydb_tls": None if ydb is None else ydb.tls_address,
            "mongo_alias": None if mongo is None else mongo.alias_address,
            **self._aliases,
        }
        return {name: int(place.rpartition(":")[2]) for name, place in addresses.items() if place is not None}


def _mongo_access(port: MongoPort) -> dict[str, str | None]:
    return {"uri": without_password(port.uri), "password_file": _text(port.password_path)}


def _ydb_access(port: YdbPort) -> dict[str, str | None]:
    return ydb_access(port.endpoint, port.tls_endpoint, port.database, _text(port.password_path))


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _process_age() -> float:
    """Return the seconds since this process started, the interpreter's start included; 0 on systems without /proc."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        # The second field, the name in parentheses, may hold blanks and parentheses: fields are counted from the last one.
        # starttime is the 22nd, so the 20th after the name; its unit is the clock tick since boot (proc_pid_stat(5)).
        after_name = Path("/proc/self/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2]
        started = int(after_name.split()[19]) / os.sysconf("SC_CLK_TCK")
        return max(0.0, boot_us() / SECOND - started)
    return 0.0


def _place_of_access_log(setting: Literal["off", "text", "json"] | Path) -> str:
    """Return `off`, `stderr`, or the path of the file."""
    if isinstance(setting, Path):
        return str(setting)
    return "off" if setting == "off" else "stderr"
