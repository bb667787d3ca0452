"""Named sets of the options that stand before the command, kept for the user in one file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from mayflydb.cli.ydb.faults import Misuse
from mayflydb.config.load import user_config_directory


class Profiles(msgspec.Struct):
    """By name, what each says of `endpoint`, `database`, `token_file`, `user`, `password_file` and `ca_file`.

    `active`: the name of the one that is meant where none is named; empty: none is.
    """

    profiles: dict[str, dict[str, str]] = {}
    active: str = ""


def profiles_path() -> Path:
    """The file."""
    return user_config_directory(os.environ) / "ydb-profiles.json"


def read_profiles() -> Profiles:
    """All of them; none where there is no file. Misuse for a file that is not one of ours."""
    try:
        return msgspec.json.decode(profiles_path().read_bytes(), type=Profiles)
    except FileNotFoundError:
        return Profiles()
    except (OSError, msgspec.DecodeError) as error:
        raise Misuse(f"Can't read profiles from {profiles_path()}: {error}") from error


def write_profiles(profiles: Profiles) -> None:
    """Keep them, for this user's eyes alone."""
    path = profiles_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_bytes(msgspec.json.format(msgspec.json.encode(profiles), indent=2))
    new.chmod(0o600)
    new.replace(path)


def resolve_profile(name: str | None) -> Mapping[str, str]:
    """What the named profile says, or the active one; nothing where there is neither. Misuse: there is none of this name."""
    profiles = read_profiles()
    if name is None:
        return profiles.profiles.get(profiles.active, {})
    if name not in profiles.profiles:
        raise Misuse(f"Profile {name} does not exist.")
    return profiles.profiles[name]
