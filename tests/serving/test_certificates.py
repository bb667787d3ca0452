"""The authority is made once and stays; the certificate follows names and time."""

from __future__ import annotations

import contextlib
import socket
import ssl
import stat
from datetime import UTC, datetime
from pathlib import Path

import freezegun
import pytest
import time_machine
from cryptography import x509

from mayflydb.clock import wall_us
from mayflydb.model.instant import DAY
from mayflydb.serving import certificates
from mayflydb.serving.certificates import DEFAULT_NAMES, Authority, user_data_directory


def leaf_of(directory: Path) -> x509.Certificate:
    (place,) = directory.glob("server-*.pem")
    return x509.load_pem_x509_certificate(place.read_bytes())


def names_of(certificate: x509.Certificate) -> set[str]:
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {str(name.value) for name in names}


def test_nothing_is_made_before_it_is_needed(tmp_path: Path) -> None:
    Authority(tmp_path / "data")
    assert not (tmp_path / "data").exists()


def test_files_are_private_and_names_are_on_the_certificate(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    Authority(directory, ["db.test", "10.0.0.7"]).context()
    modes = {place.name: stat.S_IMODE(place.stat().st_mode) for place in directory.iterdir()}
    assert {name.partition("-")[0]: mode for name, mode in modes.items()} == {
        "ca.key": 0o600,
        "ca.pem": 0o644,
        "server": 0o600,
    }
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert names_of(leaf_of(directory)) >= {*DEFAULT_NAMES, "db.test", "10.0.0.7"}


def shake_hands(server: ssl.SSLContext, authority: str, name: str) -> None:
    """A client that trusts the authority connects to a name. SSLError if it refuses the certificate."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context(cadata=authority).wrap_bio(back, there, server_hostname=name)
    answering = server.wrap_bio(there, back, server_side=True)
    for side in (client, answering, client, answering):
        with contextlib.suppress(ssl.SSLWantReadError):
            side.do_handshake()
    assert client.version() == "TLSv1.3"


def test_clients_accept_the_certificate_by_each_of_its_names(tmp_path: Path) -> None:
    authority = Authority(tmp_path, ["db.test", "*.shop.test", "bücher.test", "10.0.0.7"])
    server, pem = authority.context(), authority.ca_pem().decode()
    given = ("db.test", "a.shop.test", "xn--bcher-kva.test", "10.0.0.7")
    for name in (*DEFAULT_NAMES, "0:0::1", socket.gethostname(), *given):
        shake_hands(server, pem, name)
    for name in ("shop.test", "a.b.shop.test", "10.0.0.8", "127.0.0.2", "localhost.test"):
        with pytest.raises(ssl.SSLCertVerificationError, match=r"mismatch|not valid for"):
            shake_hands(server, pem, name)


def test_a_later_server_shows_the_same_certificate(tmp_path: Path) -> None:
    first = Authority(tmp_path)
    first.context()
    pem, leaf = first.ca_pem(), leaf_of(tmp_path)
    second = Authority(tmp_path)
    second.context()
    assert (second.ca_pem(), leaf_of(tmp_path)) == (pem, leaf)


def test_other_names_get_a_certificate_of_the_same_authority(tmp_path: Path) -> None:
    Authority(tmp_path).context()
    pem = (tmp_path / "ca.pem").read_bytes()
    Authority(tmp_path, ["db.test"]).context()
    assert len(list(tmp_path.glob("server-*.pem"))) == 2
    assert (tmp_path / "ca.pem").read_bytes() == pem


@pytest.mark.parametrize(("days", "renewed"), [(300, False), (380, True)])
def test_a_certificate_is_renewed_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, days: int, renewed: bool
) -> None:
    Authority(tmp_path).context()
    before, pem = leaf_of(tmp_path), (tmp_path / "ca.pem").read_bytes()
    later = wall_us() + days * DAY
    monkeypatch.setattr(certificates, "host_us", lambda: later)
    Authority(tmp_path).context()
    assert (leaf_of(tmp_path) != before) is renewed
    assert (tmp_path / "ca.pem").read_bytes() == pem


def test_a_lost_authority_certificate_is_made_again_from_its_key(tmp_path: Path) -> None:
    Authority(tmp_path).context()
    before = x509.load_pem_x509_certificate((tmp_path / "ca.pem").read_bytes())
    (tmp_path / "ca.pem").unlink()
    after = x509.load_pem_x509_certificate(Authority(tmp_path).ca_pem())
    assert after.public_key() == before.public_key()
    leaf_of(tmp_path).verify_directly_issued_by(after)


def test_a_lost_key_makes_the_authority_and_the_certificate_anew(tmp_path: Path) -> None:
    Authority(tmp_path).context()
    before = leaf_of(tmp_path)
    (tmp_path / "ca.key").unlink()
    after = x509.load_pem_x509_certificate(Authority(tmp_path).ca_pem())
    Authority(tmp_path).context()
    assert leaf_of(tmp_path) != before
    leaf_of(tmp_path).verify_directly_issued_by(after)


def test_the_data_directory_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert user_data_directory({"XDG_DATA_HOME": "/x"}) == Path("/x/mayfly")
    assert user_data_directory({}) == tmp_path / ".local" / "share" / "mayfly"


@pytest.mark.parametrize("trip", [datetime(2020, 1, 1, tzinfo=UTC), datetime(2060, 1, 1, tzinfo=UTC)])
def test_a_trip_of_tests_changes_no_certificate(tmp_path: Path, trip: datetime) -> None:
    """Clients of TLS go by the host's time, which time-machine and freezegun do not move."""
    now = datetime.now(UTC)
    with time_machine.travel(trip):
        Authority(tmp_path).context()
    made = leaf_of(tmp_path)
    assert made.not_valid_before_utc < now < made.not_valid_after_utc
    files = {place: place.read_bytes() for place in tmp_path.iterdir()}
    with freezegun.freeze_time(trip):
        Authority(tmp_path).context()
    assert {place: place.read_bytes() for place in tmp_path.iterdir()} == files
