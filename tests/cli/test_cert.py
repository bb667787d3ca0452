"""The authority's certificate in the forms that programs read."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import Result
from cryptography.hazmat.primitives.serialization import Encoding, pkcs12

from mayflydb.serving.certificates import Authority

if TYPE_CHECKING:
    from cli.conftest import AdminStub

Export = Callable[..., Result]


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return Authority(tmp_path_factory.mktemp("authority")).ca_pem()


@pytest.fixture
def export(server: AdminStub, run: Callable[..., Result], pem: bytes) -> Export:
    """`mayfly cert export` of a server that has this certificate."""
    server.answers["GET", "/_mayfly/cert"] = (200, pem)
    return lambda *arguments: run("--url", server.url, "cert", "export", *map(str, arguments))


def trusted(content: bytes, password: str) -> list[str]:
    found = pkcs12.load_pkcs12(content, password.encode())
    assert found.key is None and found.cert is None
    return [
        ssl.DER_cert_to_PEM_cert(each.certificate.public_bytes(Encoding.DER))
        for each in found.additional_certs
        if each.friendly_name == b"mayfly"
    ]


@pytest.mark.parametrize(
    ("name", "options", "form"),
    [
        ("mayfly.pem", (), "pem"),
        ("mayfly.crt", (), "pem"),
        ("mayfly", (), "pem"),
        ("mayfly.DER", (), "der"),
        ("mayfly.crt", ("--format", "der"), "der"),
        ("mayfly.p12", ("--format", "pem"), "pem"),
        ("mayfly.jks", ("--format", "pkcs12"), "changeit"),
        ("mayfly.p12", (), "changeit"),
        ("mayfly.pfx", ("--password", "geheim"), "geheim"),
    ],
)
def test_a_file_has_the_format_of_its_ending_or_of_the_option(
    export: Export, pem: bytes, tmp_path: Path, name: str, options: tuple[str, ...], form: str
) -> None:
    path = tmp_path / name
    assert export(path, *options).exit_code == 0
    if form == "pem":
        assert path.read_bytes() == pem
    elif form == "der":
        assert path.read_bytes() == ssl.PEM_cert_to_DER_cert(pem.decode())
    else:
        assert trusted(path.read_bytes(), form) == [pem.decode()]


def test_standard_output_takes_every_format(export: Export, pem: bytes) -> None:
    assert export().stdout_bytes == pem
    assert export("--format", "der").stdout_bytes == ssl.PEM_cert_to_DER_cert(pem.decode())
    assert trusted(export("--format", "pkcs12").stdout_bytes, "changeit") == [pem.decode()]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("mayfly.jks",), "every Java from 8 on reads pkcs12"),
        (("--password", "x"), "--password goes with pkcs12 alone"),
        (("mayfly.der", "--password", "x"), "--password goes with pkcs12 alone"),
        (("mayfly.p12", "--password", ""), "Java opens no pkcs12 file whose password is empty"),
        (("--format", "jks"), "'jks' is not one of 'pem', 'der', 'pkcs12'"),
    ],
)
def test_what_would_have_no_effect_is_refused(
    export: Export, server: AdminStub, arguments: tuple[str, ...], said: str
) -> None:
    refused = export(*arguments)
    assert refused.exit_code == 2 and said in refused.output
    assert server.asked == []


@pytest.mark.skipif(shutil.which("keytool") is None, reason="Java is not installed")
def test_java_trusts_the_exported_certificate(export: Export, tmp_path: Path) -> None:
    """keytool counts an entry as trusted only if it has Java's attribute."""
    path = tmp_path / "mayfly.p12"
    export(path)
    listed = subprocess.run(
        ["keytool", "-list", "-keystore", path, "-storepass", "changeit"], capture_output=True, text=True, check=True
    ).stdout
    assert "1 entry" in listed and "mayfly," in listed and "trustedCertEntry" in listed
