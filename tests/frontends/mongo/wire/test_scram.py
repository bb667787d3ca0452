"""SCRAM: the examples of RFC 5802 and RFC 7677, and messages that must be rejected."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from mayflydb.frontends.mongo.accounts import scram
from mayflydb.frontends.mongo.accounts.scram import SHA_1, SHA_256, Conversation, Credential, LoginRejected

FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
LAST = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="


def begin(credential: Credential | None = None) -> Conversation:
    known = credential or scram.derive_credential(SHA_256, "user", "pencil", SALT, 4096)
    return Conversation(SHA_256, scram.parse_client_first(FIRST), known, NONCE)


def test_the_example_of_rfc_7677() -> None:
    conversation = begin()
    assert conversation.server_first == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    assert conversation.verify_proof(LAST) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_the_example_of_rfc_5802(monkeypatch: pytest.MonkeyPatch) -> None:
    # There the password is hashed as it is; MongoDB hashes a digest of it.
    monkeypatch.setattr(scram, "_mongo_digest", lambda user, password: password)
    kept = scram.derive_credential(SHA_1, "user", "pencil", base64.b64decode("QSXCR+Q6sek8bf92"), 4096)
    conversation = Conversation(
        SHA_1, scram.parse_client_first(b"n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL"), kept, "3rfcNHYJY1ZVvWVs7j"
    )
    last = b"c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts="
    assert conversation.verify_proof(last) == b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ="


def test_mongodb_hashes_a_digest_where_it_uses_sha_1() -> None:
    digest = hashlib.md5(b"user:mongo:pencil").hexdigest()
    salted = hashlib.pbkdf2_hmac("sha1", digest.encode(), b"salt", 10_000)
    stored = hashlib.sha1(hmac.digest(salted, b"Client Key", "sha1")).digest()
    assert scram.derive_credential(SHA_1, "user", "pencil", b"salt").stored_key == base64.b64encode(stored).decode()


@pytest.mark.parametrize(
    "last",
    [
        LAST.replace(b"p=dH", b"p=dG"),
        LAST.replace(b"p=dH", b"p=!!"),
        LAST[: LAST.index(b",p=")],
        LAST[: LAST.index(b"p=") + 2],
        LAST.replace(b"biws", b"eSws"),
        LAST.replace(b"$k0", b"$k1"),
        LAST.replace(b"c=biws,", b""),
        b"",
        b",p=",
        b",,p=AAAA",
    ],
)
def test_last_messages_that_prove_nothing(last: bytes) -> None:
    with pytest.raises(LoginRejected):
        begin().verify_proof(last)


@pytest.mark.parametrize(
    ("payload", "user"),
    [
        (b"n,,n=user,r=x", "user"),
        (b"y,,n=user,r=x", "user"),
        (b"n,a=user,n=user,r=x", "user"),
        (b"n,,n=a=2Cb=3Dc,r=x", "a,b=c"),
        (b"n,,n==3D2C,r=x", "=2C"),
        ("n,,n=äö,r=x".encode(), "äö"),
        (b"n,,n=user,r=x,ext=1", "user"),
    ],
)
def test_names(payload: bytes, user: str) -> None:
    assert scram.parse_client_first(payload).user == user


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"n",
        b"n,,",
        b"n,,r=x,n=user",
        b"n,,n=user",
        b"n,,n=user,r=",
        b"n,,n=,r=x",
        b"n,,m=ext,n=user,r=x",
        b"n,,n=a=b,r=x",
        b"n,,n=\xff,r=x",
        b"p=tls-unique,,n=user,r=x",
        b"n,a=root,n=user,r=x",
        b"z,,n=user,r=x",
    ],
)
def test_first_messages_that_are_refused(payload: bytes) -> None:
    with pytest.raises(LoginRejected):
        scram.parse_client_first(payload)


def test_an_unknown_user_always_has_the_same_fake_salt() -> None:
    made = scram.fake_credential(SHA_256, "admin.nobody", b"secret")
    assert made == scram.fake_credential(SHA_256, "admin.nobody", b"secret")
    assert made.salt != scram.fake_credential(SHA_256, "admin.noone", b"secret").salt
    real = scram.derive_credential(SHA_256, "user", "pencil", b"x" * scram.salt_length(SHA_256), 1)
    assert [len(made.salt), len(made.stored_key)] == [len(real.salt), len(real.stored_key)]
    assert made.iterations == scram.ITERATIONS[SHA_256] == 15_000
    with pytest.raises(LoginRejected):
        begin(made).verify_proof(LAST)


@pytest.mark.parametrize(
    ("password", "stored"),
    # The examples of RFC 4013.
    [("I\u00adX", "IX"), ("user", "user"), ("USER", "USER"), ("\u00aa", "a"), ("\u2168", "IX"), ("a\u00a0b", "a b")],
)
def test_passwords_are_prepared(password: str, stored: str) -> None:
    assert scram.prepare_password(password) == stored


@pytest.mark.parametrize("password", ["\u0007", "\u0627\u0031", "a\u0627"])
def test_passwords_that_cannot_be(password: str) -> None:
    with pytest.raises(ValueError, match="password"):
        scram.prepare_password(password)
