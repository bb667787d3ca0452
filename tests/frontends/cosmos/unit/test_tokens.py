"""Session and continuation tokens."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayflydb.frontends.cosmos import continuation, session
from mayflydb.frontends.cosmos.session import SessionToken
from mayflydb.model.errors import BadRequest, NotFound


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", ()), ("0:-1#25", (SessionToken("0", -1, 25),)), ("0:25", (SessionToken("0", -1, 25),)),
        ("0:-1#25,1:-1#31", (SessionToken("0", -1, 25), SessionToken("1", -1, 31))),
        ("0:1#25#1=20#2=-1", (SessionToken("0", 1, 25, ((1, 20), (2, -1))),)),
        ("0:-1#25, 1:-1#31", (SessionToken("0", -1, 25), SessionToken("1", -1, 31))),
    ],
)  # fmt: skip
def test_session(text: str, tokens: tuple[SessionToken, ...]) -> None:
    assert session.parse(text) == tokens


@pytest.mark.parametrize(
    "text",
    [
        ",",
        "x",
        "0",
        "0:",
        ":1",
        "0:a#1",
        "0:1#",
        "0:1#2#",
        "0:1#2#3",
        "0:1#2#3=",
        "٣:1",
        "0:1#2,",
        "0:" + "1" * 40,
        "0:1#" + "1" * 19,
    ],
)
def test_bad_session(text: str) -> None:
    with pytest.raises(BadRequest, match="session"):
        session.parse(text)


def test_many_sessions() -> None:
    assert len(session.parse(",".join(["0:-1#1"] * 1000))) == 1000
    with pytest.raises(BadRequest):
        session.parse(",".join(["0:-1#1"] * 1001))


def test_session_round_trip() -> None:
    text = session.render((b"0", b"1"), 7, 25)
    assert text == b"0:7#25,1:7#25"
    assert session.parse(text.decode()) == (SessionToken("0", 7, 25), SessionToken("1", 7, 25))


@pytest.mark.parametrize(
    ("text", "reached"),
    [("0:7#5", True), ("0:7#6", False), ("0:-1#5", True), ("0:-1#6", False), ("0:6", False), ("", True),
     ("0:8#6", True), ("0:8#6,1:7#5", True), ("0:8#6,1:7#6", False), ("0:7#6#1=2", False), ("0:8#6#1=2", True)],
)  # fmt: skip
def test_session_check(text: str, reached: bool) -> None:
    """Container 7 has come to lsn 5; tokens of others do not count."""
    if reached:
        session.check(text, 7, 5)
        return
    with pytest.raises(NotFound) as caught:
        session.check(text, 7, 5)
    assert caught.value.detail["substatus"] == 1002


SECRET = b"s" * 32
BOUND = continuation.binding(5, "SELECT * FROM c", [{"name": "@a", "value": 1}], ["0", None])
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
)


@given(payload=st.lists(SCALARS | st.binary(max_size=60), max_size=4))
def test_continuation(payload: list[continuation.Scalar]) -> None:
    token = continuation.seal(SECRET, BOUND, tuple(payload))
    assert token.isascii() and token.isprintable() and len(token) < 1024
    assert continuation.unseal(SECRET, BOUND, token) == tuple(payload)


@pytest.mark.parametrize(
    "other",
    [(6, "SELECT * FROM c", [{"name": "@a", "value": 1}], ["0", None]), (5, "SELECT  * FROM c", [{"name": "@a",
     "value": 1}], ["0", None]),
     (5, "SELECT * FROM c", [{"name": "@a", "value": 2}], ["0", None]), (5, "SELECT * FROM c", [{"name": "@a",
      "value": 1}], ["1", None]),
     (5, "SELECT * FROM c", None, ["0", None])],
)  # fmt: skip
def test_foreign_continuation(other: tuple[int, str, object, object]) -> None:
    token = continuation.seal(SECRET, BOUND, (1, b"p"))
    with pytest.raises(BadRequest, match="x-ms-continuation"):
        continuation.unseal(SECRET, continuation.binding(*other), token)
    with pytest.raises(BadRequest):
        continuation.unseal(b"t" * 32, BOUND, token)


def test_edited_continuation() -> None:
    raw = bytearray(base64.b64decode(continuation.seal(SECRET, BOUND, (1, b"p"))))
    for position in range(len(raw)):
        edited = bytes(raw[:position]) + bytes((raw[position] ^ 1,)) + bytes(raw[position + 1 :])
        with pytest.raises(BadRequest):
            continuation.unseal(SECRET, BOUND, base64.b64encode(edited).decode())


@pytest.mark.parametrize("token", ["", "a", "é", "====", "A" * 24, "A" * 50_000, "\ud800"])
def test_garbage_continuation(token: str) -> None:
    with pytest.raises(BadRequest):
        continuation.unseal(SECRET, BOUND, token)


@pytest.mark.parametrize(("key", "below"), [(16 + 602, 1000), (3 * (16 + 2050), 12_000)])
def test_continuation_length(key: int, below: int) -> None:
    token = continuation.seal(SECRET, BOUND, (b"p" * key, 2**63 - 1, "HASHED", None))
    assert len(token) < below and continuation.unseal(SECRET, BOUND, token)[0] == b"p" * key


def test_continuation_too_long() -> None:
    with pytest.raises(ValueError, match="over the limit"):
        continuation.seal(SECRET, BOUND, (b"p" * 9000,))
