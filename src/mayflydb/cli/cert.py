"""`mayfly cert`: the certificate of the authority that clients of TLS have to trust."""

from __future__ import annotations

import hashlib
import ssl
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import click

from mayflydb.cli.admin import NOT_READY, CommandFailed, admin_client
from mayflydb.cli.output import output_option, show
from mayflydb.model.instant import from_datetime, to_rfc3339

FORMATS: Final = ("pem", "der", "pkcs12")

JAVA_PASSWORD: Final = "changeit"  # noqa: S105 - it keeps nothing secret: Java wants one
"""The password of the truststore that comes with Java."""


@click.group()
def cert() -> None:
    """Show and export the certificate that clients of TLS have to trust."""


@cert.command("show")
@output_option
@click.pass_context
def show_certificate(ctx: click.Context) -> None:
    """Show the certificate in use, and the fingerprint (SHA-256) of the one that clients have to trust.

    In use is one of Mayfly's own authority, or one of your own (`--tls-cert-file`).
    """
    client = admin_client(ctx)
    trusted = ssl.PEM_cert_to_DER_cert(client.read_certificate())
    show(ctx, {"sha256": _fingerprint(trusted), "in_use": _describe_served(client.origin, trusted)})


def _describe_served(origin: str, trusted: bytes) -> dict[str, Any]:
    """Describe the certificate that a server shows to clients of TLS. It is not verified."""
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature

    base = urlsplit(origin)
    host = base.hostname or "localhost"
    try:
        pem = ssl.get_server_certificate((host, base.port or 443), timeout=10)
    except OSError as error:
        raise CommandFailed(f"no certificate is shown at {origin}: {error}", exit_code=NOT_READY) from error
    served = x509.load_pem_x509_certificate(pem.encode("ascii"))
    authority = x509.load_der_x509_certificate(trusted)
    made = False
    # Only Mayfly's authorities have this name.
    if "CN=Mayfly CA of " in authority.subject.rfc4514_string():
        with suppress(ValueError, TypeError, InvalidSignature):
            served.verify_directly_issued_by(authority)
            made = True
    names = served.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {
        "from": "Mayfly's authority" if made else "a file of your own (tls.cert_file)",
        "names": [*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))],
        "issuer": served.issuer.rfc4514_string(),
        "valid_until": to_rfc3339(from_datetime(served.not_valid_after_utc)),
        "sha256": _fingerprint(ssl.PEM_cert_to_DER_cert(pem)),
    }


def _fingerprint(der: bytes) -> str:
    digest = hashlib.sha256(der).hexdigest().upper()
    return ":".join(digest[n : n + 2] for n in range(0, len(digest), 2))


@cert.command()
@click.argument("path", required=False, type=click.Path(path_type=Path, dir_okay=False))
@click.option("--format", "form", type=click.Choice(FORMATS), help="Default: that of PATH's ending, else pem.")
@click.option("--password", metavar="TEXT", help=f"Of a pkcs12 file. Default: {JAVA_PASSWORD}, as Java's own.")
@click.pass_context
def export(ctx: click.Context, path: Path | None, form: str | None, password: str | None) -> None:
    """Write the authority's certificate to PATH, or to standard output.

    pkcs12 is a truststore of Java 8 and later, in which the certificate is trusted under the name mayfly. Files that end in
    .p12 or .pfx have this format, and .der files have der.
    """
    form = form or _format_of(path)
    if password is not None and form != "pkcs12":
        raise click.UsageError("--password goes with pkcs12 alone: the certificate is public", ctx)
    if password == "":
        raise click.UsageError("Java opens no pkcs12 file whose password is empty", ctx)
    if path is None and form != "pem" and sys.stdout.isatty():
        raise click.UsageError(f"{form} is no text for a terminal: give PATH", ctx)
    content = _encode(admin_client(ctx).read_certificate(), form, password or JAVA_PASSWORD)
    if path is None:
        click.echo(content, nl=False)
        return
    try:
        path.write_bytes(content)
    except OSError as error:
        raise CommandFailed(f"{path} cannot be written: {error.strerror}") from error


def _format_of(path: Path | None) -> str:
    ending = "" if path is None else path.suffix.lower()
    if ending in (".jks", ".keystore"):
        raise click.UsageError("Java's older format, JKS, is not written: every Java from 8 on reads pkcs12 (.p12)")
    return {".der": "der", ".p12": "pkcs12", ".pfx": "pkcs12"}.get(ending, "pem")


def _encode(pem: str, form: str, password: str) -> bytes:
    if form == "pem":
        return pem.encode("ascii")
    if form == "der":
        return ssl.PEM_cert_to_DER_cert(pem)
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12
    from cryptography.x509 import load_pem_x509_certificate

    # Java trusts the entries alone that carry an attribute of its own, which this function adds.
    entry = pkcs12.PKCS12Certificate(load_pem_x509_certificate(pem.encode("ascii")), b"mayfly")
    return pkcs12.serialize_java_truststore([entry], BestAvailableEncryption(password.encode()))


@cert.command()
def trust() -> None:
    """Print the commands by which a system trusts the certificate. They change nothing until you run them."""
    click.echo(
        "mayfly cert export mayfly-ca.crt\n"
        "# Debian, Ubuntu\n"
        "sudo cp mayfly-ca.crt /usr/local/share/ca-certificates/ && sudo update-ca-certificates\n"
        "# Fedora, RHEL\n"
        "sudo cp mayfly-ca.crt /etc/pki/ca-trust/source/anchors/ && sudo update-ca-trust\n"
        "# macOS\n"
        "sudo security add-trusted-cert -d -k /Library/Keychains/System.keychain mayfly-ca.crt\n"
        "# Windows\n"
        "certutil -addstore -user Root mayfly-ca.crt\n"
        "# Python: REQUESTS_CA_BUNDLE, SSL_CERT_FILE; Node: NODE_EXTRA_CA_CERTS=mayfly-ca.crt"
    )
