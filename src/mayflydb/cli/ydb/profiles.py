"""Profiles: named sets of the options in front of a command, stored in one file of the user."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from mayflydb.cli.ydb.faults import Misuse
from mayflydb.config.load import user_config_directory
from mayflydb.serving.private_files import write_private


class Profiles(msgspec.Struct):
    """All profiles by name.

    The options of a profile: `endpoint`, `database`, `token_file`, `user`, `password_file` and `ca_file`. `active`: the
    name of the active profile; empty: no profile is active.
    """

    profiles: dict[str, dict[str, str]] = {}
    active: str = ""


def profiles_path() -> Path:
    """Return the path of the file."""
    return user_config_directory(os.environ) / "ydb-profiles.json"


def read_profiles() -> Profiles:
    """Return all profiles; none without a file. Misuse for a file of another form."""
    try:
        return msgspec.json.decode(profiles_path().read_bytes(), type=Profiles)
    except FileNotFoundError:
        return Profiles()
    except (OSError, msgspec.DecodeError) as error:
        raise Misuse(f"Can't read profiles from {profiles_path()}: {error}") from error


def write_profiles(profiles: Profiles) -> None:
    """Store all profiles, readable by this user alone."""
    content = msgspec.json.format(msgspec.json.encode(profiles), indent=2)
    write_private(profiles_path(), content, replace=True)


def resolve_profile(name: str | None) -> Mapping[str, str]:
    """Return the options of the named or the active profile; empty without either. Misuse for an unknown name."""
    profiles = read_profiles()
    if name is None:
        return profiles.profiles.get(profiles.active, {})
    if name not in profiles.profiles:
        raise Misuse(f"Profile {name} does not exist.")
    return profiles.profiles[name]
