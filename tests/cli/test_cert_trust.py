"""`mayfly cert trust`: the commands for each system, and what they do to a store."""

from __future__ import annotations

import shutil
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mayflydb.cli import cert
from mayflydb.cli.admin import CommandFailed
from mayflydb.cli.main import mayfly
from mayflydb.cli.system_trust import AuthorityFile, Machine, plan_trust, plan_undo
from mayflydb.serving.certificates import Authority

FILE = Path("mayfly.crt")
SHA1, SHA256 = "A1" * 20, "0123456789ab" + "cd" * 26
AUTHORITY = AuthorityFile(FILE, SHA1, SHA256)
DEBIAN, FEDORA = "usr/local/share/ca-certificates", "etc/pki/ca-trust/source/anchors"
KEYCHAIN = "/Library/Keychains/System.keychain"
UPDATE = shutil.which("update-ca-certificates", path="/usr/sbin:/usr/bin:/sbin")


def machine(root: Path, platform: str, *programs: str, is_root: bool = True, folder: str = "") -> Machine:
    if folder:
        (root / folder).mkdir(parents=True)
    return Machine(platform, frozenset(programs), is_root, root)


@pytest.mark.parametrize(
    ("program", "folder", "ending", "added", "removed"),
    [
        ("update-ca-certificates", DEBIAN, "crt", "update-ca-certificates", "update-ca-certificates --fresh"),
        ("update-ca-trust", FEDORA, "pem", "update-ca-trust", "update-ca-trust"),
    ],
)
@pytest.mark.parametrize("before", ["", "sudo "])
def test_linux_has_a_folder_and_a_program(
    tmp_path: Path, program: str, folder: str, ending: str, added: str, removed: str, before: str
) -> None:
    linux = machine(tmp_path, "linux", program, "sudo", is_root=not before, folder=folder)
    place = tmp_path / folder / f"mayfly-0123456789ab.{ending}"
    plan = plan_trust(linux, AUTHORITY)
    assert [*map(" ".join, plan.commands)] == [f"{before}install -m 644 {FILE} {place}", f"{before}{added}"]
    with pytest.raises(CommandFailed, match=f"there is no {place}"):
        plan_undo(linux, AUTHORITY)
    place.touch()
    plan = plan_undo(linux, AUTHORITY)
    assert [*map(" ".join, plan.commands)] == [f"{before}rm {place}", f"{before}{removed}"]


def test_debians_java_forgets_the_authority_too(tmp_path: Path) -> None:
    debian = machine(tmp_path, "linux", "update-ca-certificates", folder=DEBIAN)
    (tmp_path / DEBIAN / "mayfly-0123456789ab.crt").touch()
    hook = tmp_path / "etc/ca-certificates/update.d/jks-keystore"
    hook.parent.mkdir(parents=True)
    hook.touch()
    last = plan_undo(debian, AUTHORITY).commands[-1]
    assert last == ("sh", "-c", f"echo -/etc/ssl/certs/mayfly-0123456789ab.pem | {hook}")


def test_macos_and_windows_have_a_command(tmp_path: Path) -> None:
    mac, windows = machine(tmp_path, "darwin", is_root=False), machine(tmp_path, "win32", is_root=False)
    assert plan_trust(mac, AUTHORITY).commands == (
        ("sudo", "security", "add-trusted-cert", "-d", "-r", "trustRoot", "-k", KEYCHAIN, str(FILE)),
    )
    assert plan_undo(mac, AUTHORITY).commands == (
        ("sudo", "security", "remove-trusted-cert", "-d", str(FILE)),
        ("sudo", "security", "delete-certificate", "-Z", SHA1, KEYCHAIN),
    )
    assert plan_trust(windows, AUTHORITY).commands == (("certutil", "-user", "-addstore", "Root", str(FILE)),)
    assert plan_undo(windows, AUTHORITY).commands == (("certutil", "-user", "-delstore", "Root", SHA1),)


@pytest.mark.parametrize(
    ("system", "said"),
    [
        (("freebsd14",), r"how this system \(freebsd14\) trusts an authority is not known"),
        (("linux", "update-ca-certificates"), "update-ca-certificates with /usr/local/share/ca-certificates"),
    ],
)
@pytest.mark.parametrize("plan", [plan_trust, plan_undo])
def test_another_system_is_refused_by_name(
    tmp_path: Path, system: tuple[str, ...], said: str, plan: Callable[..., object]
) -> None:
    with pytest.raises(CommandFailed, match=said) as refused:
        plan(machine(tmp_path, *system), AUTHORITY)
    assert refused.value.exit_code == 4


def test_without_root_and_sudo_nothing_is_planned(tmp_path: Path) -> None:
    linux = machine(tmp_path, "linux", "update-ca-trust", is_root=False, folder=FEDORA)
    with pytest.raises(CommandFailed, match="root alone, and there is no sudo"):
        plan_trust(linux, AUTHORITY)


Trust = Callable[..., Result]


class Debian:
    """A root directory, a program that stands for `update-ca-certificates`, and an authority's file."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.programs = root / "bin"
        self.programs.mkdir()
        self.machine = machine(root, "linux", "update-ca-certificates", folder=DEBIAN)
        monkeypatch.setattr(cert, "look_at_machine", lambda: self.machine)
        monkeypatch.setenv("PATH", str(self.programs), prepend=":")
        authority = Authority(root / "authority")
        authority.context()
        self.ca = authority.ca_path
        (self.leaf,) = self.ca.parent.glob("server-*.pem")

    def update_by(self, line: str) -> None:
        program = self.programs / "update-ca-certificates"
        program.write_text(f"#!/bin/sh\n{line}\n")
        program.chmod(0o755)

    def trust(self, *options: str, ca: Path | None = None, typed: str | None = None) -> Result:
        return CliRunner().invoke(mayfly, ["cert", "trust", "--ca-file", str(ca or self.ca), *options], input=typed)

    def anchors(self) -> list[bytes]:
        return [place.read_bytes() for place in (self.root / DEBIAN).iterdir()]


@pytest.fixture
def debian(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Debian:
    return Debian(tmp_path, monkeypatch)


def test_commands_run_in_order_after_they_were_shown(debian: Debian) -> None:
    log = debian.root / "log"
    debian.update_by(f'echo "$@" $(ls {debian.root / DEBIAN} | wc -l) >> {log}')
    done = debian.trust("-y")
    assert done.exit_code == 0 and done.stdout == "the store of Debian and Ubuntu has the certificate\n"
    assert debian.anchors() == [debian.ca.read_bytes()] and log.read_text() == "1\n"
    shown = done.stderr
    assert "Mayfly CA of " in shown and "SHA-256: " in shown and "private key can then pose" in shown
    assert "  install -m 644 /" in shown and shown.endswith("\n  update-ca-certificates\n")
    done = debian.trust("-y", "--undo")
    assert done.exit_code == 0 and "no longer has" in done.stdout and "pose" not in done.stderr
    assert debian.anchors() == [] and log.read_text() == "1\n--fresh 0\n"
    again = debian.trust("-y", "--undo")
    assert again.exit_code == 1 and "has not added this certificate" in again.stderr


def test_without_a_terminal_or_yes_nothing_is_done(debian: Debian) -> None:
    refused = debian.trust(typed="y\n")
    assert refused.exit_code == 4 and "update-ca-certificates" in refused.stderr
    assert debian.anchors() == []


def test_the_first_command_that_fails_ends_it(debian: Debian) -> None:
    debian.update_by("exit 3")
    failed = debian.trust("-y")
    assert failed.exit_code == 1 and "`update-ca-certificates` ended with 3" in failed.stderr
    debian.machine = debian.machine._replace(programs=frozenset({"sudo", "update-ca-certificates"}), is_root=False)
    (debian.programs / "sudo").write_text("#!/no/such/interpreter\n")
    (debian.programs / "sudo").chmod(0o755)
    failed = debian.trust("-y")
    assert failed.exit_code == 1 and "sudo cannot be run" in failed.stderr


@pytest.mark.parametrize("what", ["leaf", "key", "nothing"])
def test_what_is_no_authority_is_refused(debian: Debian, what: str) -> None:
    place = debian.root / "given.pem"
    leaf = debian.leaf.read_text().partition("-----BEGIN CERTIFICATE-----")
    content = {"leaf": leaf[1] + leaf[2].partition("-----BEGIN")[0], "key": leaf[0], "nothing": "é"}
    place.write_text(content[what])
    refused = debian.trust("-y", ca=place)
    said = {"leaf": (4, "no authority's"), "key": (1, "not one certificate"), "nothing": (1, "cannot be read")}
    assert refused.exit_code == said[what][0] and said[what][1] in refused.stderr
    assert debian.anchors() == []


@pytest.mark.skipif(UPDATE is None, reason="update-ca-certificates is not installed")
def test_debians_own_program_makes_clients_trust(debian: Debian) -> None:
    for name in ("certs", "hooks"):
        (debian.root / name).mkdir()
    (debian.root / "ca-certificates.conf").touch()
    other = Authority(debian.root / "other").ca_pem()
    (debian.root / DEBIAN / "other.crt").write_bytes(other)
    options = f"--certsconf {debian.root}/ca-certificates.conf --localcertsdir {debian.root / DEBIAN}"
    debian.update_by(f'{UPDATE} {options} --etccertsdir {debian.root}/certs --hooksdir {debian.root}/hooks "$@"')
    assert debian.trust("-y").exit_code == 0
    store = ssl.create_default_context(cafile=str(debian.root / "certs" / "ca-certificates.crt"))
    der = ssl.PEM_cert_to_DER_cert(debian.ca.read_text())
    assert der in store.get_ca_certs(binary_form=True)
    links = {place.name for place in (debian.root / "certs").iterdir() if place.is_symlink()}
    assert len(links) == 4, "by name, and by the hash that OpenSSL looks for"
    assert debian.trust("-y", "--undo").exit_code == 0
    assert len([place for place in (debian.root / "certs").iterdir() if place.is_symlink()]) == 2
    assert (debian.root / "certs" / "ca-certificates.crt").read_bytes() == other
