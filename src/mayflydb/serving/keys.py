"""The account key of Cosmos DB and the token of the admin API: read from files, or made once."""

from __future__ import annotations

import base64
import binascii
import logging
import secrets
import socket
from pathlib import Path
from typing import NamedTuple

from mayflydb.announcement import StartFailed
from mayflydb.config.settings import Settings
from mayflydb.frontends.cosmos.auth import WELL_KNOWN_KEY, Keys
from mayflydb.serving.ports import create_secret, is_reachable

log = logging.getLogger("mayflydb.server")


class AccountKey(NamedTuple):
    """The key in base64, and its file; None for the well-known key."""

    base64: str
    path: Path | None = None


def load_account_key(settings: Settings, data: Path) -> AccountKey:
    """Return the key that the settings name. `data`: the directory of secrets. StartFailed if it cannot be read or made."""
    place = settings.cosmos.key_file
    setting = "cosmos.key_file"
    if place is None and settings.cosmos.generate_key:
        place, setting = data / "cosmos.key", "cosmos.generate_key"
        create_secret(place, base64.b64encode(secrets.token_bytes(64)), setting)
    if place is None:
        return AccountKey(WELL_KNOWN_KEY)
    try:
        key = place.read_text(encoding="ascii").strip()
        # Parsed here only to refuse a broken file at the start, with the setting's name.
        Keys.from_base64(key)
    except OSError as error:
        raise StartFailed(f"{place} cannot be read: {error.strerror}", setting=setting, exit_code=2) from error
    except (ValueError, binascii.Error) as error:
        hint = "openssl rand -base64 64 -A makes a key"
        raise StartFailed(f"{place} does not hold a key in base64", setting=setting, hint=hint, exit_code=2) from error
    return AccountKey(key, place)


def load_admin_token(sockets: list[socket.socket], data: Path) -> bytes | None:
    """Return the admin API's bearer token, made once; None where only this machine can connect, which needs none."""
    if not is_reachable(sockets):
        return None
    place = data / "admin.token"
    create_secret(place, secrets.token_urlsafe(32).encode(), "server.host")
    log.info("the admin API asks for the token in %s", place)
    return place.read_bytes().strip()
