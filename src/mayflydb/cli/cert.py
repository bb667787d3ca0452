"""`mayfly cert`: the certificate of the authority that clients of TLS have to trust."""

from __future__ import annotations

import hashlib
import shlex
import ssl
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import click

from mayflydb.cli.admin import NOT_READY, REFUSED, CommandFailed, admin_client, ask_to_confirm
from mayflydb.cli.output import output_option, show
from mayflydb.cli.system_trust import AuthorityFile, StoreChange, look_at_machine, plan_trust, plan_undo, run_commands
from mayflydb.model.instant import from_datetime, to_rfc3339

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

FORMATS: Final = ("pem", "der", "pkcs12")

JAVA_PASSWORD: Final = "changeit"  # noqa: S105 - it keeps nothing secret: Java wants one
"""The password of the truststore that comes with Java."""


@click.group()
def cert() -> None:
    """Show, export and trust the certificate that clients of TLS check."""


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
@click.option("--undo", is_flag=True, help="Take the certificate out of the store again.")
@click.option(
    "--ca-file",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="The authority's certificate (PEM). Default: that of the running server.",
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.pass_context
def trust(ctx: click.Context, undo: bool, ca_file: Path | None, yes: bool) -> None:
    """Make this system trust the authority: Debian, Ubuntu, Fedora, RHEL, macOS, Windows.

    The commands for it are shown first, and run when you agree. Programs with a list of authorities of their own, such as Node,
    Firefox and most installations of Java, do not read this store.
    """
    pem = _read(ca_file) if ca_file is not None else admin_client(ctx).read_certificate()
    certificate = _load_authority(pem)
    with tempfile.TemporaryDirectory(prefix="mayfly-") as folder:
        authority = _write_authority(certificate, Path(folder) / "mayfly.crt")
        plan = (plan_undo if undo else plan_trust)(look_at_machine(), authority)
        click.echo(_describe_plan(certificate, plan, undo=undo), err=True)
        ask_to_confirm("Run these commands?", yes=yes)
        run_commands(plan.commands)
    click.echo(f"{plan.store} {'no longer has' if undo else 'has'} the certificate")


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandFailed(f"{path} cannot be read as PEM: {error}") from error


def _load_authority(pem: str) -> Certificate:
    from cryptography import x509

    try:
        (certificate,) = x509.load_pem_x509_certificates(pem.encode("ascii"))
    except ValueError as error:
        raise CommandFailed(f"this is not one certificate in PEM: {error}") from error
    if not _signs(certificate):
        raise CommandFailed(
            "the certificate is no authority's: systems trust those that sign, and this one is a server's own",
            hint="mayfly cert export mayfly.pem, and give clients the file itself",
            exit_code=REFUSED,
        )
    return certificate


def _signs(certificate: Certificate) -> bool:
    from cryptography import x509

    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def _write_authority(certificate: Certificate, file: Path) -> AuthorityFile:
    from cryptography.hazmat.primitives.serialization import Encoding

    file.write_bytes(certificate.public_bytes(Encoding.PEM))
    der = certificate.public_bytes(Encoding.DER)
    # macOS and Windows name certificates by SHA-1.
    sha1 = hashlib.sha1(der, usedforsecurity=False).hexdigest().upper()
    return AuthorityFile(file, sha1, hashlib.sha256(der).hexdigest())


def _describe_plan(certificate: Certificate, plan: StoreChange, *, undo: bool) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    change = "is taken out of" if undo else "is added to"
    danger = "A program that has the authority's private key can then pose as any site to this machine.\n"
    return (
        f"{certificate.subject.rfc4514_string()} {change} {plan.store}.\n"
        f"SHA-256: {_fingerprint(certificate.public_bytes(Encoding.DER))}\n"
        f"Valid until: {to_rfc3339(from_datetime(certificate.not_valid_after_utc))}\n"
        f"{'' if undo else danger}Commands:\n" + "\n".join(f"  {shlex.join(each)}" for each in plan.commands)
    )
