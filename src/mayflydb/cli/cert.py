"""`mayfly cert`: the certificate of the authority that clients of TLS have to trust."""

from __future__ import annotations

import hashlib
import ssl
from pathlib import Path

import click

from mayflydb.cli.admin import CommandFailed, admin_client
from mayflydb.cli.output import output_option, show


@click.group()
def cert() -> None:
    """Show and export the certificate that clients of TLS have to trust."""


@cert.command("show")
@output_option
@click.pass_context
def show_certificate(ctx: click.Context) -> None:
    """Show the fingerprint of the authority's certificate (SHA-256 of its DER form)."""
    der = ssl.PEM_cert_to_DER_cert(admin_client(ctx).read_certificate())
    digest = hashlib.sha256(der).hexdigest().upper()
    show(ctx, {"sha256": ":".join(digest[n : n + 2] for n in range(0, len(digest), 2))})


@cert.command()
@click.argument("path", required=False, type=click.Path(path_type=Path, dir_okay=False))
@click.pass_context
def export(ctx: click.Context, path: Path | None) -> None:
    """Write the authority's certificate (PEM) to PATH, or to standard output."""
    pem = admin_client(ctx).read_certificate()
    if path is None:
        click.echo(pem, nl=False)
        return
    try:
        path.write_text(pem, encoding="ascii")
    except OSError as error:
        raise CommandFailed(f"{path} cannot be written: {error.strerror}") from error


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
