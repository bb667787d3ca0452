"""The certificate authority that all servers of a user share, created once, and the certificate of each server.

Clients that trust `ca.pem` also trust every later server of the same user.
"""

from __future__ import annotations

import contextlib
import hashlib
import socket
import ssl
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

from mayflydb.clock import host_us
from mayflydb.model.instant import to_datetime
from mayflydb.serving.private_files import write_private
from mayflydb.serving.trust import Trust

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.x509 import Certificate, GeneralName, KeyUsage, Name

CA_DAYS = 3650
LEAF_DAYS = 397
RENEW_DAYS = 30
DEFAULT_NAMES = ("localhost", "127.0.0.1", "::1", "mayfly", "host.docker.internal")


def user_data_directory(environ: Mapping[str, str]) -> Path:
    """Return the directory that a user's servers share: mayfly below $XDG_DATA_HOME, ~/.local/share or %LOCALAPPDATA%."""
    base = environ.get("LOCALAPPDATA" if sys.platform == "win32" else "XDG_DATA_HOME")
    return (Path(base) if base else Path.home() / ".local" / "share") / "mayfly"


class Authority:
    """Certificates below one directory. Several processes may use it at once."""

    def __init__(self, directory: Path, names: Sequence[str] = ()) -> None:
        """`names`: host names in the certificate besides DEFAULT_NAMES."""
        self._directory = directory
        self._pair: tuple[bytes, bytes] | None = None
        self._names = tuple(dict.fromkeys((*DEFAULT_NAMES, socket.gethostname(), *names)))

    @property
    def ca_path(self) -> Path:
        """The authority's certificate, for clients to trust."""
        return self._directory / "ca.pem"

    def ca_pem(self) -> bytes:
        """Return the authority's certificate (PEM). Create it if there is none."""
        self._ca()
        return self.ca_path.read_bytes()

    def has_changed(self) -> bool:
        """Return False: a server keeps its leaf until it ends."""
        return False

    def trust(self) -> Trust:
        """Return what a client of this machine checks the server's certificate with."""
        return Trust(self.ca_pem())

    def context(self) -> ssl.SSLContext:
        """Return a server's TLS settings: TLS 1.2 and later. Create a certificate for these names if there is none."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self._leaf())
        return context

    def pair(self) -> tuple[bytes, bytes]:
        """Return a server's private key and its chain of certificates, both PEM. Create them if there are none."""
        if self._pair is None:
            key, mark, chain = self._leaf().read_bytes().partition(b"-----BEGIN CERTIFICATE-----")
            self._pair = key, mark + chain
        return self._pair

    def _ca(self) -> tuple[EllipticCurvePrivateKey, Certificate]:
        from cryptography import x509

        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        key = self._ca_key()
        with contextlib.suppress(OSError, ValueError):
            certificate = x509.load_pem_x509_certificate(self.ca_path.read_bytes())
            if _is_current(certificate) and certificate.public_key() == key.public_key():
                return key, certificate
        # Two processes may both come here. Their certificates have one key and one name: either verifies what the other signs.
        certificate = _sign_ca(key)
        write_private(self.ca_path, _pem(certificate), mode=0o644, replace=True)
        return key, certificate

    def _ca_key(self) -> EllipticCurvePrivateKey:
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        place = self._directory / "ca.key"
        if not place.exists():
            write_private(place, _key_pem(ec.generate_private_key(ec.SECP256R1())))
        key = load_pem_private_key(place.read_bytes(), None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError(f"{place} is not a key of Mayfly's")
        return key

    def _leaf(self) -> Path:
        """Return the path of a file with the server's key, its certificate and the authority's."""
        from cryptography import x509
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric import ec

        ca_key, ca = self._ca()
        # One file for each set of names: servers with other names run beside this one and must not overwrite it.
        digest = hashlib.sha256("\n".join(self._names).encode()).hexdigest()[:12]
        place = self._directory / f"server-{digest}.pem"
        with contextlib.suppress(OSError, ValueError, InvalidSignature):
            certificate = x509.load_pem_x509_certificate(place.read_bytes())
            # Fails after the authority was made anew: the old certificate would be refused by clients.
            certificate.verify_directly_issued_by(ca)
            if _is_current(certificate):
                return place
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _sign_leaf(key, self._names, ca_key, ca)
        write_private(place, _key_pem(key) + _pem(certificate) + _pem(ca), replace=True)
        return place


def _now() -> datetime:
    # Clients compare with the host's time, on a trip of tests too. A virtual clock of the database has no part in this.
    return to_datetime(host_us())


def _is_current(certificate: Certificate) -> bool:
    return certificate.not_valid_before_utc <= _now() < certificate.not_valid_after_utc - timedelta(days=RENEW_DAYS)


def _sign_ca(key: EllipticCurvePrivateKey) -> Certificate:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    name = _name(f"Mayfly CA of {socket.gethostname()}"[:64])
    return (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        # A day early, for clients whose clocks are behind.
        .not_valid_before(_now() - timedelta(days=1))
        .not_valid_after(_now() + timedelta(days=CA_DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )


def _sign_leaf(
    key: EllipticCurvePrivateKey, names: Sequence[str], ca_key: EllipticCurvePrivateKey, ca: Certificate
) -> Certificate:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import ExtendedKeyUsageOID

    public = key.public_key()
    return (
        x509.CertificateBuilder(ca.subject, _name("localhost"), public, x509.random_serial_number())
        .not_valid_before(_now() - timedelta(days=1))
        .not_valid_after(_now() + timedelta(days=LEAF_DAYS))
        .add_extension(x509.SubjectAlternativeName([_alternative(name) for name in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, hashes.SHA256())
    )


def _name(common: str) -> Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name(
        [x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Mayfly"), x509.NameAttribute(NameOID.COMMON_NAME, common)]
    )


def _alternative(name: str) -> GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name.encode("idna").decode())


def _usage(*, signs_certificates: bool) -> KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: Certificate) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM)


def _key_pem(key: EllipticCurvePrivateKey) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
