"""The administrator's document: issuers, role definitions and role assignments, read again when its file changes."""

from __future__ import annotations

import asyncio
import logging
import tomllib
from pathlib import Path
from typing import Final

import msgspec

from mayflydb.expiry.deadline import has_passed
from mayflydb.frontends.cosmos.entra.key_sets import Stopwatch
from mayflydb.frontends.cosmos.entra.roles import InvalidRoles, RoleAssignment, RoleDefinition, RoleTable
from mayflydb.frontends.cosmos.entra.tokens import Issuer, TokenVerifier
from mayflydb.model.instant import SECOND, Instant

log = logging.getLogger("mayflydb.cosmos")

MAX_BYTES: Final = 1 << 20
"""Bytes of the document."""

LOOK_INTERVAL: Final = SECOND
"""The time between two looks at the file."""


class Policy(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The issuers whose tokens are accepted, and the roles of their principals."""

    issuers: tuple[Issuer, ...]
    role_definitions: tuple[RoleDefinition, ...] = ()
    role_assignments: tuple[RoleAssignment, ...] = ()


class PolicyError(Exception):
    """A document cannot be read or is not valid; the message says why."""


class AccessPolicy(msgspec.Struct, frozen=True):
    """A policy in force."""

    tokens: TokenVerifier
    roles: RoleTable


class PolicyFile:
    """The policy of a file. A change of the file takes effect within a second or two, without a restart."""

    def __init__(self, path: Path, stopwatch: Stopwatch) -> None:
        """Read the file. PolicyError if it cannot be read, or is not valid."""
        self._path = path
        self._stopwatch = stopwatch
        self._looked_at: Instant = stopwatch()
        self._version = _version_of(path)
        self._access = self._load()

    def __repr__(self) -> str:
        return f"PolicyFile({self._path})"

    async def access(self) -> AccessPolicy:
        """Return the policy in force: the newest of the file that was valid."""
        now = self._stopwatch()
        if has_passed(self._looked_at + LOOK_INTERVAL, now):
            self._looked_at = now
            version = _version_of(self._path)
            if version != self._version:
                self._version = version
                try:
                    self._access = await asyncio.to_thread(self._load)
                except PolicyError as error:
                    log.error("the policy of before stays in force: %s", error)
                else:
                    log.info("read %s again", self._path)
        return self._access

    def _load(self) -> AccessPolicy:
        policy = read_policy(self._path)
        try:
            roles = RoleTable(policy.role_definitions, policy.role_assignments)
        except InvalidRoles as error:
            raise PolicyError(f"{self._path}: {error}") from error
        return AccessPolicy(TokenVerifier(policy.issuers, self._stopwatch), roles)


def read_policy(path: Path) -> Policy:
    """Read a document: TOML by the ending of its name, else JSON. Paths of keys in it are relative to it. PolicyError."""
    try:
        with path.open("rb") as file:
            text = file.read(MAX_BYTES + 1)
        if len(text) > MAX_BYTES:
            raise PolicyError(f"{path} has more than {MAX_BYTES >> 20} MiB")
        content = tomllib.loads(text.decode()) if path.suffix == ".toml" else msgspec.json.decode(text)
        policy = msgspec.convert(content, Policy)
    except OSError as error:
        raise PolicyError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise PolicyError(f"{path}: {error}") from error
    if not policy.issuers:
        raise PolicyError(f"{path} names no issuer")
    return msgspec.structs.replace(policy, issuers=tuple(_resolve_issuer(each, path) for each in policy.issuers))


def _resolve_issuer(issuer: Issuer, path: Path) -> Issuer:
    """Return an issuer whose keys are at an absolute path or a URL."""
    if not issuer.audiences:
        raise PolicyError(f"{path}: the issuer {issuer.issuer} has no audiences")
    scheme, separator, _ = issuer.keys.partition("://")
    if separator:
        if scheme not in ("http", "https"):
            raise PolicyError(f"{path}: the keys of {issuer.issuer} are a path, or a URL of http or https")
        return issuer
    place = path.parent / issuer.keys
    if not place.is_file():
        raise PolicyError(f"{path}: {place}, the keys of {issuer.issuer}, cannot be read")
    return msgspec.structs.replace(issuer, keys=str(place))


def _version_of(path: Path) -> tuple[int, int, int]:
    try:
        found = path.stat()
    except OSError:
        return 0, 0, 0
    return found.st_mtime_ns, found.st_size, found.st_ino
