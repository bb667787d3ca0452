"""The account key of Cosmos DB and the token of the admin API: read from files, or created once."""

from __future__ import annotations

import base64
import binascii
import logging
import secrets
import socket
from pathlib import Path
from typing import Final, NamedTuple

from mayflydb.announcement import StartFailed
from mayflydb.config.settings import Settings
from mayflydb.frontends.cosmos.auth import WELL_KNOWN_KEY
from mayflydb.serving.ports import create_secret, is_reachable, replace_secret

log = logging.getLogger("mayflydb.server")

KEY_BYTES: Final = 64
"""The length of the service's keys."""

_NEW_KEY: Final = "`openssl rand 64 | openssl base64 -A` makes a key; --generate-key makes and keeps one"


class AccountKey(NamedTuple):
    """The key in base64, and its file; None for the well-known key."""

    base64: str
    path: Path | None = None

    def __repr__(self) -> str:
        return f"AccountKey(path={self.path})"


def load_account_key(settings: Settings, data: Path) -> AccountKey:
    """Return the key that the settings name. `data`: the directory of secrets. StartFailed if it cannot be read or created.

    StartFailed too for a key that protects nothing: a short key, and the well-known key if other machines can connect.
    """
    place = settings.cosmos.key_file
    setting = "cosmos.key_file"
    if place is None and settings.cosmos.generate_key:
        place, setting = data / "cosmos.key", "cosmos.generate_key"
        create_secret(place, base64.b64encode(secrets.token_bytes(64)), setting)
    if place is None and settings.drop_in is not None and settings.drop_in.key is not None:
        # A key of one's own is told by its file alone.
        place, setting = data / "emulator.key", "AZURE_COSMOS_EMULATOR_KEY"
        replace_secret(place, settings.drop_in.key.encode(), setting)
    if place is None:
        return AccountKey(WELL_KNOWN_KEY)
    try:
        key = place.read_text(encoding="ascii").strip()
        decoded = binascii.a2b_base64(key, strict_mode=True)
    except OSError as error:
        raise StartFailed(f"{place} cannot be read: {error.strerror}", setting=setting, exit_code=2) from error
    except (ValueError, binascii.Error) as error:
        raise StartFailed(
            f"{place} does not hold a key in base64", setting=setting, hint=_NEW_KEY, exit_code=2
        ) from error
    if len(decoded) < KEY_BYTES:
        text = f"the key in {place} has {len(decoded)} bytes, and a key has {KEY_BYTES}"
        raise StartFailed(text, setting=setting, hint=_NEW_KEY, exit_code=2)
    if decoded != binascii.a2b_base64(WELL_KNOWN_KEY):
        return AccountKey(key, place)
    if settings.server.secure or (not settings.server.loopback and settings.drop_in is None):
        reached = f"{settings.server.host} can be reached from other machines"
        reason = "--secure asks for one of your own" if settings.server.loopback else reached
        text = f"{place} holds the well-known key, and {reason}"
        raise StartFailed(text, setting=setting, hint=_NEW_KEY, exit_code=4)
    return AccountKey(WELL_KNOWN_KEY)


def load_admin_token(sockets: list[socket.socket], data: Path, secure: bool = False) -> bytes | None:
    """Return the admin API's bearer token, and create it once. None if only this machine can connect, unless `secure`."""
    if not secure and not is_reachable(sockets):
        return None
    place = data / "admin.token"
    create_secret(place, secrets.token_urlsafe(32).encode(), "server.host")
    log.info("the admin API asks for the token in %s", place)
    return place.read_bytes().strip()
