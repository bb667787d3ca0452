"""The server's side of SCRAM: RFC 5802 with SHA-1 and MongoDB's own digest of the password, RFC 7677 with SHA-256.

Only StoredKey and ServerKey of a password are stored. A login therefore costs a few HMACs, and a thief of the keys
cannot log in with them. The messages:

    client first   n,,n=<user>,r=<client nonce>
    server first   r=<client nonce><server nonce>,s=<salt>,i=<iterations>
    client final   c=<base64 of the GS2 header>,r=<both nonces>,p=<ClientProof>
    server final   v=<ServerSignature>

AuthMessage is `n=...` of the first message, the second, and the third without its proof, joined by commas.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import stringprep
import unicodedata
from typing import Final, NamedTuple

import msgspec

SHA_256, SHA_1 = "SCRAM-SHA-256", "SCRAM-SHA-1"

ITERATIONS: Final = {SHA_256: 15_000, SHA_1: 10_000}
_HASHES: Final = {SHA_256: "sha256", SHA_1: "sha1"}
_SALT: Final = {SHA_256: 28, SHA_1: 16}
"""Bytes of a salt: with the counter of PBKDF2 (4 bytes) as long as the hash's result, as MongoDB's are."""


class LoginRejected(Exception):
    """The login fails. The client is not told the reason."""


class Credential(msgspec.Struct, frozen=True):
    """The keys that are stored for one password and one mechanism; bytes are in base64."""

    salt: str
    iterations: int
    stored_key: str
    server_key: str


def prepare_password(password: str) -> str:
    """Apply SASLprep (RFC 4013) to a password, as for storage. Raise ValueError for characters that it prohibits."""
    mapped = "".join(
        " " if stringprep.in_table_c12(each) else each for each in password if not stringprep.in_table_b1(each)
    )
    # The steps of RFC 3454: map, normalize, prohibit, check the direction. It is defined by the tables of Unicode 3.2.
    text = unicodedata.ucd_3_2_0.normalize("NFKC", mapped)
    if any(_is_prohibited(each) for each in text):
        raise ValueError("a password holds a character that may not be in one")
    if any(map(stringprep.in_table_d1, text)):
        ends_wrong = not (stringprep.in_table_d1(text[0]) and stringprep.in_table_d1(text[-1]))
        if ends_wrong or any(map(stringprep.in_table_d2, text)):
            raise ValueError("a password mixes characters that run left and right")
    return text


def _is_prohibited(character: str) -> bool:
    return any(
        within(character)
        for within in (
            stringprep.in_table_a1,
            stringprep.in_table_c12,
            stringprep.in_table_c21_c22,
            stringprep.in_table_c3,
            stringprep.in_table_c4,
            stringprep.in_table_c5,
            stringprep.in_table_c6,
            stringprep.in_table_c7,
            stringprep.in_table_c8,
            stringprep.in_table_c9,
        )
    )


def derive_credential(
    mechanism: str, user: str, password: str, salt: bytes, iterations: int | None = None
) -> Credential:
    """Derive the keys that are stored for a password. Raise ValueError for a password that SASLprep refuses.

    The derivation takes some milliseconds on purpose: it makes guessing expensive.
    """
    hash_name = _HASHES[mechanism]
    rounds = ITERATIONS[mechanism] if iterations is None else iterations
    secret = prepare_password(password) if mechanism == SHA_256 else _mongo_digest(user, password)
    # SaltedPassword; StoredKey = H(ClientKey). ClientKey itself is not stored.
    salted = hashlib.pbkdf2_hmac(hash_name, secret.encode(), salt, rounds)
    stored = hashlib.new(hash_name, hmac.digest(salted, b"Client Key", hash_name)).digest()
    return Credential(
        _to_base64(salt), rounds, _to_base64(stored), _to_base64(hmac.digest(salted, b"Server Key", hash_name))
    )


def _mongo_digest(user: str, password: str) -> str:
    """The digest that MongoDB uses as the password where the mechanism is SCRAM-SHA-1."""
    return hashlib.md5(f"{user}:mongo:{password}".encode(), usedforsecurity=False).hexdigest()


def salt_length(mechanism: str) -> int:
    """The length of a salt in bytes."""
    return _SALT[mechanism]


def fake_credential(mechanism: str, user: str, secret: bytes) -> Credential:
    """The credential that stands in for a user who does not exist. No password fits.

    The same name always gets the same salt, so that a client cannot tell such a user from a real one by asking twice.
    """

    def bytes_for(purpose: str) -> bytes:
        return hmac.digest(secret, f"{purpose}\0{mechanism}\0{user}".encode("utf-8", "surrogatepass"), "sha512")

    size = hashlib.new(_HASHES[mechanism]).digest_size
    keys = _to_base64(bytes_for("stored")[:size]), _to_base64(bytes_for("server")[:size])
    return Credential(_to_base64(bytes_for("salt")[: _SALT[mechanism]]), ITERATIONS[mechanism], *keys)


class ClientFirst(NamedTuple):
    """The client's first message: GS2 header, the message without it, the user's name, the client's nonce."""

    header: bytes
    bare: bytes
    user: str
    nonce: bytes


def parse_client_first(payload: bytes) -> ClientFirst:
    """Parse the client's first message.

    Raise LoginRejected for a malformed message, and for one that asks for channel binding or to act as another user.
    """
    parts = payload.split(b",", 2)
    # n: the client has no channel binding; y: it has, and thinks that the server has not. p asks for one.
    if len(parts) != 3 or parts[0] not in (b"n", b"y"):
        raise LoginRejected("no channel is bound here")
    header, bare = b",".join(parts[:2]) + b",", parts[2]
    attributes = bare.split(b",")
    if len(attributes) < 2 or attributes[0][:2] != b"n=" or attributes[1][:2] != b"r=" or len(attributes[1]) < 3:
        raise LoginRejected("the first message has n and r, in this order")
    user = _unescape_name(attributes[0][2:])
    if parts[1] and (parts[1][:2] != b"a=" or _unescape_name(parts[1][2:]) != user):
        raise LoginRejected("a user may only log in as itself")
    return ClientFirst(header, bare, user, attributes[1][2:])


def _unescape_name(escaped: bytes) -> str:
    """Decode a name, in which a comma is written as =2C and an equals sign as =3D."""
    pieces = escaped.split(b"=")
    if not escaped or any(piece[:2] not in (b"2C", b"3D") for piece in pieces[1:]):
        raise LoginRejected("a name is empty or not escaped")
    try:
        return escaped.replace(b"=2C", b",").replace(b"=3D", b"=").decode()
    except UnicodeDecodeError as error:
        raise LoginRejected("a name is no UTF-8") from error


class Conversation:
    """A login in progress, from the client's first message on.

    `nonce`: the server's part of the nonce, printable and without commas.
    """

    def __init__(self, mechanism: str, first: ClientFirst, credential: Credential, nonce: str) -> None:
        self._hash = _HASHES[mechanism]
        self._credential = credential
        self._nonce = first.nonce + nonce.encode()
        self._first = first
        self.server_first = b"r=%b,s=%b,i=%d" % (self._nonce, credential.salt.encode(), credential.iterations)

    def verify_proof(self, payload: bytes) -> bytes:
        """Check the client's proof and return the server's last message. Raise LoginRejected for a wrong proof."""
        without_proof, found, proof = payload.rpartition(b",p=")
        attributes = without_proof.split(b",")
        if not found or len(attributes) < 2:
            raise LoginRejected("the last message has c, r and p, in this order")
        # The proof covers this copy of the header, so a change of the first one on the way is seen.
        if attributes[0] != b"c=" + base64.b64encode(self._first.header):
            raise LoginRejected("another header than in the first message")
        if not hmac.compare_digest(attributes[1], b"r=" + self._nonce):
            raise LoginRejected("another nonce than in the first message")
        auth_message = b",".join((self._first.bare, self.server_first, without_proof))
        stored, server = map(base64.b64decode, (self._credential.stored_key, self._credential.server_key))
        # ClientProof = ClientKey XOR HMAC(StoredKey, AuthMessage), so the stored key gives ClientKey back, and its hash
        # must be the stored key. Comparisons take constant time.
        client_signature = hmac.digest(stored, auth_message, self._hash)
        client_proof = _from_base64(proof)
        if len(client_proof) != len(client_signature):
            raise LoginRejected("a proof of another length")
        client_key = bytes(left ^ right for left, right in zip(client_proof, client_signature, strict=True))
        if not hmac.compare_digest(hashlib.new(self._hash, client_key).digest(), stored):
            raise LoginRejected("the password is another one")
        # Only a server that knows ServerKey can answer this: the client checks the server, too.
        return b"v=" + base64.b64encode(hmac.digest(server, auth_message, self._hash))


def _from_base64(text: bytes) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise LoginRejected("no base64") from error


def _to_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
