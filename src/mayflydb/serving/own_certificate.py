"""A certificate that a person gives to a server, in the place of one of Mayfly's authority: PEM files, or one PFX file."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import secrets
import ssl
import threading
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mayflydb.announcement import StartFailed
from mayflydb.clock import host_us
from mayflydb.config.settings import Settings
from mayflydb.model.instant import to_datetime
from mayflydb.serving.ports import read_password
from mayflydb.serving.private_files import write_private
from mayflydb.serving.trust import Trust

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
    from cryptography.x509 import Certificate

log = logging.getLogger("mayflydb.server")

SOON: Final = timedelta(days=30)
"""The last days of a certificate, of which a start warns."""

_FILE, _KEY, _PASSWORD = "tls.cert_file", "tls.key_file", "tls.key_password_file"

_PEM: Final = b"-----BEGIN "


class OwnCertificate:
    """A certificate with its private key, and the certificates that signed it."""

    def __init__(
        self, key: PrivateKeyTypes, chain: Sequence[Certificate], names: Sequence[str], directory: Path
    ) -> None:
        """`chain`: the server's certificate first. `names`: those that it is made out to. `directory`: for files."""
        self._key, self._chain, self._directory = key, chain, directory
        self.names = names
        digest = hashlib.sha256(_pem(chain[-1:])).hexdigest()[:12]
        self._ca_path = directory / f"trusted-{digest}.pem"

    @property
    def ca_path(self) -> Path:
        """The file of the certificate that clients have to trust, if their machines do not already."""
        return self._ca_path

    def ca_pem(self) -> bytes:
        """Return the last certificate of the chain (PEM), which clients have to trust, and write its file. OSError."""
        pem = _pem(self._chain[-1:])
        if not self._ca_path.exists():
            write_private(self._ca_path, pem, mode=0o644, replace=True)
        return pem

    def trust(self) -> Trust:
        """Return what a client of this machine checks the server's certificate with."""
        return Trust(_pem(self._chain), self.names[0].replace("*", "mayfly", 1))

    def pair(self) -> tuple[bytes, bytes]:
        """Return the private key and the chain of certificates, both PEM."""
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

        return self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), _pem(self._chain)

    def context(self) -> ssl.SSLContext:
        """Return a server's TLS settings: TLS 1.2 and later. OSError or ValueError for a certificate that TLS does not take."""
        from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # Python's ssl takes a file alone. The key is in it under a password that is nowhere else.
        password = secrets.token_hex(32)
        hidden = self._key.private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password.encode("ascii"))
        )
        place = self._directory / f"served-{os.getpid()}-{secrets.token_hex(8)}.pem"
        write_private(place, hidden + _pem(self._chain))
        try:
            context.load_cert_chain(place, password=password)
        finally:
            with contextlib.suppress(OSError):
                place.unlink()
        return context


class RenewedCertificate:
    """The certificate in files that may be replaced while the server runs. A replacement that clients would refuse is not served.

    Looks at the files when a client connects. They may be replaced one after the other: between the two the old pair is served.
    """

    def __init__(self, settings: Settings, directory: Path, loaded: OwnCertificate) -> None:
        """`loaded`: from the files as they are now. `directory`: for the files that are made of it."""
        self._settings = settings
        self._directory = directory
        self._loaded = loaded
        self._reading = threading.Lock()
        self._seen = self._look()

    @property
    def ca_path(self) -> Path:
        """The file of the certificate that clients have to trust, if their machines do not already."""
        return self._loaded.ca_path

    def has_changed(self) -> bool:
        """Return whether a file was replaced since the files were read."""
        return self._look() != self._seen

    def ca_pem(self) -> bytes:
        """Return the certificate that clients have to trust, as of OwnCertificate."""
        return self._renew().ca_pem()

    def trust(self) -> Trust:
        """Return what a client of this machine checks the server's certificate with."""
        return self._renew().trust()

    def pair(self) -> tuple[bytes, bytes]:
        """Return the private key and the chain of certificates, both PEM."""
        return self._renew().pair()

    def context(self) -> ssl.SSLContext:
        """Return a server's TLS settings, as of OwnCertificate."""
        return self._renew().context()

    def _renew(self) -> OwnCertificate:
        """Return the certificate, read anew where a file was replaced. Another thread may call this."""
        with self._reading:
            found = self._look()
            if found != self._seen:
                self._seen = found
                try:
                    self._loaded = load_own_certificate(self._settings, self._directory) or self._loaded
                except StartFailed as error:
                    log.error("the certificate was replaced, and the old one is still served: %s", error)
            return self._loaded

    def _look(self) -> list[tuple[int, int, int] | None]:
        """Return what tells the files from others of the same names; None: there is none."""
        tls = self._settings.tls
        return [_mark(each) for each in (tls.cert_file, tls.key_file, tls.key_password_file) if each is not None]


def _mark(place: Path) -> tuple[int, int, int] | None:
    try:
        found = place.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def load_own_certificate(settings: Settings, directory: Path) -> OwnCertificate | None:
    """Load the certificate that the settings name; None: they name none. StartFailed for one that clients would refuse.

    `directory`: for the files that are made of it.
    """
    place = settings.tls.cert_file
    if place is None:
        return None
    key, certificates = _load(settings, place)
    chain = _order(key, certificates, settings.tls.key_file or place, place)
    names = _names(chain[0])
    if not names:
        raise _build_failure(f"the certificate in {place} has no names (subjectAltName): clients refuse it")
    _check_time(chain[0], place)
    _warn_of_names(settings, names, place)
    own = OwnCertificate(key, chain, names, directory)
    try:
        own.context()
    except (OSError, ValueError) as error:
        raise _build_failure(f"the certificate in {place} cannot be served: {error}") from error
    log.info("the certificate in %s is served, for %s", place, ", ".join(names))
    return own


def _load(settings: Settings, place: Path) -> tuple[PrivateKeyTypes, list[Certificate]]:
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import load_pem_private_key, pkcs12

    content, key_file = _read(place, _FILE), settings.tls.key_file
    setting, password = _password(settings)
    if _PEM not in content:
        if key_file is not None:
            raise _build_failure(
                f"{place} is no PEM file, and a PFX file has its own key", _KEY, "leave out --tls-key-file"
            )
        try:
            key, certificate, others = pkcs12.load_key_and_certificates(content, password)
        except ValueError as error:
            text = f"{place} is neither PEM nor a PFX file that this password opens: {error}"
            raise _build_failure(text, setting, "give --tls-key-password-file") from error
        if key is None or certificate is None:
            raise _build_failure(f"{place} holds no certificate with its private key")
        return key, [certificate, *others]
    try:
        certificates = x509.load_pem_x509_certificates(content)
    except ValueError as error:
        raise _build_failure(f"{place} holds no certificate: {error}") from error
    where = place if key_file is None else key_file
    try:
        return load_pem_private_key(content if key_file is None else _read(key_file, _KEY), password), certificates
    except TypeError as error:
        # Without a password for a key that has one, or the reverse.
        raise _build_failure(f"the private key in {where} cannot be read: {error}", setting, _HINT) from error
    except ValueError as error:
        text = f"{where} holds no private key that can be read: {error}"
        raise _build_failure(text, _FILE if key_file is None else _KEY, _HINT) from error


_HINT: Final = "--tls-key-file names the key, --tls-key-password-file its password where it has one"


def _read(place: Path, setting: str) -> bytes:
    try:
        return place.read_bytes()
    except OSError as error:
        raise _build_failure(f"{place} cannot be read: {error.strerror}", setting) from error


def _password(settings: Settings) -> tuple[str, bytes | None]:
    """Return the setting that gives the password of the key, and the password; None: it has none."""
    if (place := settings.tls.key_password_file) is not None:
        return _PASSWORD, read_password(place, _PASSWORD).encode()
    if settings.drop_in is not None and settings.drop_in.certificate_secret is not None:
        return "CERT_SECRET", settings.drop_in.certificate_secret.encode()
    return _PASSWORD, None


def _order(key: PrivateKeyTypes, found: Sequence[Certificate], key_place: Path, place: Path) -> list[Certificate]:
    """Return the certificate of the key, then each that signed the one before it."""
    own = next((each for each in found if each.public_key() == key.public_key()), None)
    if own is None:
        raise _build_failure(f"the private key in {key_place} is not that of the certificate in {place}", _KEY)
    chain, rest = [own], [each for each in found if each is not own]
    while (signer := next((each for each in rest if each.subject == chain[-1].issuer), None)) is not None:
        chain.append(signer)
        rest.remove(signer)
    return chain


def _names(certificate: Certificate) -> list[str]:
    """Return the names that a certificate is made out to, DNS names first."""
    from cryptography import x509

    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    addresses = names.get_values_for_type(x509.IPAddress)
    return [*names.get_values_for_type(x509.DNSName), *map(str, addresses)]


def _check_time(certificate: Certificate, place: Path) -> None:
    # Clients compare with their own time. A virtual clock of the database has no part in this.
    now, begin, end = to_datetime(host_us()), certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if now >= end:
        raise _build_failure(f"the certificate in {place} has expired: it was valid until {end:%Y-%m-%d %H:%M} UTC")
    if now < begin:
        raise _build_failure(f"the certificate in {place} is not valid yet: it is from {begin:%Y-%m-%d %H:%M} UTC on")
    if now >= end - SOON:
        log.warning("the certificate in %s expires at %s UTC", place, f"{end:%Y-%m-%d %H:%M}")


def _warn_of_names(settings: Settings, names: Sequence[str], place: Path) -> None:
    server = settings.server
    used = (*settings.tls.names, *server.advertised_names, *server.bound_names) or ("localhost",)
    missing = [name for name in dict.fromkeys(used) if not any(_covers(each, name) for each in names)]
    if missing:
        log.warning(
            "the certificate in %s is not made out to %s: clients that connect by this name refuse it",
            place,
            ", ".join(missing),
        )


def _covers(pattern: str, name: str) -> bool:
    if pattern.startswith("*."):
        return name.partition(".")[2].lower() == pattern[2:].lower()
    return pattern.lower() == name.lower()


def _build_failure(text: str, setting: str = _FILE, hint: str = "") -> StartFailed:
    return StartFailed(text, setting=setting, hint=hint, exit_code=2)


def _pem(certificates: Sequence[Certificate]) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return b"".join(each.public_bytes(Encoding.PEM) for each in certificates)
