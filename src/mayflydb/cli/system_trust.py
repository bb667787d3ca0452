"""Operating systems' stores of trusted authorities: which one a machine has, and the commands that change it."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from mayflydb.cli.admin import REFUSED, CommandFailed

Command = tuple[str, ...]


class Machine(NamedTuple):
    """The facts that decide about the commands. `root`: of the file system; `programs`: those of PROGRAMS on the PATH."""

    platform: str
    programs: frozenset[str]
    is_root: bool
    root: Path = Path("/")


class AuthorityFile(NamedTuple):
    """A certificate in a file (PEM), and its fingerprints, hexadecimal."""

    file: Path
    sha1: str
    sha256: str


class StoreChange(NamedTuple):
    """`store`: its name, in words. `commands` are run in this order, each after the one before has succeeded."""

    store: str
    commands: tuple[Command, ...]


class _Anchors(NamedTuple):
    """A folder of authorities, and the programs that read it anew."""

    store: str
    folder: str
    ending: str
    added: Command
    removed: Command

    @property
    def program(self) -> str:
        return self.added[0]


# Without --fresh, the link to a file that is gone stays.
_LINUX: Final = (
    _Anchors(
        "the store of Debian and Ubuntu",
        "usr/local/share/ca-certificates",
        ".crt",
        ("update-ca-certificates",),
        ("update-ca-certificates", "--fresh"),
    ),
    _Anchors(
        "the store of Fedora and RHEL",
        "etc/pki/ca-trust/source/anchors",
        ".pem",
        ("update-ca-trust",),
        ("update-ca-trust",),
    ),
)

_JAVA_HOOK: Final = "etc/ca-certificates/update.d/jks-keystore"
"""Debian's program that adds authorities to, and takes them out of, the truststore of its packages of Java."""

_KEYCHAIN: Final = "/Library/Keychains/System.keychain"

PROGRAMS: Final = ("sudo", *(each.program for each in _LINUX))


def look_at_machine() -> Machine:
    """Return the machine of this process."""
    found = frozenset(name for name in PROGRAMS if shutil.which(name))
    return Machine(sys.platform, found, sys.platform != "win32" and os.geteuid() == 0)


def plan_trust(machine: Machine, authority: AuthorityFile) -> StoreChange:
    """Return the commands that make the machine trust an authority. CommandFailed for a system whose store is not known."""
    if machine.platform == "darwin":
        add: Command = ("security", "add-trusted-cert", "-d", "-r", "trustRoot", "-k", _KEYCHAIN, str(authority.file))
        return StoreChange("the keychain of macOS", _as_root(machine, add))
    if machine.platform == "win32":
        add = ("certutil", "-user", "-addstore", "Root", str(authority.file))
        return StoreChange("the store of this user of Windows", (add,))
    anchors = _anchors(machine)
    copy = ("install", "-m", "644", str(authority.file), str(_place(machine, anchors, authority)))
    return StoreChange(anchors.store, _as_root(machine, copy, anchors.added))


def plan_undo(machine: Machine, authority: AuthorityFile) -> StoreChange:
    """Return the commands that undo `plan_trust`. CommandFailed as there, and where the machine does not have the authority."""
    if machine.platform == "darwin":
        distrust = ("security", "remove-trusted-cert", "-d", str(authority.file))
        remove: Command = ("security", "delete-certificate", "-Z", authority.sha1, _KEYCHAIN)
        return StoreChange("the keychain of macOS", _as_root(machine, distrust, remove))
    if machine.platform == "win32":
        remove = ("certutil", "-user", "-delstore", "Root", authority.sha1)
        return StoreChange("the store of this user of Windows", (remove,))
    anchors = _anchors(machine)
    place = _place(machine, anchors, authority)
    if not place.exists():
        raise CommandFailed(f"there is no {place}: `mayfly cert trust` has not added this certificate")
    commands: list[Command] = [("rm", str(place)), anchors.removed]
    hook = machine.root / _JAVA_HOOK
    if hook.exists():
        # `update-ca-certificates --fresh` tells it what is added alone.
        commands.append(("sh", "-c", f"echo -/etc/ssl/certs/{place.stem}.pem | {hook}"))
    return StoreChange(anchors.store, _as_root(machine, *commands))


def run_commands(commands: Sequence[Command]) -> None:
    """Run them in order. CommandFailed at the first that fails; those before it stay done."""
    for command in commands:
        try:
            # What they print goes to standard error, as all that is no result of ours.
            code = subprocess.run(command, check=False, stdout=2).returncode  # noqa: S603 - those of a plan
        except OSError as error:
            raise CommandFailed(f"{command[0]} cannot be run: {error.strerror}") from error
        if code:
            raise CommandFailed(f"`{shlex.join(command)}` ended with {code}; no command after it was run")


def _anchors(machine: Machine) -> _Anchors:
    for each in _LINUX:
        if each.program in machine.programs and (machine.root / each.folder).is_dir():
            return each
    known = " or ".join(f"{each.program} with /{each.folder}" for each in _LINUX)
    raise CommandFailed(
        f"how this system ({machine.platform}) trusts an authority is not known: there is no {known}",
        hint="mayfly cert export mayfly.pem, and add the file as the system's documentation says",
        exit_code=REFUSED,
    )


def _place(machine: Machine, anchors: _Anchors, authority: AuthorityFile) -> Path:
    # Named by the certificate: those of several servers lie side by side, and each is removed alone.
    return machine.root / anchors.folder / f"mayfly-{authority.sha256[:12].lower()}{anchors.ending}"


def _as_root(machine: Machine, *commands: Command) -> tuple[Command, ...]:
    if machine.is_root:
        return commands
    if machine.platform != "darwin" and "sudo" not in machine.programs:
        raise CommandFailed("the system's store is changed by root alone, and there is no sudo", exit_code=REFUSED)
    return tuple(("sudo", *command) for command in commands)
