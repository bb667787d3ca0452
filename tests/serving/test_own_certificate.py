"""A certificate of one's own: PEM or PFX, on all ports, and refused at the start where clients would refuse it."""

from __future__ import annotations

import json
import logging
import ssl
from collections.abc import Sequence
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID
from pymongo import MongoClient

from mayflydb.announcement import StartFailed
from mayflydb.cli.main import mayfly
from mayflydb.clock import wall_us
from mayflydb.config import load
from mayflydb.embedded import RunningServer, running, serve
from mayflydb.model.instant import to_datetime
from served import port_of

ydb: Any = pytest.importorskip("ydb")

SECRET = "canary-of-a-certificate"
FREE: dict[str, Any] = {"memory": True, "port": 0, "mongo_port": 0, "ydb_port": -1, "ydb_tls_port": -1}

Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


@pytest.fixture(autouse=True)
def own_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path / "data" / "mayfly"


def sign(
    names: Sequence[str], key: Key, signer: tuple[Key, x509.Certificate] | None = None, begin: int = -1, end: int = 90,
    subject: str = "db",
) -> x509.Certificate:  # fmt: skip
    """A certificate for these names, valid from a day to a day, counted from today. Without a signer it signs itself."""
    now = to_datetime(wall_us())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)])
    issuer = name if signer is None else signer[1].subject
    builder = x509.CertificateBuilder(issuer, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now + timedelta(days=begin)).not_valid_after(now + timedelta(days=end))
    if names:
        given = [x509.IPAddress(ip_address(each)) if each[0].isdigit() else x509.DNSName(each) for each in names]
        builder = builder.add_extension(x509.SubjectAlternativeName(given), critical=False)
    else:
        builder = builder.add_extension(x509.BasicConstraints(ca=signer is None, path_length=None), critical=True)
    return builder.sign(key if signer is None else signer[0], hashes.SHA256())


def pem(*certificates: x509.Certificate) -> bytes:
    return b"".join(each.public_bytes(Encoding.PEM) for each in certificates)


def key_pem(key: Key, password: str = "") -> bytes:
    hidden = BestAvailableEncryption(password.encode()) if password else NoEncryption()
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, hidden)


class Files:
    """An authority, and a certificate of it for localhost and 127.0.0.1, in files of each form."""

    def __init__(self, place: Path, key: Key) -> None:
        self.ca_key = ca_key = ec.generate_private_key(ec.SECP256R1())
        self.ca = sign((), ca_key, subject="a company")
        self.leaf = sign(("localhost", "127.0.0.1"), key, (ca_key, self.ca))
        self.place = place
        self.write("trusted.pem", pem(self.ca))
        self.write("chain.pem", pem(self.leaf, self.ca))
        self.write("all.pem", key_pem(key) + pem(self.leaf, self.ca))
        self.write("key.pem", key_pem(key))
        self.write("hidden.pem", key_pem(key, SECRET))
        self.write("password", SECRET.encode() + b"\n")
        hidden = BestAvailableEncryption(SECRET.encode())
        self.write("all.pfx", pkcs12.serialize_key_and_certificates(b"db", key, self.leaf, [self.ca], hidden))
        self.write("open.pfx", pkcs12.serialize_key_and_certificates(b"db", key, self.leaf, [self.ca], NoEncryption()))

    def write(self, name: str, content: bytes) -> str:
        (self.place / name).write_bytes(content)
        return str(self.place / name)

    def settings(self, **names: str) -> dict[str, Any]:
        return {setting: str(self.place / name) for setting, name in names.items()}


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path, ec.generate_private_key(ec.SECP256R1()))


FORMS: list[dict[str, str]] = [
    {"tls_cert_file": "all.pem"},
    {"tls_cert_file": "chain.pem", "tls_key_file": "key.pem"},
    {"tls_cert_file": "chain.pem", "tls_key_file": "hidden.pem", "tls_key_password_file": "password"},
    {"tls_cert_file": "all.pfx", "tls_key_password_file": "password"},
    {"tls_cert_file": "open.pfx"},
]


def served(port: int) -> x509.Certificate:
    return x509.load_pem_x509_certificate(ssl.get_server_certificate(("127.0.0.1", port), timeout=10).encode())


@pytest.mark.parametrize("form", FORMS, ids=lambda form: "-".join(form.values()))
def test_each_form_is_served(
    files: Files, form: dict[str, str], own_data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with serve(**{**FREE, "mongo_port": -1}, **files.settings(**form)) as server:
        assert served(port_of(server)) == files.leaf
        assert server.cosmos.ca_file.read_bytes() == pem(files.ca)
    assert not [each for each in own_data.iterdir() if "served" in each.name or "ca.key" in each.name]
    assert SECRET not in caplog.text and "WARNING" not in caplog.text


def test_all_ports_and_the_command_tell_it(files: Files, tmp_path: Path) -> None:
    """The vendors' clients verify it, and the checks of a start with https do."""
    settings = {**FREE, "ydb_tls_port": 0, "scheme": "https", **files.settings(tls_cert_file="all.pfx")}
    with serve(**settings, tls_key_password_file=str(tmp_path / "password")) as server:
        assert served(port_of(server)) == files.leaf
        host = server.mongo.uri.partition("://")[2].partition("/")[0]
        with MongoClient[dict[str, Any]](
            f"mongodb://{host}/?directConnection=true", tls=True, tlsCAFile=str(tmp_path / "trusted.pem")
        ) as client:
            client.shop.carts.insert_one({"_id": 1})
        told = server._server.certificates.trust()
        endpoint = server.ydb.endpoint
        assert endpoint.startswith("grpcs://")
        config = ydb.DriverConfig(
            endpoint,
            "/local",
            credentials=ydb.AnonymousCredentials(),
            root_certificates=(tmp_path / "trusted.pem").read_bytes(),
        )
        with ydb.Driver(config) as driver:
            driver.wait(timeout=20, fail_fast=True)
        assert told.name == "localhost"
        result = CliRunner().invoke(mayfly, ["--url", f"http://127.0.0.1:{port_of(server)}", "cert", "show"])
        shown = json.loads(result.stdout)
        assert shown["in_use"]["from"] == "a file of your own (tls.cert_file)"
        assert shown["in_use"]["names"] == ["localhost", "127.0.0.1"]
        assert shown["sha256"].replace(":", "").lower() == files.ca.fingerprint(hashes.SHA256()).hex()
    with serve(**{**FREE, "mongo_port": -1}) as server:
        shown = json.loads(CliRunner().invoke(mayfly, ["--url", server.admin_url, "cert", "show"]).stdout)
        assert shown["in_use"]["from"] == "Mayfly's authority" and "localhost" in shown["in_use"]["names"]


def test_a_replaced_certificate_is_served_without_a_restart(
    files: Files, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    form = files.settings(tls_cert_file="chain.pem", tls_key_file="key.pem")
    with serve(**{**FREE, "ydb_tls_port": 0}, **form) as server:
        ports = (port_of(server), *(int(uri.rpartition(":")[2].partition("/")[0]) for uri in _others(server)))
        assert [served(port) for port in ports] == [files.leaf] * 3
        key = ec.generate_private_key(ec.SECP256R1())
        renewed = sign(["localhost", "127.0.0.1"], key, (files.ca_key, files.ca))
        (tmp_path / "chain.pem").write_bytes(pem(renewed, files.ca))
        # The key is still the old one.
        assert [served(port) for port in ports] == [files.leaf] * 3
        assert "the old one is still served: the private key in" in caplog.text
        (tmp_path / "key.pem").write_bytes(key_pem(key))
        assert [served(port) for port in ports] == [renewed] * 3


def _others(server: RunningServer) -> tuple[str, str]:
    return server.mongo.uri, server.ydb.tls_endpoint


def test_a_name_that_is_not_localhost(files: Files, caplog: pytest.LogCaptureFixture) -> None:
    """The checks of the start use a name of the certificate; a signer that is not in the file is none of their matter."""
    key = rsa.generate_private_key(65537, 2048)
    ca_key = ec.generate_private_key(ec.SECP256R1())
    leaf = sign(("*.shop.test",), key, (ca_key, files.ca), end=20)
    own = files.write("own.pem", key_pem(key) + pem(leaf))
    with serve(**{**FREE, "ydb_tls_port": 0}, scheme="https", tls_cert_file=own, tls_name=["db.shop.test", "db.test"]):
        pass
    warnings = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert any("expires at " in each for each in warnings)
    assert any("is not made out to db.test: " in each for each in warnings)
    assert not any("db.shop.test" in each for each in warnings)


def test_what_clients_would_refuse_is_refused_at_the_start(files: Files, tmp_path: Path) -> None:
    key, other = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    own: dict[str, dict[str, Any]] = {"past": {"end": -1, "begin": -9}, "future": {"begin": 1}}
    for name, times in own.items():
        files.write(f"{name}.pem", key_pem(key) + pem(sign(("localhost",), key, **times)))
    files.write("nameless.pem", key_pem(key) + pem(sign((), key)))
    files.write("other.pem", key_pem(other))
    files.write("nothing", b"nothing")
    files.write("torn.pem", b"-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----\n")
    for names, setting, said in (
        ({"tls_cert_file": "past.pem"}, "tls.cert_file", "has expired: it was valid until"),
        ({"tls_cert_file": "future.pem"}, "tls.cert_file", "is not valid yet"),
        ({"tls_cert_file": "nameless.pem"}, "tls.cert_file", "has no names"),
        ({"tls_cert_file": "chain.pem", "tls_key_file": "other.pem"}, "tls.key_file", "is not that of the certificate"),
        ({"tls_cert_file": "chain.pem"}, "tls.cert_file", "holds no private key"),
        ({"tls_cert_file": "key.pem"}, "tls.cert_file", "holds no certificate"),
        ({"tls_cert_file": "torn.pem"}, "tls.cert_file", "holds no certificate"),
        ({"tls_cert_file": "none.pem"}, "tls.cert_file", "cannot be read: No such file"),
        ({"tls_cert_file": "chain.pem", "tls_key_file": "none.pem"}, "tls.key_file", "cannot be read: No such file"),
        ({"tls_cert_file": "chain.pem", "tls_key_file": "hidden.pem"}, "tls.key_password_file", "cannot be read"),
        ({"tls_cert_file": "all.pem", "tls_key_password_file": "password"}, "tls.key_password_file", "cannot be read"),
        ({"tls_cert_file": "all.pfx"}, "tls.key_password_file", "that this password opens"),
        ({"tls_cert_file": "all.pfx", "tls_key_password_file": "key.pem"}, "tls.key_password_file", "password opens"),
        ({"tls_cert_file": "nothing"}, "tls.key_password_file", "neither PEM nor a PFX"),
        ({"tls_cert_file": "all.pfx", "tls_key_file": "key.pem"}, "tls.key_file", "a PFX file has its own key"),
        ({"tls_key_file": "key.pem"}, "tls.key_file", "no certificate of your own"),
        ({"tls_key_password_file": "password"}, "tls.key_password_file", "no certificate of your own"),
    ):
        with pytest.raises(StartFailed) as caught, serve(**FREE, **files.settings(**names)):
            pass
        assert (caught.value.setting, caught.value.exit_code) == (setting, 2), names
        assert said in caught.value.message and SECRET not in caught.value.message, names


def test_the_variables_of_the_emulators_image(files: Files, tmp_path: Path) -> None:
    environ = {"CERT_PATH": str(tmp_path / "all.pfx"), "CERT_SECRET": SECRET, "HOME": str(tmp_path)}
    flags = {"server.drop_in": True, "server.port": 0, "mongo.port": -1, "ydb.port": -1, "ydb.tls_port": -1}
    from mayflydb.config import MEMORY, RawValue

    given = {name: RawValue(value, "flag") for name, value in (flags | {"storage.url": MEMORY}).items()}
    settings = load(given, environ, search=False).settings
    assert SECRET not in repr(settings)
    with running(settings) as server:
        assert served(port_of(server)) == files.leaf
        assert SECRET in list(server._server.secrets)
