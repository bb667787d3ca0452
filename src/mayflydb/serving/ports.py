"""Binding of ports, and files of secrets that only their owner may read."""

from __future__ import annotations

import errno
import socket
from collections.abc import Sequence
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path

from mayflydb.announcement import StartFailed
from mayflydb.config.values import is_loopback
from mayflydb.serving.listener_checks import ListenAddress
from mayflydb.serving.private_files import write_private
from mayflydb.serving.trust import Trust
from mayflydb.sockets.listener import bind


def bind_listening(host: str, port: int, setting: str, flag: str) -> list[socket.socket]:
    """Return listening sockets. StartFailed for a taken port names `setting`, and `flag`, which picks a free port with 0."""
    return _bind(host, port, setting, flag, listening=True)


def reserve(host: str, port: int, setting: str, flag: str) -> list[socket.socket]:
    """Return sockets that hold a port for a later listener. Errors as in `bind_listening`."""
    return _bind(host, port, setting, flag, listening=False)


def _bind(host: str, port: int, setting: str, flag: str, *, listening: bool) -> list[socket.socket]:
    try:
        return bind(host, port, listening=listening)
    except socket.gaierror as error:
        raise StartFailed(f"{host} is no address of this machine", setting="server.host") from error
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise StartFailed(f"port {port} is taken", setting=setting, hint=f"{flag} 0 picks a free one") from error
        cause = setting if error.errno == errno.EACCES else "server.host"
        raise StartFailed(f"cannot listen on {host}: {error.strerror}", setting=cause) from error


def is_reachable(sockets: Sequence[socket.socket]) -> bool:
    """True: other machines can connect to one of these sockets."""
    return not all(is_loopback(each.getsockname()[0]) for each in sockets)


def address_of(listening: socket.socket) -> str:
    """Return `127.0.0.1:8081`: numeric, and the loopback address for a socket that listens on all addresses."""
    return _listen_address(listening).address


def listen_addresses(listening: Sequence[socket.socket], trusted: Trust | None = None) -> list[ListenAddress]:
    """Return the addresses of these sockets. `trusted`: for connections with TLS."""
    return [_listen_address(each)._replace(trusted=trusted) for each in listening]


def checked_addresses(
    listening: Sequence[socket.socket], trusted: Trust | None, requires_tls: bool
) -> list[ListenAddress]:
    """Return the addresses to ask at the start: without TLS unless it is required, and with TLS where `trusted` is given."""
    plain = [] if requires_tls else listen_addresses(listening)
    return [*plain, *(listen_addresses(listening, trusted) if trusted else ())]


def _listen_address(listening: socket.socket) -> ListenAddress:
    host, port = listening.getsockname()[:2]
    if ip_address(host).is_unspecified:
        host = "127.0.0.1" if listening.family == socket.AF_INET else "::1"
    return ListenAddress(host, port)


def create_secret(place: Path, content: bytes, setting: str) -> None:
    """Write a secret to a file, unless the file exists. StartFailed names `setting` if it cannot be written."""
    # Two servers may start at once: `write_private` keeps the first one's secret, and both read it back.
    if not place.exists():
        _write_secret(place, content, setting, replace=False)


def replace_secret(place: Path, content: bytes, setting: str) -> None:
    """Write a secret to a file, whether or not the file exists. Errors as in `create_secret`."""
    _write_secret(place, content, setting, replace=True)


def _write_secret(place: Path, content: bytes, setting: str, *, replace: bool) -> None:
    try:
        write_private(place, content + b"\n", replace=replace)
    except OSError as error:
        raise StartFailed(f"{place} cannot be written: {error.strerror}", setting=setting) from error


def read_password(place: Path, setting: str) -> str:
    """Read a password without blanks around it. StartFailed names `setting` if the file cannot be read or is empty."""
    try:
        password = place.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise StartFailed(f"{place} cannot be read: {error}", setting=setting, exit_code=2) from error
    if not password:
        raise StartFailed(f"{place} holds no password", setting=setting, exit_code=2)
    return password


def require_package(module: str, protocol: str, extra: str, setting: str) -> None:
    """StartFailed, with the way out, if the package is not installed by which a protocol is served."""
    if find_spec(module) is None:
        raise StartFailed(
            f"{protocol} cannot be served: there is no module {module}",
            setting=setting,
            hint=f'pip install "mayflydb[{extra}]", or serve without it: --{setting.replace(".", "-")} -1',
        )
