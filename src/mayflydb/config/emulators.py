"""The variables of the emulators' images, which `--drop-in` reads. Flags and `MAYFLY_*` win over them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from mayflydb.announcement import StartFailed
from mayflydb.config import values as read
from mayflydb.config.row import RawValue, Row

DROP_IN_ROW: Final = Row(
    "server.drop_in",
    ("--drop-in",),
    False,
    read.switch,
    "Serve in the place of an emulator, for networks of development: its key, ports, variables and lines in the log.",
    switch=True,
)

EXPLORER_PORT, HEALTH_PORT, MONITORING_PORT, MONGO_PORT = 1234, 8080, 8765, 10255

_LEVELS: Final = {"quiet": "error", "warn": "warning", "trace": "debug"}
"""Levels of the emulators' logs that have another name here."""

_KEY: Final = "AZURE_COSMOS_EMULATOR_KEY"
_PREFIX: Final = "AZURE_COSMOS_EMULATOR_"

_WITHOUT_EFFECT: Final = (
    "ENABLE_TELEMETRY",
    "ENABLE_OTLP_EXPORTER",
    f"{_PREFIX}PARTITION_COUNT",
    f"{_PREFIX}IP_ADDRESS_OVERRIDE",
)
"""Variables for which there is nothing to set."""

_OF_SETTINGS: Final[Mapping[str, tuple[str, Callable[[str], str]]]] = {
    "PORT": ("server.port", str),
    "PROTOCOL": ("server.scheme", str.lower),
    "GATEWAY_PUBLIC_ENDPOINT": ("server.advertise", str),
    "KEY_FILE": ("cosmos.key_file", str),
    "CERT_PATH": ("tls.cert_file", str),
    "LOG_LEVEL": ("server.log_level", lambda level: _LEVELS.get(level.lower(), level.lower())),
    "GRPC_PORT": ("ydb.port", str),
    "GRPC_TLS_PORT": ("ydb.tls_port", str),
}
"""By variable: the key of a setting, and the form of its value there."""


class DropIn(msgspec.Struct, frozen=True):
    """A server in the place of an emulator. Alias ports: 0 picks a free one, -1 is off.

    `key`: the account key in base64, if a variable has one that is not the well-known key. `pages`: the portal is served.
    `without_effect`: the variables that are set and have nothing to set here. `certificate_secret`: the password of the file of a
    certificate.
    """

    explorer_port: int = EXPLORER_PORT
    health_port: int = HEALTH_PORT
    monitoring_port: int = MONITORING_PORT
    mongo_port: int = MONGO_PORT
    pages: bool = True
    key: str | None = None
    without_effect: tuple[str, ...] = ()
    certificate_secret: str | None = None

    def __repr__(self) -> str:
        return f"DropIn(explorer_port={self.explorer_port}, mongo_port={self.mongo_port}, pages={self.pages})"


def read_settings(environ: Mapping[str, str]) -> dict[str, RawValue]:
    """Return the raw values of settings, by key. StartFailed for the password of a certificate that is not named."""
    if environ.get("CERT_SECRET") and not environ.get("CERT_PATH"):
        raise StartFailed(
            "CERT_SECRET is the password of a certificate, and CERT_PATH names none",
            hint="name the PFX file in CERT_PATH, or leave out CERT_SECRET",
            exit_code=2,
        )
    found = {
        key: RawValue(form(environ[name]), f"variable {name}")
        for name, (key, form) in _OF_SETTINGS.items()
        if environ.get(name)
    }
    if (memory := _memory_variable(environ)) is not None:
        found["storage.url"] = RawValue(read.MEMORY, f"variable {memory}")
    elif place := environ.get("DATA_PATH"):
        found["storage.url"] = RawValue(read.file_url(Path(place) / "mayfly.db"), "variable DATA_PATH")
    return found


def _memory_variable(environ: Mapping[str, str]) -> str | None:
    """Return the name of the variable by which nothing is kept on disk."""
    persistence, disks = f"{_PREFIX}ENABLE_DATA_PERSISTENCE", "YDB_USE_IN_MEMORY_PDISKS"
    if not _parse(environ, persistence, read.switch, True):
        return persistence
    return disks if _parse(environ, disks, read.switch, False) else None


def read_drop_in(environ: Mapping[str, str], *, usual: bool) -> DropIn:
    """Return what the variables say beyond settings. `usual`: alias ports have their usual numbers, else free ones."""
    return DropIn(
        _parse(environ, "EXPLORER_PORT", read.port, EXPLORER_PORT if usual else 0),
        HEALTH_PORT if usual else 0,
        _parse(environ, "MON_PORT", read.port, MONITORING_PORT if usual else 0),
        MONGO_PORT if usual else 0,
        _parse(environ, "ENABLE_EXPLORER", read.switch, True),
        _own_key(environ.get(_KEY, "").strip()),
        tuple(name for name in _WITHOUT_EFFECT if environ.get(name)),
        environ.get("CERT_SECRET") or None,
    )


def _parse(environ: Mapping[str, str], name: str, parse: Callable[[Any], Any], default: Any) -> Any:
    given = environ.get(name)
    if not given:
        return default
    try:
        return parse(given)
    except ValueError as error:
        raise StartFailed(f"{error} (variable {name})", exit_code=2) from error


def _own_key(given: str) -> str | None:
    from mayflydb.frontends.cosmos.auth import WELL_KNOWN_KEY

    return None if given in ("", WELL_KNOWN_KEY) else given
