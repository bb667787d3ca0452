"""Which tokens are accepted: signature, issuer, audience, times, and keys that change."""

from __future__ import annotations

import asyncio
import json
from base64 import urlsafe_b64encode
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import jwt
import pytest

from frontends.cosmos import issuer
from frontends.cosmos.issuer import AUDIENCE, NAME, key_set, sign
from mayflydb.clock import wall_us
from mayflydb.frontends.cosmos.entra import key_sets, tokens
from mayflydb.frontends.cosmos.entra.key_sets import MAX_AGE, MIN_INTERVAL, KeySetError, read_keys
from mayflydb.frontends.cosmos.entra.tokens import KEPT_TOKENS, Issuer, Principal, TokenVerifier
from mayflydb.model.errors import Unauthenticated
from mayflydb.model.instant import SECOND


def now() -> int:
    """Return the seconds since 1970. A test may run long after it was collected."""
    return wall_us() // SECOND


class Ticking:
    """A stopwatch that a test moves."""

    def __init__(self) -> None:
        self.now = 1_000 * SECOND

    def __call__(self) -> int:
        return self.now


class World:
    """A verifier of one issuer whose keys are in a file."""

    def __init__(self, path: Path) -> None:
        self.path, self.stopwatch = path / "keys.json", Ticking()
        self.path.write_text(key_set("ec1", "rsa1"))
        self.verifier = TokenVerifier([Issuer(NAME, (AUDIENCE, "other"), str(self.path))], self.stopwatch)

    def verify(self, token: str, at: int | None = None) -> Principal:
        return asyncio.run(self.verifier.verify(token, wall_us() if at is None else at))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def unsigned(claims: dict[str, Any], **head: Any) -> str:
    parts = json.dumps({"alg": "none", "kid": "ec1", **head}), json.dumps(claims), ""
    return ".".join(urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in parts)


def signed_with_the_public_key() -> str:
    """A token that passes where a server takes the public key for a shared secret."""
    head, body = ({"alg": "HS256", "kid": "rsa1"}, {"iss": NAME, "aud": AUDIENCE, "oid": "a", "exp": now() + 60})
    parts = [urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in (head, body)]
    secret = json.dumps(issuer.public_jwk("rsa1")).encode()
    mac = jwt.get_algorithm_by_name("HS256").sign(".".join(parts).encode(), secret)
    return ".".join([*parts, urlsafe_b64encode(mac).decode().rstrip("=")])


ACCEPTED: dict[str, Callable[[], str]] = {
    "of an elliptic curve": sign,
    "of RSA": lambda: sign("rsa1"),
    "of RSA with PSS": lambda: sign("rsa1", algorithm="PS384"),
    "for one of several audiences": lambda: sign(aud=["x", "other"]),
    "without a beginning": lambda: sign(nbf=None),
    "that expired a little ago": lambda: sign(exp=now() - 240),
    "that begins soon": lambda: sign(nbf=now() + 240),
    "of another kind of issuer": lambda: sign(oid=None, sub="alice"),
    "of a key without an alg": lambda: sign("rsa1", algorithm="RS512"),
}
REFUSED: dict[str, tuple[Callable[[], str], str]] = {
    "expired": (lambda: sign(exp=now() - 301), "has expired"),
    "not valid yet": (lambda: sign(nbf=now() + 400), "not valid yet"),
    "without an end": (lambda: sign(exp=None), "claims are wrong"),
    "an end that is no number": (lambda: sign(exp="soon"), "(claims|numbers)"),
    "an endless end": (lambda: sign(exp=1e400), "(claims|numbers|no JSON)"),
    "for another audience": (lambda: sign(aud="https://graph.example"), "another audience"),
    "for no audience": (lambda: sign(aud=None), "(audience|claims)"),
    "of another issuer": (lambda: sign(iss="https://login.example/other/v2.0"), "its issuer"),
    "of no issuer": (lambda: sign(iss=None), "its issuer"),
    "an issuer that is a list": (lambda: unsigned({"iss": [NAME]}, alg="ES256"), "its issuer"),
    "of no holder": (lambda: sign(oid=None), "no principal"),
    "a holder that is no text": (lambda: sign(oid=5), "no principal"),
    "signed by another key": (lambda: sign(signer="ec2"), "signature"),
    "signed by a key that is not published": (lambda: sign("ec2"), "does not publish"),
    "a key of another kind": (lambda: sign("ec1", signer="rsa1", algorithm="RS256"), "signature"),
    "unsigned": (lambda: unsigned({"iss": NAME, "aud": AUDIENCE, "oid": "a", "exp": now() + 60}), "algorithm"),
    "signed with the public key": (signed_with_the_public_key, "algorithm"),
    "without a key id": (lambda: jwt.encode({"iss": NAME}, issuer.private_key("ec1"), "ES256"), "does not publish"),
    "changed afterwards": (lambda: sign()[:-8] + "AAAAAAAA", "signature"),
    "cut": (lambda: sign()[:40], "no JSON Web Token"),
    "empty": (lambda: "", "no JSON Web Token"),
    "no text": (lambda: "\udc80.\udc80.\udc80", "no JSON Web Token"),
    "deep": (lambda: unsigned({}, deep=0).replace("e30", "WyIi" * 3000), "no JSON Web Token"),
    "large": (lambda: sign(pad="x" * 20_000), "more than"),
}


@pytest.mark.parametrize("kind", ACCEPTED)
def test_accepted(world: World, kind: str) -> None:
    assert world.verify(ACCEPTED[kind]()).ids == ("alice",)


@pytest.mark.parametrize("kind", REFUSED)
def test_refused(world: World, kind: str) -> None:
    make, said = REFUSED[kind]
    token = make()
    with pytest.raises(Unauthenticated, match=said) as refused:
        world.verify(token)
    assert not token or token not in refused.value.message


def test_groups_are_principals(world: World) -> None:
    assert world.verify(sign(groups=["g1", 5, "g2"])).ids == ("alice", "g1", "g2")
    assert world.verify(sign(groups="g1")).ids == ("alice",)
    assert len(world.verify(sign(groups=[str(n) for n in range(1000)])).ids) == 1 + tokens.MAX_GROUPS


def test_an_accepted_token_expires_nevertheless(world: World) -> None:
    token = sign()
    world.verify(token)
    with pytest.raises(Unauthenticated, match="has expired"):
        world.verify(token, wall_us() + 2 * 86_400 * SECOND)


def test_accepted_tokens_are_kept_within_a_limit(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "KEPT_TOKENS", 5)
    assert KEPT_TOKENS >= 5
    for number in range(20):
        world.verify(sign(jti=str(number)))
    assert len(world.verifier._kept) == 5


def test_keys_change(world: World) -> None:
    world.verify(sign())
    world.path.write_text(key_set("ec2"))
    # An id that is not known makes the keys be read again, but not at each request.
    with pytest.raises(Unauthenticated, match="does not publish"):
        world.verify(sign("ec2"))
    world.stopwatch.now += MIN_INTERVAL
    world.verify(sign("ec2"))
    with pytest.raises(Unauthenticated, match="does not publish"):
        world.verify(sign("ec1", jti="another"))


def test_a_withdrawn_key_ends_within_an_hour(world: World) -> None:
    world.verify(sign())
    world.path.write_text(key_set("ec2"))
    world.stopwatch.now += MAX_AGE

    async def ask_twice() -> None:
        await world.verifier.verify(sign(jti="1"), wall_us())
        reading = world.verifier._issuers[NAME][1]._reading
        assert reading is not None
        await reading
        with pytest.raises(Unauthenticated, match="does not publish"):
            await world.verifier.verify(sign(jti="2"), wall_us())

    asyncio.run(ask_twice())


def test_many_clients_read_the_keys_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def count(place: str) -> key_sets.Keys:
        read.append(place)
        return read_keys(place)

    monkeypatch.setattr(key_sets, "read_keys", count)

    async def ask_together() -> None:
        asked = [world.verifier.verify(sign(jti=str(n)), wall_us()) for n in range(20)]
        assert {each.ids for each in await asyncio.gather(*asked)} == {("alice",)}

    asyncio.run(ask_together())
    assert len(read) == 1


def test_keys_that_cannot_be_read_refuse_tokens(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.path.unlink()
    with pytest.raises(Unauthenticated, match="does not publish"):
        world.verify(sign())
    assert [str(world.path) in record.message for record in caplog.records] == [True]


def test_an_issuer_that_answers_slowly_is_waited_for_within_a_limit(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    given = Event()
    monkeypatch.setattr(key_sets, "TIMEOUT_SECONDS", 0.01)
    monkeypatch.setattr(key_sets, "read_keys", lambda _: given.wait(60))

    async def ask() -> None:
        with pytest.raises(Unauthenticated, match="does not publish"):
            await world.verifier.verify(sign(), wall_us())
        given.set()

    asyncio.run(ask())
    assert "no answer in time" in caplog.text


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[]", "5", '{"keys": 5}', '{"keys": []}', '{"keys": [{}]}', '{"keys": [{"kty": "RSA", "n": "x"}]}',
     '{"keys": [5]}', "[" * 100_000, " " * (key_sets.MAX_BYTES + 1)],
)  # fmt: skip
def test_a_file_that_is_no_key_set(tmp_path: Path, text: str) -> None:
    path = tmp_path / "keys.json"
    path.write_text(text)
    with pytest.raises(KeySetError):
        read_keys(str(path))


def test_keys_that_sign_nothing_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    secret = {"kty": "oct", "k": "c2VjcmV0", "kid": "s", "alg": "HS256"}
    encrypts = {**issuer.public_jwk("rsa1"), "use": "enc", "kid": "e"}
    nameless = {name: value for name, value in issuer.public_jwk("ec1").items() if name != "kid"}
    path.write_text(json.dumps({"keys": [secret, encrypts, nameless, issuer.public_jwk("ec2")]}))
    assert set(read_keys(str(path))) == {"ec2"}
